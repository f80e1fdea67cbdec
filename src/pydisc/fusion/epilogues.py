"""Step 1 of planning: every dot takes the element-wise ops after it as its epilogue."""

from pydisc.fusion.graph import ELEMENTWISE, FREE, Node
from pydisc.fusion.layout import same_shape
from pydisc.fusion.partition import Partition

MAX_OUTPUTS = 2
"""Outputs of a dot kernel: each more is one more stream of writes."""
PIECEWISE = frozenset({"concatenate", "pad"})
"""Ops whose kernels are a few copies, one for each piece of the output."""


def grow_epilogues(p: Partition) -> None:
    """Start the regions of dots, piecewise copies and what the framework runs; grow the dots'."""
    for node in p.graph.nodes:
        if node.name != "extern" and not p.consumers_of(node):
            continue  # dead
        if node.name == "dot_general":
            _grow(p, node)
        elif node.name in PIECEWISE:
            p.start(node.name, node)
        elif node.name not in FREE | ELEMENTWISE | {"reduce", "scan", "take"}:
            p.start("extern", node)


def _grow(p: Partition, dot: Node) -> None:
    region = p.start("dot", dot, dot=dot.index)
    if dot.result in p.forced:
        return
    taken = {dot.index}
    best = set(taken)
    frontier = [dot]
    while frontier:
        node = frontier.pop(0)
        for user in sorted(p.graph.tensors[node.result].users):
            if user < 0 or user in taken:
                continue
            candidate = p.graph.nodes[user]
            if not p.consumers_of(candidate):
                continue  # dead
            reason = _miss(p, candidate, dot, taken)
            if reason:
                p.miss(node.index, user, reason)
                continue
            taken.add(user)
            frontier.append(candidate)
            if len(p.outputs_of(taken)) <= 1:
                best = set(taken)
    if len(p.outputs_of(best)) > 1 and len(p.outputs_of(taken)) <= MAX_OUTPUTS:
        best = taken
    for index in sorted(best - {dot.index}):
        p.join(region, p.graph.nodes[index])


def _miss(p: Partition, node: Node, dot: Node, taken: set[int]) -> str:
    """Why an op cannot be in the epilogue; '' if it can."""
    if node.name in FREE:
        return "a layout op: it folds into what reads it"
    if node.name not in ELEMENTWISE:
        return f"{node.name} is not element-wise"
    if node.index in p.region_of:
        return "already in another kernel"
    if not same_shape(p.graph.shape(node.result), p.graph.shape(dot.result)):
        return "another shape"
    for operand in node.operands:
        if operand in p.forced:
            return p.forced[operand]
        producer = p.graph.producer(operand)
        if producer is None or producer.index in taken:
            continue
        if p.depends_on(operand, dot.index, taken):
            return "also needs a value computed from this one in another kernel"
    return ""
