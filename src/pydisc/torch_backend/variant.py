"""One compiled trace of a model, ready to be called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pydisc.artifact.size_expression import evaluate
from pydisc.compiler.compile import STAGES, CompiledTrace, compile_capture
from pydisc.compiler.report import (
    Fallback,
    FusionRow,
    GuardInfo,
    NotFusedRow,
    SymbolInfo,
    TraceInfo,
)
from pydisc.frontend import Capture, Mutation, OutputSpec
from pydisc.ir.context import open_context
from pydisc.runtime.dtypes import TORCH_DTYPE
from pydisc.runtime.loaded_program import LoadedProgram
from pydisc.runtime.memory import overlap, overlaps_itself, storage_of
from pydisc.runtime.operators import apply_views
from pydisc.shape import Dim
from pydisc.support import knobs
from pydisc.support.log import log
from pydisc.support.progress import stage_bar
from pydisc.support.timing import StageTimer
from pydisc.torch_backend.weight_sources import WeightSources

_KINDS = ("input", "weight")


class NeedsEager(Exception):
    """A call for which the trace would give another answer than eager mode; nothing has run."""


@dataclass(eq=False)
class Variant:
    """A program with the way back to the model's own output structure."""

    program: LoadedProgram
    outputs: tuple[OutputSpec, ...]
    out_spec: Any
    weights: list[torch.Tensor]
    sources: WeightSources
    mutations: tuple[Mutation, ...]
    needs_dense: frozenset[int]
    info: TraceInfo
    single: bool
    """Whether the output is one tensor that the program computes, and nothing else happens."""
    _kinds: list[tuple[torch.dtype, int]] = field(init=False)
    _rebuild: Callable[[list[Any]], Any] = field(init=False)
    """The output of its leaves."""
    _symbols: list[tuple[str, int, int]] = field(init=False)
    """Each symbol with an input and a dim that has it; empty if no output needs them."""
    _written_inputs: frozenset[int] = field(init=False)
    _written_weights: frozenset[int] = field(init=False)
    _weight_storages: tuple[Any, frozenset[int]] = field(init=False, default=(None, frozenset()))

    def __post_init__(self) -> None:
        """What calls need, in the form that they need it in."""
        inputs = self.program.program.inputs
        self._kinds = [(TORCH_DTYPE[spec.dtype], len(spec.shape)) for spec in inputs]
        self._symbols = [
            (size, number, dim)
            for number, spec in enumerate(inputs)
            for dim, size in enumerate(spec.shape)
            if isinstance(size, str) and any(o.views or o.kind == "size" for o in self.outputs)
        ]
        self._rebuild = _rebuilder(self.out_spec)
        by_kind = {k: frozenset(m.index for m in self.mutations if m.kind == k) for k in _KINDS}
        self._written_inputs, self._written_weights = by_kind["input"], by_kind["weight"]

    def dense(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        """The tensors without gaps; None if they are not CPU tensors of these dtypes and ranks."""
        found: list[torch.Tensor] = []
        for tensor, (dtype, rank) in zip(tensors, self._kinds, strict=True):
            if tensor.dtype is not dtype or tensor.dim() != rank or not tensor.is_cpu:
                return None
            found.append(tensor if tensor.is_contiguous() else tensor.contiguous())
        return found

    def checked(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors without gaps; ValueError, naming the argument, for what does not fit."""
        for tensor, spec in zip(tensors, self.program.program.inputs, strict=True):
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
        return [t if t.is_contiguous() else t.contiguous() for t in tensors]

    def needs_grad(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the results would require gradients in eager mode, if those are enabled."""
        return any(t.requires_grad for t in tensors) or any(w.requires_grad for w in self.weights)

    def follow_module(self) -> bool:
        """Use the module's present parameters and buffers; False if they no longer fit."""
        for number, tensor in self.sources.replaced().items():
            if tensor is None or not self.sources.accept(number, tensor):
                return False
            self.weights[number] = tensor
            self.program.replace_weight(number, tensor)
        return True

    def __call__(self, tensors: Sequence[torch.Tensor], dense: Sequence[torch.Tensor]) -> Any:
        """Run on input tensors, as given and without gaps (see `dense`), and rebuild the output.

        Raises CheckFailed or NeedsEager before anything has run.
        """
        if self.mutations or self.needs_dense:
            self._refuse_what_eager_sees(tensors)
        results = self.program(dense)
        if self.single:
            return results[0]
        for change in self.mutations:
            of = tensors if change.kind == "input" else self.weights
            of[change.index].copy_(results[change.result])
        env = {name: tensors[i].shape[dim] for name, i, dim in self._symbols}
        leaves = [self._leaf(spec, tensors, results, env) for spec in self.outputs]
        return self._rebuild(leaves)

    def _leaf(
        self,
        spec: OutputSpec,
        tensors: Sequence[torch.Tensor],
        results: list[torch.Tensor],
        env: dict[str, int],
    ) -> Any:
        match spec.kind:
            case "result":
                base = results[spec.index]
            case "input":
                base = tensors[spec.index]
            case "weight":
                base = self.weights[spec.index]
            case "size":
                return evaluate(spec.value, env)
            case _:
                return spec.value
        return apply_views(base, spec.views, env) if spec.views else base

    def _refuse_what_eager_sees(self, tensors: Sequence[torch.Tensor]) -> None:
        """Raise NeedsEager where the way that arguments lie in memory changes the answer.

        The program reads every argument before it writes any, and sees them all without gaps.
        """
        inputs = self.program.program.inputs
        for number in self.needs_dense:
            if not tensors[number].is_contiguous():
                raise NeedsEager(
                    f"argument {inputs[number].name} is not contiguous, and the model uses that"
                )
        if not self.mutations:
            return
        weights = self._storages_of_weights()
        for number in self._written_inputs:
            name, written = inputs[number].name, tensors[number]
            if overlaps_itself(written):
                raise NeedsEager(f"argument {name} is written, and its elements share memory")
            if storage_of(written) in weights:
                raise NeedsEager(f"argument {name} is written, and shares memory with a weight")
            for other, tensor in enumerate(tensors):
                if other != number and overlap(written, tensor):
                    raise NeedsEager(
                        f"argument {name} is written, and shares memory with {inputs[other].name}"
                    )
        for number in self._written_weights:
            storage = storage_of(self.weights[number])
            for other, tensor in enumerate(tensors):
                if storage and storage_of(tensor) == storage:
                    raise NeedsEager(
                        f"a weight is written that shares memory with argument {inputs[other].name}"
                    )

    def _storages_of_weights(self) -> frozenset[int]:
        """Addresses of the weights' memory; found anew when the table of weights is another."""
        table = self.program.table.current()
        if self._weight_storages[0] is not table:
            found = frozenset(map(storage_of, self.weights)) - {0}
            self._weight_storages = (table, found)
        return self._weight_storages[1]


def _rebuilder(spec: pytree.TreeSpec) -> Callable[[list[Any]], Any]:
    """`tree_unflatten`, without its cost for what is no tree but a tuple or a list."""
    if spec.type in (tuple, list) and all(child.is_leaf() for child in spec.children()):
        return spec.type
    return lambda leaves: pytree.tree_unflatten(leaves, spec)


def compile_variant(capture_trace: Callable[[], Capture], state: torch.nn.Module | None) -> Variant:
    """Trace and compile, timed by stage, with a progress bar. `state` is where weights live."""
    with stage_bar("pydisc", knobs.current()) as on_stage, open_context():
        timer = StageTimer(len(STAGES), on_stage)
        with timer.stage("trace"):
            capture = capture_trace()
        trace = compile_capture(capture, timer)
        with timer.stage("load"):
            program = LoadedProgram(trace.program, [w.tensor for w in capture.weights])
            program.table.current()
        if knobs.current().time or knobs.current().debug:
            spent = ", ".join(f"{name} {value:.3f}" for name, value in timer.seconds.items())
            log.warning("compiled %d ops, seconds: %s", trace.op_count, spent)
        return Variant(
            program,
            tuple(capture.outputs),
            capture.out_spec,
            [w.tensor for w in capture.weights],
            WeightSources(
                state, [w.name for w in capture.weights], [w.tensor for w in capture.weights]
            ),
            tuple(capture.mutations),
            capture.needs_dense,
            _trace_info(capture, trace, timer.seconds),
            _is_single(capture),
        )


def _is_single(capture: Capture) -> bool:
    kinds = [output.kind for output in capture.outputs]
    return capture.out_spec.is_leaf() and kinds == ["result"] and not capture.mutations


def _trace_info(capture: Capture, trace: CompiledTrace, seconds: dict[str, float]) -> TraceInfo:
    places: dict[str, list[str]] = {}
    dims: dict[str, Dim] = {}
    for spec in capture.inputs:
        for axis, size in enumerate(spec.shape):
            if isinstance(size, Dim):
                places.setdefault(str(size), []).append(f"{spec.name}.shape[{axis}]")
                dims[str(size)] = size
    symbols = tuple(
        SymbolInfo(name, str(dims[name].lo), str(dims[name].hi), tuple(found))
        for name, found in places.items()
    )
    launches: dict[str, FusionRow] = {}
    for fusion in trace.fusions:
        old = launches.get(fusion.kernel)
        count = 1 + (old.launches if old else 0)
        launches[fusion.kernel] = FusionRow(fusion.kernel, count, fusion.ops, fusion.schedule)
    inputs = tuple(f"{s.name}: {s.dtype}[{', '.join(map(str, s.shape))}]" for s in capture.inputs)
    return TraceInfo(
        inputs,
        trace.op_count,
        symbols,
        tuple(f"{e.text}  at {e.where}" for e in capture.input_equalities),
        tuple(GuardInfo(g.kind, f"{g.cond} is {g.value}", str(g.where)) for g in capture.guards),
        tuple(launches.values()),
        tuple(NotFusedRow(n.producer, n.consumer, n.reason) for n in trace.not_fused),
        tuple(Fallback(e.target, e.reason, str(e.where)) for e in capture.externs),
        dict(seconds),
    )
