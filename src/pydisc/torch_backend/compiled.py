"""A compiled model: picks the trace that fits a call, makes a new one when none does."""

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pydisc.compiler.replay import write_repro
from pydisc.compiler.report import Fallback, Report
from pydisc.frontend import capture, tensor_shapes
from pydisc.runtime.loaded_program import CheckFailed
from pydisc.shape import DeclaredDims
from pydisc.support import knobs
from pydisc.support.errors import InternalError, PydiscError, Unsupported
from pydisc.support.log import warn_once
from pydisc.torch_backend.dynamo import disc
from pydisc.torch_backend.eager_reasons import GRADIENTS, device_of, needs_grad, warn_fallback
from pydisc.torch_backend.variant import NeedsEager, Variant, compile_variant
from pydisc.torch_backend.weight_sources import REGISTRATIONS

MAX_TRACES = 32
"""Traces of one model before further branches run in eager mode."""

_grad_enabled = torch.is_grad_enabled
_any_autocast = torch._C._is_any_autocast_enabled
_PLAIN_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device)


@dataclass(frozen=True)
class Result:
    """What a call gave."""

    value: Any


class _Structure:
    """Traces for one nesting of arguments and one set of non-tensor arguments."""

    def __init__(self) -> None:
        self.variants: list[Variant] = []
        self.eager: Fallback | None = None
        """Why calls that no trace here serves get no new one."""
        self.dynamo: Callable[..., Any] | None = None
        """torch.compile of the model, where Dynamo stands in for the tracer."""


