"""Finding chains among scheduled regions: results that only the next kernel needs."""

from collections.abc import Sequence

from pydisc.compiler.lower_cpu import ScheduledRegion
from pydisc.fusion.graph import Graph
from pydisc.fusion.kernel_program import Contraction
from pydisc.fusion.plan import Region
from pydisc.schedule.chain import schedule_chain
from pydisc.schedule.schedule import ScheduledKernel


def link_chains(regions: Sequence[ScheduledRegion], graph: Graph) -> list[ScheduledRegion]:
    """The regions, with chains in the place of their last part."""
    makers = {t: r for r in regions if len(r.kernels) == 1 for t in r.outputs[0]}
    readers: dict[int, list[ScheduledRegion]] = {}
    for region in regions:
        read = {t for kernel in region.kernels for t in kernel.inputs}
        if region.region.kind == "extern":
            read = {t for i in region.region.nodes for t in graph.nodes[i].operands}
        for tensor in read:
            readers.setdefault(tensor, []).append(region)

    def only_input_from(region: ScheduledRegion, tensor: int) -> ScheduledRegion | None:
        """The region that makes a tensor for this one alone."""
        maker = makers.get(tensor)
        alone = readers.get(tensor) == [region] and tensor not in graph.returns
        return maker if maker and alone and maker.outputs == ((tensor,),) else None

    linked: dict[int, ScheduledRegion] = {}
    gone: set[int] = set()
    for last in regions:
        contraction = _contraction(last)
        if contraction is None:
            continue
        weights = last.kernels[0].inputs[contraction.lhs_slot]
        middle = only_input_from(last, weights)
        if middle is None or middle.region.kind == "extern":
            continue
        for scores in middle.kernels[0].inputs:
            first = only_input_from(middle, scores)
            if first is None or _contraction(first) is None:
                continue
            parts = (first, middle, last)
            kernel = schedule_chain([p.kernels[0] for p in parts], scores, weights)
            if kernel is not None:
                linked[id(last)] = _merged(parts, kernel)
                gone |= {id(first), id(middle)}
                break
    return [linked.get(id(r), r) for r in regions if id(r) not in gone]


def _contraction(region: ScheduledRegion) -> Contraction | None:
    if len(region.kernels) != 1 or region.kernels[0].schedule.kind != "dot":
        return None
    return region.kernels[0].schedule.program.contraction


def _merged(parts: Sequence[ScheduledRegion], kernel: ScheduledKernel) -> ScheduledRegion:
    last = parts[-1].region
    nodes = {i for p in parts for i in p.region.nodes}
    region = Region(
        "chain", nodes, last.outputs, programs=tuple(q for p in parts for q in p.region.programs)
    )
    return ScheduledRegion(region, (kernel,), parts[-1].outputs, tuple(parts))
