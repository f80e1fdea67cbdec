"""Which ops become one kernel, and why the others did not join.

Three steps, in the order of what they save:
1. every dot takes the element-wise ops after it as its epilogue (epilogues.py);
2. going backwards, reductions and element-wise ops join the region that consumes them, or start
   one: row regions hold several reductions over one shape with all around them (joining.py);
3. an output that is only ever read transposed is stored that way, and other views that must be
   in memory get kernels of their own (views.py).

Layout ops belong to no region: they fold into the accesses of every kernel that reads through
them. A region that turns out not to be addressable in place names the tensor to materialise, and
planning starts again with that tensor as an output of its own.

After AStitch (ASPLOS 2022): reuse through registers and rows instead of one kernel an op.
"""

from dataclasses import dataclass

from pydisc.fusion.accesses import check_dot, kernel_program, piece_programs
from pydisc.fusion.collapse import collapse_axes
from pydisc.fusion.epilogues import PIECEWISE, grow_epilogues
from pydisc.fusion.graph import Graph, Node
from pydisc.fusion.joining import join_backwards
from pydisc.fusion.kernel_program import KernelProgram
from pydisc.fusion.layout import NoAccess
from pydisc.fusion.ordering import ordered
from pydisc.fusion.partition import Partition
from pydisc.fusion.region import Region, RegionSpec
from pydisc.fusion.views import absorb_transposes, materialize_views
from pydisc.support.errors import InternalError

__all__ = ["FusionPlan", "NotFused", "Region", "plan_fusion"]


@dataclass(frozen=True)
class NotFused:
    """Two neighbouring ops that stayed in different kernels, and the reason."""

    producer: str
    consumer: str
    reason: str


@dataclass(frozen=True)
class FusionPlan:
    """Regions in an order in which they can run, and what was not fused."""

    regions: tuple[Region, ...]
    not_fused: tuple[NotFused, ...]


def plan_fusion(graph: Graph) -> FusionPlan:
    """Decide the kernels of a graph."""
    forced: dict[int, str] = {}
    for _ in range(len(graph.tensors) + 1):
        try:
            return _plan(Partition(graph, forced))
        except NoAccess as miss:
            if miss.tensor in forced:
                raise InternalError(f"planning does not converge: {miss.why}") from miss
            forced[miss.tensor] = miss.why
    raise InternalError("planning does not converge")


def _plan(p: Partition) -> FusionPlan:
    grow_epilogues(p)
    join_backwards(p)
    absorb_transposes(p)
    materialize_views(p)
    for region in p.regions:
        if region.stored_as is not None:
            region.outputs = [region.stored_as]
        elif region.nodes:
            region.outputs = p.outputs_of(region.nodes)
    regions = [r for r in p.regions if r.outputs or r.kind == "extern"]
    memory = frozenset(t for r in regions for t in r.outputs)
    for region in regions:
        if region.kind != "extern":
            region.programs = _programs(p.graph, region, memory)
    return FusionPlan(tuple(ordered(p.graph, regions)), tuple(_not_fused(p)))


def _programs(graph: Graph, region: Region, memory: frozenset[int]) -> tuple[KernelProgram, ...]:
    nodes = frozenset(region.nodes)
    if region.kind in PIECEWISE:
        return piece_programs(graph, region.outputs[0], nodes, memory)
    spec = RegionSpec(
        tuple(region.outputs), nodes, region.domain, region.reduced, region.dot, memory
    )
    program = kernel_program(graph, spec)
    if region.dot is not None:
        program = collapse_axes(program)
        check_dot(graph, spec, program)
    return (program,)


def _not_fused(p: Partition) -> list[NotFused]:
    found: list[NotFused] = []
    for node in p.graph.nodes:
        mine = p.region_of.get(node.index)
        if mine is None:
            continue
        for user in sorted(p.consumers_of(node)):
            other = p.region_of.get(user)
            if other is None or other is mine:
                continue
            consumer = p.graph.nodes[user]
            reason = p.reasons.get((node.index, user)) or _why(node, mine, consumer, other)
            found.append(NotFused(_label(p.graph, node), _label(p.graph, consumer), reason))
    return found


def _label(graph: Graph, node: Node) -> str:
    where = graph.where(node)
    return f"{node.name} ({where})" if where else node.name


def _why(producer: Node, mine: Region, consumer: Node, other: Region) -> str:
    if consumer.name == "dot_general":
        return "an operand of a dot must be in memory"
    if "extern" in (mine.kind, other.kind):
        return "one side is run by the framework"
    if producer.name == "dot_general":
        return "several ops need the dot's result"
    return "several kernels need the value"
