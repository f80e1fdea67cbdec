"""An order in which the regions of a plan can run."""

from collections.abc import Sequence

from pydisc.fusion.graph import Graph
from pydisc.fusion.region import Region
from pydisc.support.errors import InternalError


def ordered(graph: Graph, regions: Sequence[Region]) -> list[Region]:
    """Regions sorted so that each comes after those it reads from, else in program order."""
    owner = {t: r for r in regions for t in r.outputs}
    for region in regions:
        for index in region.nodes:
            for tensor in graph.nodes[index].results:
                owner.setdefault(tensor, region)
    result: list[Region] = []
    open_: set[int] = set()
    done: set[int] = set()

    def visit(region: Region) -> None:
        key = id(region)
        if key in done:
            return
        if key in open_:
            raise InternalError("the fusion plan has a cycle")
        open_.add(key)
        for other in _sources(graph, region, owner):
            if other is not region:
                visit(other)
        done.add(key)
        result.append(region)

    for region in sorted(regions, key=lambda r: _position(graph, r)):
        visit(region)
    return result


def _sources(graph: Graph, region: Region, owner: dict[int, Region]) -> list[Region]:
    """The regions whose outputs a region reads, layout ops looked through."""
    stack: list[int] = [t for program in region.programs for t in program.inputs]
    if not region.programs:
        stack = [t for index in sorted(region.nodes) for t in graph.nodes[index].operands]
    found: dict[Region, None] = {}
    while stack:
        tensor = stack.pop(0)
        if tensor in owner:
            found[owner[tensor]] = None
            continue
        node = graph.producer(tensor)
        if node is not None:
            stack.extend(node.operands)
    return list(found)


def _position(graph: Graph, region: Region) -> int:
    if region.nodes:
        return max(region.nodes)
    producer = graph.producer(region.outputs[0])
    return producer.index if producer is not None else -1
