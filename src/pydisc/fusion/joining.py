"""Step 2 of planning: going backwards, an op joins the region that consumes it, or starts one."""

from pydisc.fusion.accesses import kernel_program
from pydisc.fusion.graph import FREE, TRANSCENDENTAL, Node
from pydisc.fusion.kernel_program import Size
from pydisc.fusion.layout import NoAccess, same_shape
from pydisc.fusion.partition import MEMORY, Partition
from pydisc.fusion.region import Region, RegionSpec
from pydisc.shape import product, prove_eq

_KIND = {"reduce": "row", "scan": "scan"}
"""The kind of kernel that an op makes of a loop."""


def join_backwards(p: Partition) -> None:
    """Give every reduction, element-wise op and indexed read that is in use a region."""
    for node in reversed(p.graph.nodes):
        if node.name in FREE or node.index in p.region_of:
            continue
        users = p.consumers_of(node)
        if not users:
            continue  # dead
        region = _joinable(p, node, users)
        if region is not None:
            p.join(region, node)
        elif node.name in _KIND:
            p.start(_KIND[node.name], node, *_row(p, node))
        else:
            p.start("loop", node, p.graph.shape(node.result))


def _joinable(p: Partition, node: Node, users: set[int]) -> Region | None:
    """The region that a node joins, or None. Notes the reason of each miss."""
    regions = list(dict.fromkeys(p.region_of[u] for u in sorted(users) if u >= 0))
    for region in regions:
        reason = _miss(p, node, region, users, regions)
        if not reason:
            if node.name in _KIND and region.kind == "loop":
                region.kind = _KIND[node.name]
                region.domain, region.reduced = _row(p, node)
            return region
        for user in users & region.nodes:
            p.miss(node.index, user, reason)
    return None


def _row(p: Partition, node: Node) -> tuple[tuple[Size, ...], tuple[int, ...]]:
    """Domain and reduced dims of the kernel of a reduction or scan."""
    axes = (node.attrs["axis"],) if node.name == "scan" else tuple(node.attrs["axes"])
    return p.graph.shape(node.operands[0]), axes


def _miss(p: Partition, node: Node, region: Region, users: set[int], regions: list[Region]) -> str:
    """Why a node does not join a region; '' if it does."""
    if region.kind == "extern":
        return "the consumer is run by the framework"
    if node.name == "reduce":
        reason = _reduce_miss(p, node, region)
    elif node.name == "scan":
        reason = _scan_miss(p, node, region)
    elif region.kind == "dot":
        reason = _epilogue_miss(p, node, region)
    else:
        reason = _elementwise_miss(p, node, region)
    if reason or users <= region.nodes:
        return reason
    # Another kernel or the caller needs the value too: it becomes one more output here.
    if region.kind not in ("loop", "row", "scan"):
        return "several kernels need the value"
    if not _is_domain_shape(p, node, region):
        return "several kernels need the value and its shape is not the kernel's"
    if any(p.reaches(other, region) for other in regions if other is not region):
        return "a cycle: the other consumer feeds this kernel"
    if MEMORY in users and p.reads_view_of(region, node):
        return "a cycle: this kernel needs a view of the value that must be in memory"
    return ""


def _reduce_miss(p: Partition, node: Node, region: Region) -> str:
    if region.kind not in ("loop", "row"):
        return f"a reduction does not go into a {region.kind} kernel"
    shape, reduced = _row(p, node)
    if region.kind == "row":
        if same_shape(shape, region.domain) and reduced == region.reduced:
            return ""
        return "reductions over different shapes or axes"
    if same_shape(shape, region.domain) and _is_read_by_row(p, node, region):
        return ""
    kept = [s for i, s in enumerate(shape) if i not in reduced]
    keepdim = [1 if i in reduced else s for i, s in enumerate(shape)]
    if same_shape(kept, region.domain) or same_shape(keepdim, region.domain):
        return ""
    return "the consumer's shape is neither the reduction's input nor its output"


def _scan_miss(p: Partition, node: Node, region: Region) -> str:
    if region.kind not in ("loop", "scan"):
        return f"a scan does not go into a {region.kind} kernel"
    shape, axes = _row(p, node)
    other_axes = region.kind == "scan" and axes != region.reduced
    if other_axes or not same_shape(shape, region.domain):
        return "scans over different shapes or axes"
    if not _is_read_by_row(p, node, region):
        return "the running values are read at other places than their own"
    return ""


def _is_read_by_row(p: Partition, node: Node, region: Region) -> bool:
    """Whether a region reads a reduction or scan at its own place, not transposed or shifted."""
    nodes = frozenset(region.nodes | {node.index})
    outputs = tuple(p.outputs_of(region.nodes))
    try:
        kernel_program(p.graph, RegionSpec(outputs, nodes, *_row(p, node)))
    except NoAccess:
        return False
    return True


def _epilogue_miss(p: Partition, node: Node, region: Region) -> str:
    """Why what the epilogue of a dot reads is not computed in it."""
    assert region.dot is not None
    dot = p.graph.nodes[region.dot]
    if node.name == "take":
        return "an indexed read is not part of a dot's epilogue"
    if dot.index in p.consumers_of(node):
        return "an operand of a dot must be in memory"
    if p.depends_on(node.result, dot.index, region.nodes):
        return "depends on the kernel itself"
    if not same_shape(p.graph.shape(node.result), p.graph.shape(dot.result)):
        return "a smaller shape: computed once, not for every element of the dot"
    return ""


def _elementwise_miss(p: Partition, node: Node, region: Region) -> str:
    costly = node.name in TRANSCENDENTAL
    if costly and region.domain and not _is_domain_size(p, node, region):
        return "costly and of a smaller shape: computed once"
    return ""


def _is_domain_size(p: Partition, node: Node, region: Region) -> bool:
    """Whether a value has the shape of the domain, or as many elements (it is read reshaped)."""
    shape = p.graph.shape(node.result)
    return _is_domain_shape(p, node, region) or prove_eq(product(shape), product(region.domain))


def _is_domain_shape(p: Partition, node: Node, region: Region) -> bool:
    shape = p.graph.shape(node.result)
    if same_shape(shape, region.domain):
        return True
    kept = [s for i, s in enumerate(region.domain) if i not in region.reduced]
    return bool(region.reduced) and same_shape(shape, kept)
