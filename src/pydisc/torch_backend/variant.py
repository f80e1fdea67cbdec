"""One compiled trace of a model, ready to be called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pydisc.compiler.compile import STAGES, CompiledTrace, compile_capture
from pydisc.compiler.report import (
    Fallback,
    FusionRow,
    GuardInfo,
    NotFusedRow,
    SymbolInfo,
    TraceInfo,
)
from pydisc.frontend import Capture, Mutation
from pydisc.ir.context import open_context
from pydisc.runtime.loaded_program import LoadedProgram
from pydisc.shape import Dim
from pydisc.support import knobs
from pydisc.support.log import log
from pydisc.support.progress import stage_bar
from pydisc.support.timing import StageTimer
from pydisc.torch_backend.weight_sources import WeightSources


@dataclass(eq=False)
class Variant:
    """A program with the way back to the model's own output structure."""

    program: LoadedProgram
    outputs: tuple[Any, ...]
    out_spec: Any
    result_of: tuple[int, ...]
    """For each function result, the number of the program's output."""
    weights: list[torch.Tensor]
    sources: WeightSources
    mutations: tuple[Mutation, ...]
    info: TraceInfo
    single: bool
    """Whether the output is one tensor that the program computes, and nothing else happens."""

    def follow_module(self) -> bool:
        """Use the module's present parameters and buffers; False if they no longer fit."""
        for number, tensor in self.sources.replaced().items():
            if tensor is None or not self.sources.accept(number, tensor):
                return False
            self.weights[number] = tensor
            self.program.replace_weight(number, tensor)
        return True

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Run on checked input tensors and rebuild the output."""
        results = self.program(tensors)
        if self.single:
            return results[0]
        for change in self.mutations:
            of = tensors if change.kind == "input" else self.weights
            of[change.index].copy_(results[self.result_of[change.result]])
        leaves = []
        for spec in self.outputs:
            match spec.kind:
                case "result":
                    leaves.append(results[self.result_of[spec.index]])
                case "input":
                    leaves.append(tensors[spec.index])
                case "weight":
                    leaves.append(self.weights[spec.index])
                case _:
                    leaves.append(spec.value)
        return pytree.tree_unflatten(leaves, self.out_spec)


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
        returned = _returned(capture)
        distinct = list(dict.fromkeys(returned))
        return Variant(
            program,
            tuple(capture.outputs),
            capture.out_spec,
            tuple(distinct.index(r) for r in returned),
            [w.tensor for w in capture.weights],
            WeightSources(
                state, [w.name for w in capture.weights], [w.tensor for w in capture.weights]
            ),
            tuple(capture.mutations),
            _trace_info(capture, trace, timer.seconds),
            _is_single(capture),
        )


def _is_single(capture: Capture) -> bool:
    kinds = [output.kind for output in capture.outputs]
    return capture.out_spec.is_leaf() and kinds == ["result"] and not capture.mutations


def _returned(capture: Capture) -> list[Any]:
    """The values that @main returns, in order."""
    from pydisc.ir.rewriter import main_function

    block = main_function(capture.module).regions[0].blocks[0]
    return list(block.operations[len(block.operations) - 1].operands)


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
