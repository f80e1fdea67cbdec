"""Step 3 of planning: outputs stored the way they are read, and views that must be in memory."""

from pydisc.fusion.graph import FREE
from pydisc.fusion.partition import Partition
from pydisc.fusion.region import Region


def absorb_transposes(p: Partition) -> None:
    """Store an output transposed if its one reader wants it so and the last dim stays the last."""
    graph = p.graph
    for region in p.regions:
        if region.kind not in ("dot", "loop") or not region.nodes:
            continue
        outputs = p.outputs_of(region.nodes)
        if len(outputs) != 1 or outputs[0] in p.forced:
            continue
        users = graph.tensors[outputs[0]].users
        if len(users) != 1 or users[0] < 0:
            continue
        user = graph.nodes[users[0]]
        if user.name != "transpose" or user.result in p.forced:
            continue
        permutation = user.attrs["permutation"]
        if permutation[-1] == len(permutation) - 1:
            region.stored_as = user.result
            region.domain = graph.shape(user.result)


def materialize_views(p: Partition) -> None:
    """Give a copy kernel to each view that is returned, handed to the framework, or forced."""
    graph = p.graph
    wanted = [*graph.returns]
    for region in p.regions:
        if region.kind == "extern":
            wanted += [t for index in region.nodes for t in graph.nodes[index].operands]
    wanted += p.forced
    stored = {region.stored_as for region in p.regions}
    for tensor in dict.fromkeys(wanted):
        node = graph.producer(tensor)
        if node is not None and node.name in FREE and tensor not in stored:
            p.regions.append(Region("loop", set(), [tensor], domain=graph.shape(tensor)))
