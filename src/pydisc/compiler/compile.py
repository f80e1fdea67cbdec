"""The stages of a compile, in order; the only place where they meet."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydisc.artifact.program import Program
from pydisc.codegen.cpu.host_target import detect_cpu_target
from pydisc.compiler.chains import link_chains
from pydisc.compiler.lower_cpu import CpuLowering, ScheduledRegion
from pydisc.compiler.pipelines import OPTIMIZE
from pydisc.frontend import Capture
from pydisc.fusion.apply import fused_module
from pydisc.fusion.graph import Graph
from pydisc.fusion.plan import NotFused, Region, plan_fusion
from pydisc.ir.passes import PassContext, run_pipeline
from pydisc.ir.verify import verify
from pydisc.schedule.dot import schedule_dot
from pydisc.schedule.loops import schedule_loops
from pydisc.shape import facts_of
from pydisc.support import knobs
from pydisc.support.dump import write_stage
from pydisc.support.errors import Unsupported
from pydisc.support.log import log, show
from pydisc.support.timing import StageTimer
from pydisc.targets.cpu import CpuTarget

STAGES = ("trace", "shape", "optimize", "fuse", "schedule", "codegen", "load")
"""Names of the stages, as they appear in reports; `trace` and `load` are run by the caller."""


@dataclass(frozen=True)
class FusionInfo:
    """One kernel for the report: its name, ops, and schedule."""

    kernel: str
    kind: str
    ops: tuple[str, ...]
    schedule: str


@dataclass(frozen=True)
class CompiledTrace:
    """A compiled trace: the program, and what the report tells about it."""

    program: Program
    op_count: int
    fusions: tuple[FusionInfo, ...]
    not_fused: tuple[NotFused, ...]


def compile_capture(capture: Capture, timer: StageTimer) -> CompiledTrace:
    """Compile a trace for the CPU of this machine. Call inside the MLIR context of the trace."""
    now = knobs.current()
    target = detect_cpu_target()
    with timer.stage("shape"):
        capture.symbols.write(capture.module)
        if now.verify:
            verify(capture.module, "hlo")
        _dump(1, "hlo", capture)
    with timer.stage("optimize"):
        cx = PassContext(capture.symbols, now.verify, facts_of)
        passes = [p for p in OPTIMIZE if p.name not in now.disabled]
        run_pipeline(capture.module, passes, cx, "hlo")
        _dump(2, "optimized", capture)
    with timer.stage("fuse"):
        graph = Graph(capture.module, capture.symbols)
        _check_dtypes(graph)
        plan = plan_fusion(graph)
        if now.dump:
            write_stage(now.dump, 3, "fused", str(fused_module(graph, plan)))
    with timer.stage("schedule"):
        weights = frozenset(graph.arguments[len(capture.inputs) :])
        regions = [schedule_region(region, target, weights) for region in plan.regions]
        if "chain" not in now.disabled:
            regions = link_chains(regions, graph)
        if now.dump:
            write_stage(now.dump, 4, "scheduled.txt", _schedules_text(regions))
    with timer.stage("codegen"):
        lowering = CpuLowering(capture, graph, regions, target)
        program, source = lowering.lower()
        if now.dump:
            write_stage(now.dump, 5, "kernels", source)
    _log(now, regions, source, str(capture.module) if now.debug >= 4 else "")
    return CompiledTrace(
        program,
        len(graph.nodes),
        _fusions(graph, regions, lowering),
        plan.not_fused,
    )


def _check_dtypes(graph: Graph) -> None:
    """Raise Unsupported for element types that CPU kernels do not compute in."""
    for tensor in graph.tensors:
        if tensor.dtype in ("f16", "bf16"):
            raise Unsupported(
                f"element type {tensor.dtype}",
                "CPU kernels compute in f32, f64, integers and bool",
                "model.float()",
            )


def schedule_region(region: Region, target: CpuTarget, weights: frozenset[int]) -> ScheduledRegion:
    """The kernels of a region. `weights` are the tensors that are packed ahead of calls."""
    if region.kind == "extern":
        return ScheduledRegion(region, ())
    outputs = tuple(region.outputs)
    if region.kind == "dot":
        (program,) = region.programs
        return ScheduledRegion(region, (schedule_dot(program, target, weights),), (outputs,))
    kernels = tuple(schedule_loops(p, target.vector_lanes_f32) for p in region.programs)
    return ScheduledRegion(region, kernels, (outputs,) * len(kernels))


def _log(now: knobs.Knobs, regions: Sequence[ScheduledRegion], source: str, module: str) -> None:
    """What knob `debug` asks for."""
    show(now.debug)
    if now.debug >= 2:
        log.info("schedules\n%s", _schedules_text(regions))
    if now.debug >= 3:
        log.info("kernels\n%s", source)
    if now.debug >= 4:
        log.info("optimized\n%s", module)


def _dump(index: int, name: str, capture: Capture) -> None:
    directory = knobs.current().dump
    if directory:
        write_stage(directory, index, name, str(capture.module))


def _schedules_text(regions: Sequence[ScheduledRegion]) -> str:
    lines = []
    for number, region in enumerate(regions):
        for kernel in region.kernels:
            lines.append(
                f"{number}: {kernel.schedule}  units={kernel.units} "
                f"params={list(map(str, kernel.params))}"
            )
        if not region.kernels:
            lines.append(f"{number}: extern")
    return "\n".join(lines)


def _fusions(
    graph: Graph, regions: Sequence[ScheduledRegion], lowering: CpuLowering
) -> tuple[FusionInfo, ...]:
    found = []
    for region in regions:
        ops = tuple(graph.nodes[i].name for i in sorted(region.region.nodes))
        for kernel in region.kernels:
            name = lowering.kernels[kernel.schedule]
            found.append(FusionInfo(name, kernel.schedule.kind, ops, str(kernel.schedule)))
    return tuple(found)
