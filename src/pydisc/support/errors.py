"""The errors pydisc raises itself. Each says what, where, why, and what to try."""

from typing import Any

from pydisc.support.source import SourceLine


class PydiscError(Exception):
    """Anything that pydisc reports as wrong, other than a bad argument (`ValueError`)."""


class Unsupported(PydiscError):
    """The compiler has no way to do this; the caller falls back to eager and explains it."""

    def __init__(
        self, what: str, why: str, hint: str = "", where: SourceLine | None = None
    ) -> None:
        self.what = what
        self.why = why
        self.hint = hint
        self.where = where
        text = f"{what}: {why}"
        if where is not None:
            text += f"\n  at:  {where}"
        if hint:
            text += f"\n  try: {hint}"
        super().__init__(text)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.why, self.hint, self.where)


class InternalError(PydiscError):
    """An invariant of the compiler is broken: a fault of pydisc, not of the user's program."""

    def __init__(self, message: str, repro: str | None = None) -> None:
        self.message = message
        self.repro = repro
        text = f"{message}\n  this is a fault of pydisc, not of your model"
        if repro is not None:
            text += f"\n  repro: {repro}\n  try: pydisc replay {repro}"
        super().__init__(text)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.repro)
