"""A compiled model: picks the trace that fits a call, makes a new one when none does."""

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.exc import TorchDynamoException
from torch.utils import _pytree as pytree

from pydisc.compiler.replay import write_repro
from pydisc.compiler.report import Fallback, Report
from pydisc.frontend import capture
from pydisc.runtime.dtypes import TORCH_DTYPE
from pydisc.runtime.loaded_program import CheckFailed
from pydisc.support import knobs
from pydisc.support.errors import InternalError, Unsupported
from pydisc.support.log import warn_once
from pydisc.torch_backend.dynamo import disc
from pydisc.torch_backend.variant import Variant, compile_variant
from pydisc.torch_backend.weight_sources import registrations

MAX_TRACES = 32
"""Traces of one model before further branches run in eager mode."""

_any_autocast = torch._C._is_any_autocast_enabled
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device)


class _Structure:
    """Traces for one nesting of arguments and one set of non-tensor arguments."""

    def __init__(self) -> None:
        self.variants: list[Variant] = []
        self.eager: Fallback | None = None
        """Why these calls are not served by a trace."""
        self.dynamo: Callable[..., Any] | None = None
        """torch.compile of the model, where Dynamo stands in for the tracer."""


class CompiledModel:
    """A model (or function) that runs compiled. Made by `pydisc.compile` and `pydisc.optimize`.

    Attributes of the model are reachable through it. `report()` tells what was compiled.
    """

    def __init__(self, model: Callable[..., Any]) -> None:
        self._model = model
        self._module = model if isinstance(model, torch.nn.Module) else None
        self._structures: dict[Any, _Structure] = {}
        self._lock = threading.RLock()
        self._registrations = registrations()
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
        if self._registrations != registrations():
            self._follow_module()
        leaves, key = self._flatten(args, kwargs)
        structure = self._structures.get(key)
        if structure is not None and structure.variants and structure.eager is None:
            tensors = self._checked(structure.variants[0], leaves)
            if tensors is not None:
                for variant in structure.variants:
                    try:
                        result = variant(tensors)
                    except CheckFailed:
                        continue
                    self._calls += 1
                    return result
        return self._slow(key, args, kwargs, leaves)

    def _follow_module(self) -> None:
        """Parameters or buffers were registered somewhere: are ours still the module's?"""
        with self._lock:
            self._registrations = registrations()
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

    def _checked(
        self, variant: Variant, leaves: Sequence[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """Contiguous inputs, or None for eager mode; ValueError on a bad argument."""
        tensors = []
        for tensor, spec in zip(leaves, variant.program.program.inputs, strict=True):
            if tensor.dtype is not TORCH_DTYPE[spec.dtype]:
                raise ValueError(
                    f"argument {spec.name}: dtype {tensor.dtype}, but the model was compiled for "
                    f"{TORCH_DTYPE[spec.dtype]}; convert it, or compile the model again"
                )
            if tensor.dim() != len(spec.shape):
                raise ValueError(
                    f"argument {spec.name}: rank {tensor.dim()} (shape {list(tensor.shape)}), "
                    f"but the model was compiled for rank {len(spec.shape)}"
                )
            if not tensor.is_cpu:
                raise ValueError(
                    f"argument {spec.name}: on device {tensor.device}, "
                    "but the model was compiled for cpu"
                )
            if tensor.requires_grad and torch.is_grad_enabled():
                return None
            tensors.append(tensor if tensor.is_contiguous() else tensor.contiguous())
        return tensors

    def _slow(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]
    ) -> Any:
        """The first call of a structure, a new branch, or a call that must run in eager mode."""
        self._check_arguments(args, kwargs)
        reason = self._needs_eager(leaves)
        if reason is not None:
            return self._run_eager(reason, args, kwargs)
        with self._lock:
            structure = self._structures.setdefault(key, _Structure())
            if structure.eager is None:
                fits, result = self._try_variants(structure, leaves)
                if fits:
                    return result
                if isinstance(result, Fallback):
                    return self._run_eager(result, args, kwargs)
                if len(structure.variants) >= MAX_TRACES:
                    structure.eager = Fallback("the model", f"more than {MAX_TRACES} traces", "")
                else:
                    self._new_variant(structure, args, kwargs)
                    fits, result = self._try_variants(structure, leaves)
                    if fits:
                        return result
            reason = structure.eager or Fallback("this call", "no trace fits it", "")
            route = structure.dynamo
        if route is not None:
            return self._run_dynamo(structure, route, args, kwargs)
        return self._run_eager(reason, args, kwargs)

    def _try_variants(
        self, structure: _Structure, leaves: Sequence[torch.Tensor]
    ) -> tuple[bool, Any]:
        """(True, result) of the trace that fits, or (False, why the call must run in eager mode).

        (False, None) asks for a new trace.
        """
        if not structure.variants:
            return False, None
        tensors = self._checked(structure.variants[0], leaves)
        if tensors is None:
            return False, Fallback("this call", "an input requires gradients", "")
        failed: CheckFailed | None = None
        for variant in structure.variants:
            try:
                result = variant(tensors)
            except CheckFailed as failure:
                failed = failure
                continue
            self._calls += 1
            return True, result
        if failed is not None and failed.check.kind == "assert":
            where = failed.check.where
            return False, Fallback("this call", f"the model asserts {failed.check.text}", where)
        return False, None

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
        except TorchDynamoException as error:
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

    def _needs_eager(self, leaves: Sequence[torch.Tensor]) -> Fallback | None:
        """What is not compiled yet, whatever the model."""
        if torch.is_grad_enabled():
            if any(t.requires_grad for t in leaves):
                return Fallback("this call", "an input requires gradients", "")
            if self._module is not None and self._module.training:
                return Fallback(
                    "this call", "the model is in training mode with gradients enabled", ""
                )
        if torch.is_autocast_enabled("cpu"):
            return Fallback("this call", "autocast is enabled", "")
        if any(type(t) not in (torch.Tensor, torch.nn.Parameter) for t in leaves):
            return Fallback("this call", "an input is a tensor subclass", "")
        if any(not t.is_cpu for t in leaves):
            return Fallback("this call", "an input is not on the CPU", "")
        return None

    def _run_eager(self, reason: Fallback, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._model(*args, **kwargs)  # an error of the model is the user's to see
        self._eager_calls += 1
        if reason not in self._fallbacks:
            self._fallbacks[reason] = None
            warn_once((id(self), reason), f"{reason.what} runs in eager mode: {reason.reason}")
        return result

    # -- compiling -----------------------------------------------------------------------------
    def _new_variant(
        self, structure: _Structure, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Variant | None:
        """Compile a trace for these arguments; on failure say why in `structure.eager`."""
        try:
            variant = compile_variant(lambda: self._capture(args, kwargs), self._module)
        except Unsupported as error:
            if error.what.startswith("element type"):  # Dynamo's graphs would have it too
                structure.eager = Fallback(error.what, error.why, "")
            else:
                self._take_dynamo_route(structure, error)
            return None
        except Exception as error:
            if knobs.current().on_error == "raise":
                raise
            # Is it the model's own error? Then eager mode raises it, and that is what users expect.
            self._model(*args, **kwargs)
            folder = write_repro(self._model, args, kwargs, error)
            fault = InternalError(f"{type(error).__name__}: {error}", str(folder))
            warn_once((id(self), "fault"), f"{fault}\n  the model runs in eager mode meanwhile")
            structure.eager = Fallback(
                "the model", f"a fault of the compiler: {error}", str(folder)
            )
            return None
        self._add(structure, variant)
        return variant

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
        return capture(self._model, args, kwargs, state=self._module)

    def precompile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for this structure of arguments without running; raises what prevents it."""
        self._check_arguments(args, kwargs)
        leaves, key = self._flatten(args, kwargs)
        reason = self._needs_eager(leaves)
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
