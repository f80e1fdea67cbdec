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

The regions never wait for each other in a circle. At first each op is alone (the regions of step 1
have one output each), and an op joins a region only if no path leads from it through another of its
consumers (a region, or the copy of a view that is forced into memory) into that region.

After AStitch (ASPLOS 2022): reuse through registers and rows instead of one kernel an op.
"""

from collections.abc import Iterable
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


class _NotInPlace(Exception):
    """A region that cannot be one kernel, and the tensor that its program stumbled over."""

    def __init__(self, region: Region, miss: NoAccess) -> None:
        super().__init__(miss.why)
        self.region = region
        self.miss = miss


def plan_fusion(graph: Graph) -> FusionPlan:
    """Decide the kernels of a graph.

    It ends: every round but the last forces at least one more tensor of the graph into memory.
    """
    forced: dict[int, str] = {}
    while True:
        try:
            return _plan(Partition(graph, forced))
        except _NotInPlace as failure:
            more = _to_materialize(graph, forced, failure.region, failure.miss)
            forced.update(dict.fromkeys(more, failure.miss.why))


def _to_materialize(
    graph: Graph, forced: dict[int, str], region: Region, miss: NoAccess
) -> list[int]:
    """Tensors that are not forced yet and stand in the way of a region's kernel; never none.

    First the one that the program names. If that lies in memory already, the region is too large:
    its ops become kernels of their own; then their operands. An op that reads nothing but memory
    has a kernel.
    """

    def free(tensors: Iterable[int]) -> list[int]:
        known = (t for t in tensors if t not in forced and graph.producer(t) is not None)
        return list(dict.fromkeys(known))

    nodes = [graph.nodes[i] for i in sorted(region.nodes)]
    if not nodes:  # the copy of a view
        nodes = [n for t in region.outputs if (n := graph.producer(t)) is not None]
    results = [t for n in nodes for t in n.results]
    operands = [t for n in nodes for t in n.operands]
    for tensors in ([miss.tensor], results, operands):
        found = free(tensors)
        if found:
            return found
    ops = ", ".join(_label(graph, n) for n in nodes)
    raise InternalError(f"no kernel for {ops}, whose operands are in memory: {miss.why}") from miss


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
            try:
                region.programs = _programs(p.graph, region, memory - _own_views(p, region))
            except NoAccess as miss:
                raise _NotInPlace(region, miss) from miss
    return FusionPlan(tuple(ordered(p.graph, regions)), tuple(_not_fused(p)))


def _own_views(p: Partition, region: Region) -> frozenset[int]:
    """The views of a region's values that other kernels copy from it: it cannot wait for them."""
    copies = (t for r in p.regions if not r.nodes for t in r.outputs)
    sources = ((t, p.source(t)) for t in copies)
    return frozenset(t for t, node in sources if node is not None and node.index in region.nodes)


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
