"""Every switch of pydisc: environment variable, type, default, help. There are no others.

Set one for a process with `PYDISC_<NAME>=value`, for a block with `with knobs.scope(name=value):`.
"""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal

_FALSE = frozenset({"", "0", "false", "no", "off"})
_TRUE = frozenset({"1", "true", "yes", "on"})


def _knob(
    default: Any, help: str, *, in_cache_key: bool = False, choices: tuple[str, ...] = ()
) -> Any:
    metadata = {"help": help, "in_cache_key": in_cache_key, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Knobs:
    """The values in force. Read them with `current()`."""

    debug: int = _knob(0, "0 quiet, 1 summary, 2 schedules, 3 kernels, 4 IR, to the log")
    dump: str = _knob("", "directory that receives every stage as a file `pydisc opt` reads again")
    verify: int = _knob(1, "0 no IR checks, 1 between stages, 2 after every pass")
    on_error: Literal["eager", "raise"] = _knob(
        "eager",
        "after a fault of the compiler: run the model in eager mode, or raise",
        choices=("eager", "raise"),
    )
    disable: str = _knob(
        "",
        "names of passes to skip, separated by commas; `chain`: attention in parts",
        in_cache_key=True,
    )
    time: bool = _knob(False, "log the seconds of each stage after a compile")
    progress: bool = _knob(False, "show the progress bar even where stderr is not a terminal")
    repro: str = _knob("", "directory for the repro folders of failed compiles (else a temporary)")
    cache: str = _knob(
        "", "directory of compiled kernels (default: pydisc in the user's cache), or `off`"
    )
    threads: int = _knob(0, "threads a call may use; 0 is as many as torch uses")

    @property
    def disabled(self) -> frozenset[str]:
        """The names in `disable` as a set."""
        return frozenset(name.strip() for name in self.disable.split(",") if name.strip())

    def cache_key(self) -> tuple[tuple[str, Any], ...]:
        """The knobs that change what is compiled, with their values."""
        return tuple(
            (f.name, getattr(self, f.name)) for f in fields(self) if f.metadata["in_cache_key"]
        )


@dataclass(frozen=True, slots=True)
class KnobInfo:
    """What the documentation says about one knob."""

    name: str
    env: str
    type: str
    default: object
    help: str
    in_cache_key: bool


def env_name(name: str) -> str:
    """The environment variable of a knob."""
    return f"PYDISC_{name.upper()}"


def table() -> tuple[KnobInfo, ...]:
    """All knobs, in the order of declaration."""
    return tuple(
        KnobInfo(
            f.name,
            env_name(f.name),
            type(f.default).__name__,
            f.default,
            f.metadata["help"],
            f.metadata["in_cache_key"],
        )
        for f in fields(Knobs)
    )


def _refuse(name: str, value: object, expected: str) -> ValueError:
    return ValueError(f"{env_name(name)}={value!r}: expected {expected}")


def _parse(f: "Field[Any]", text: str) -> Any:
    """The value that an environment variable's text means."""
    if isinstance(f.default, bool):
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise _refuse(f.name, text, "0 or 1")
    if isinstance(f.default, int):
        try:
            return int(text)
        except ValueError:
            raise _refuse(f.name, text, "a whole number") from None
    return text


def _check(values: Mapping[str, Any]) -> None:
    known = {f.name: f for f in fields(Knobs)}
    for name, value in values.items():
        f = known.get(name)
        if f is None:
            raise ValueError(f"no knob {name!r}; the knobs are {', '.join(known)}")
        if type(value) is not type(f.default):
            raise _refuse(name, value, f"a value of type {type(f.default).__name__}")
        choices = f.metadata["choices"]
        if choices and value not in choices:
            raise _refuse(name, value, " or ".join(choices))


def from_env(environ: Mapping[str, str]) -> Knobs:
    """The knobs that an environment sets; `ValueError` names the variable with a bad value."""
    found = {
        f.name: _parse(f, environ[env_name(f.name)])
        for f in fields(Knobs)
        if env_name(f.name) in environ
    }
    _check(found)
    return Knobs(**found)


_scoped: ContextVar[Knobs | None] = ContextVar("pydisc_knobs", default=None)


def current() -> Knobs:
    """The knobs in force here: those of the innermost `scope`, else the environment's.

    Reads the environment each time, so ask once a compile and pass the answer on.
    """
    return _scoped.get() or from_env(os.environ)


@contextmanager
def scope(**values: Any) -> Generator[Knobs]:
    """Set knobs inside a `with` block, in this thread only."""
    _check(values)
    token = _scoped.set(replace(current(), **values))
    try:
        yield current()
    finally:
        _scoped.reset(token)