class CompiledModel:
    """A model (or function) that runs compiled. Made by `pydisc.compile` and `pydisc.optimize`.

    Attributes of the model are reachable through it. `report()` tells what was compiled.
    """

    def __init__(self, model: Callable[..., Any], dims: DeclaredDims | None = None) -> None:
        self._model = model
        self._dims = dims
        self._module = model if isinstance(model, torch.nn.Module) else None
        self._structures: dict[Any, _Structure] = {}
        self._of_tensors: dict[Any, _Structure] = {}
        """Those of calls with nothing but tensors, by position: found without taking them apart."""
        self._lock = threading.RLock()
        self._registrations = REGISTRATIONS[0]
        self._compiles = 0
        self._calls = 0
        self._eager_calls = 0
        self._fallbacks: dict[Fallback, None] = {}
        self._seconds: dict[str, float] = {}
        function = model.forward if self._module is not None else model
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self._signature = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_model"], name)

    def __repr__(self) -> str:
        return f"CompiledModel({type(self._model).__name__}, {self._compiles} compiles)"

    # -- calls ---------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on these arguments."""
        if self._registrations != REGISTRATIONS[0]:
            self._follow_module()
        leaves: Sequence[torch.Tensor] = args
        structure = kinds = None
        if not (kwargs or _any_autocast()):
            module = self._module
            kinds = (module is not None and module.training, *map(type, args))
            structure = self._of_tensors.get(kinds)
        if structure is None:
            leaves, key = self._flatten(args, kwargs)
            structure = self._structures.get(key)
            if kinds is not None and structure is not None and _PLAIN_TENSORS.issuperset(kinds[1:]):
                self._of_tensors[kinds] = structure
        if structure is not None and structure.variants:
            variant = structure.variants[0]
            dense = variant.dense(leaves)
            if dense is not None and not (_grad_enabled() and variant.needs_grad(leaves)):
                for variant in structure.variants:
                    try:
                        result = variant(leaves, dense)
                    except (CheckFailed, NeedsEager):
                        continue
                    self._calls += 1
                    return result
        return self._slow(args, kwargs)

    def _follow_module(self) -> None:
        """Parameters or buffers were registered somewhere: are ours still the module's?"""
        with self._lock:
            self._registrations = REGISTRATIONS[0]
            for structure in self._structures.values():
                structure.variants = [v for v in structure.variants if v.follow_module()]

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
        """Tensor leaves, and a key for everything else that a trace depends on."""
        module = self._module
        mode: Any = module is not None and module.training
        if _any_autocast():
            mode = (mode, torch.is_autocast_enabled("cpu"))
        tensors: list[Any] = []
        rest: list[Any] = []
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor):
                tensors.append(value)
                rest.append(torch.Tensor)
            elif type(value) in _PLAIN or value is None:
                rest.append((type(value), value))
            else:
                return self._flatten_deep(args, kwargs, mode)
        return tensors, (len(args), tuple(kwargs), tuple(rest), mode)

    def _flatten_deep(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Any
    ) -> tuple[list[Any], Any]:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        rest = tuple(
            torch.Tensor if isinstance(x, torch.Tensor) else (type(x), x if _hashable(x) else id(x))
            for x in leaves
        )
        return tensors, (spec, rest, mode)

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first call of a structure, a new branch, or a call that must run in eager mode."""
        self._check_arguments(args, kwargs)
        self._check_dims(args, kwargs)
        leaves, key = self._flatten(args, kwargs)
        reason = self._needs_eager(args, kwargs, leaves)
        if reason is not None:
            return self._run_eager(reason, args, kwargs)
        with self._lock:
            structure = self._structures.setdefault(key, _Structure())
            answer = self._answer(structure, args, kwargs, leaves)
            reason = structure.eager or Fallback("this call", "no trace fits it", "")
            route = structure.dynamo
        match answer:
            case Result(value):
                return value
            case Fallback():
                return self._run_eager(answer, args, kwargs)
        if route is not None:
            return self._run_dynamo(structure, route, args, kwargs)
        return self._run_eager(reason, args, kwargs)

    def _answer(
        self,
        structure: _Structure,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: Sequence[torch.Tensor],
    ) -> Result | Fallback | None:
        """The result by a trace, an old or a new one; else why the call must run in eager mode.

        None where that stands in the structure.
        """
        answer = self._try_variants(structure, leaves)
        if answer is not None or structure.eager is not None:
            return answer
        if len(structure.variants) >= MAX_TRACES:
            line = _most_guarded_line(structure.variants)
            structure.eager = Fallback("the model", f"more than {MAX_TRACES} traces", line)
            return None
        answer = self._new_variant(structure, args, kwargs)
        return answer or self._try_variants(structure, leaves)

    def _try_variants(
        self, structure: _Structure, leaves: Sequence[torch.Tensor]
    ) -> Result | Fallback | None:
        """The result of the trace that fits, or why the call must run in eager mode.

        None asks for a new trace.
        """
        if not structure.variants:
            return None
        dense = structure.variants[0].checked(leaves)
        if _grad_enabled() and structure.variants[0].needs_grad(leaves):
            return GRADIENTS
        failed: CheckFailed | None = None
        for variant in structure.variants:
            try:
                result = variant(leaves, dense)
            except CheckFailed as failure:
                failed = failure
                continue
            except NeedsEager as reason:
                return Fallback("this call", str(reason), "")
            self._calls += 1
            return Result(result)
        if failed is not None and failed.check.kind == "assert":
            where = failed.check.where
            return Fallback("this call", f"the model asserts {failed.check.text}", where)
        return None

    def _run_dynamo(
        self,
        structure: _Structure,
        route: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Let Dynamo split the model where Python needs data; its graphs are compiled by us."""
        try:
            return route(*args, **kwargs)
        except _dynamo_error() as error:
            structure.dynamo = None
            text = f"Dynamo cannot take it either: {str(error).splitlines()[0]}"
            structure.eager = Fallback("the model", text, "")
            return self._run_eager(structure.eager, args, kwargs)

    def _check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._signature is None:
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(f"the model's arguments: {error}") from None

    def _check_dims(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compare sizes with what the user declared."""
        if self._dims is not None:
            self._dims.check(tensor_shapes(self._model, args, kwargs))

    def _needs_eager(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[torch.Tensor]
    ) -> Fallback | None:
        """What is not compiled yet, whatever the model; ValueError for a wrong device."""
        if _grad_enabled() and needs_grad(leaves, self._module):
            return GRADIENTS
        if torch.is_autocast_enabled("cpu"):
            return Fallback("this call", "autocast is enabled", "")
        if any(type(t) not in _PLAIN_TENSORS for t in leaves):
            return Fallback("this call", "an input is a tensor subclass", "")
        wrong = next((t for t in leaves if not t.is_cpu), None)
        if wrong is None:
            return None
        if self._module is not None and (place := device_of(self._module)) is not None:
            if place.type == "cpu":
                name = self._name_of(wrong, args, kwargs)
                raise ValueError(
                    f"argument {name}: on device {wrong.device}, but the model is on {place}; "
                    f"move it with .to({str(place)!r})"
                )
        return Fallback("this call", "an input is not on the CPU", "")

    def _name_of(self, leaf: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The parameter that a tensor was given for."""
        if self._signature is None:
            return f"args[{args.index(leaf)}]" if leaf in args else "?"
        given = self._signature.bind(*args, **kwargs).arguments
        return next(
            name
            for name, value in given.items()
            if any(leaf is found for found in pytree.tree_leaves(value))
        )

    def _run_eager(self, reason: Fallback, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._model(*args, **kwargs)  # an error of the model is the user's to see
        self._eager_calls += 1
        if reason not in self._fallbacks:
            self._fallbacks[reason] = None
            warn_fallback(id(self), reason)
        return result

    # -- compiling -----------------------------------------------------------------------------
    def _new_variant(
        self, structure: _Structure, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Result | None:
        """Compile a trace for these arguments; on failure say why in `structure.eager`.

        Returns the result of the call where eager mode gave it: to find out whether the error of a
        trace is an error of the call. Then it is the user's, and says nothing about other calls.
        """
        try:
            variant = compile_variant(lambda: self._capture(args, kwargs), self._module)
        except Unsupported as error:
            answer = None
            if error.__cause__ is not None and not isinstance(error.__cause__, PydiscError):
                answer = self._eager_result(args, kwargs)
            if error.what.startswith("element type"):  # Dynamo's graphs would have it too
                structure.eager = Fallback(error.what, error.why, "")
            else:
                self._take_dynamo_route(structure, error)
            return answer
        except Exception as error:
            if knobs.current().on_error == "raise":
                raise
            answer = self._eager_result(args, kwargs)
            folder = write_repro(self._model, args, kwargs, error)
            fault = InternalError(f"{type(error).__name__}: {error}", str(folder))
            warn_once((id(self), "fault"), f"{fault}\n  the model runs in eager mode meanwhile")
            structure.eager = Fallback(
                "the model", f"a fault of the compiler: {error}", str(folder)
            )
            self._fallbacks[structure.eager] = None
            return answer
        self._add(structure, variant)
        return None

    def _eager_result(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
        result = self._model(*args, **kwargs)
        self._eager_calls += 1
        return Result(result)

    def _take_dynamo_route(self, structure: _Structure, error: Unsupported) -> None:
        """What cannot be traced as one graph goes through torch.compile, from the next line on."""
        why = f"{error.why}; Dynamo splits the model there"
        structure.eager = Fallback(error.what, why, str(error.where or ""))
        structure.dynamo = torch.compile(self._model, backend=disc, dynamic=True)
        self._fallbacks[structure.eager] = None
        warn_once((id(self), structure.eager), f"{error}\n  Dynamo splits the model there")

    def _add(self, structure: _Structure, variant: Variant) -> None:
        structure.variants.append(variant)
        self._compiles += 1
        for name, seconds in variant.info.seconds.items():
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds
        for fallback in variant.info.fallbacks:
            self._fallbacks[fallback] = None

    def _capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return capture(self._model, args, kwargs, state=self._module, declared=self._dims)

    def precompile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for this structure of arguments without running; raises what prevents it."""
        self._check_arguments(args, kwargs)
        self._check_dims(args, kwargs)
        leaves, key = self._flatten(args, kwargs)
        reason = self._needs_eager(args, kwargs, leaves)
        if reason is not None:
            raise Unsupported(reason.what, reason.reason)
        with self._lock:
            structure = self._structures.setdefault(key, _Structure())
            if not structure.variants:
                self._add(
                    structure, compile_variant(lambda: self._capture(args, kwargs), self._module)
                )

    def report(self) -> Report:
        """What was compiled, what was not, and why."""
        variants = [v for s in self._structures.values() for v in s.variants]
        return Report(
            tuple(v.info for v in variants),
            self._compiles,
            max(self._compiles - 1, 0),
            self._calls,
            self._eager_calls,
            tuple(self._fallbacks),
            dict(self._seconds),
        )


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _dynamo_error() -> type[Exception]:
    """Dynamo's own error. Only `torch.compile` loads Dynamo: it takes more than a second."""
    return sys.modules["torch._dynamo.exc"].TorchDynamoException


def _most_guarded_line(variants: Sequence[Variant]) -> str:
    """The line of the user's code that made most of the traces: a branch or a loop over a size."""
    guards = (g for v in variants for g in v.info.guards if g.kind != "assert")
    lines = Counter(g.where for g in guards if g.where)
    return max(lines, key=lines.__getitem__, default="")
