"""The regions of a graph while they are being formed, and questions about them."""

from pydisc.fusion.graph import FREE, LAYOUT, Graph, Node
from pydisc.fusion.kernel_program import Size
from pydisc.fusion.region import Region

RETURN, MEMORY = -1, -2
"""Consumers that are no nodes: the function's return, and whoever reads a forced tensor."""


class Partition:
    """Which region each node is in. Layout ops and leaves are in none: they fold into accesses.

    `forced` are tensors that must lie in memory, with the reason.
    """

    def __init__(self, graph: Graph, forced: dict[int, str]) -> None:
        self.graph = graph
        self.forced = forced
        self.regions: list[Region] = []
        self.region_of: dict[int, Region] = {}
        self.reasons: dict[tuple[int, int], str] = {}
        """Why a producer (node) did not join a consumer."""
        self.consumers = self._consumers_through_layout()
        """For each tensor the nodes that need it, layout ops looked through."""

    def _consumers_through_layout(self) -> list[set[int]]:
        graph = self.graph
        found: list[set[int]] = [set() for _ in graph.tensors]
        for tensor in range(len(graph.tensors) - 1, -1, -1):
            if tensor in self.forced:
                found[tensor] = {MEMORY}
                continue
            for user in graph.tensors[tensor].users:
                if user < 0:
                    found[tensor].add(user)
                    continue
                node = graph.nodes[user]
                needed = set().union(*(found[r] for r in node.results))
                if node.name in FREE:
                    found[tensor] |= needed
                elif needed or node.name == "extern":  # else it is dead
                    found[tensor].add(user)
        return found

    # -- changes -------------------------------------------------------------------------------
    def start(
        self,
        kind: str,
        node: Node,
        domain: tuple[Size, ...] = (),
        reduced: tuple[int, ...] = (),
        dot: int | None = None,
    ) -> Region:
        """A new region around a node."""
        region = Region(kind, set(), domain=domain, reduced=reduced, dot=dot)
        self.regions.append(region)
        self.join(region, node)
        return region

    def join(self, region: Region, node: Node) -> None:
        """Put a node into a region."""
        region.nodes.add(node.index)
        self.region_of[node.index] = region

    def miss(self, producer: int, consumer: int, reason: str) -> None:
        """Note why two nodes were not fused; the first reason stays."""
        self.reasons.setdefault((producer, consumer), reason)

    # -- questions -----------------------------------------------------------------------------
    def consumers_of(self, node: Node) -> set[int]:
        """The nodes that need any result of a node."""
        return set().union(*(self.consumers[r] for r in node.results))

    def outputs_of(self, nodes: set[int]) -> list[int]:
        """Results of nodes that something outside needs."""
        return [
            result
            for index in sorted(nodes)
            for result in self.graph.nodes[index].results
            if self.consumers[result] - nodes
        ]

    def depends_on(self, tensor: int, source: int, taken: set[int]) -> bool:
        """Whether a tensor is computed from one of the nodes `taken`, none before `source`."""
        seen: set[int] = set()
        stack = [tensor]
        while stack:
            node = self.graph.producer(stack.pop())
            if node is None or node.index in seen or node.index < source:
                continue
            if node.index in taken:
                return True
            seen.add(node.index)
            stack.extend(node.operands)
        return False

    def reaches(self, source: Region, target: Region) -> bool:
        """Whether `target` (transitively) needs something that `source` computes.

        A kernel runs as a whole: who needs one of its nodes waits for the operands of all of them.
        """
        horizon = self._horizon(min(source.nodes))
        seen = set(target.nodes)
        stack = [t for index in target.nodes for t in self.graph.nodes[index].operands]
        while stack:
            node = self.graph.producer(stack.pop())
            if node is None or node.index in seen or node.index < horizon:
                continue
            region = self.region_of.get(node.index)
            if region is source:
                return True
            together = region.nodes if region is not None else {node.index}
            seen |= together
            for index in together:
                stack.extend(self.graph.nodes[index].operands)
        return False

    def reads_view_of(self, region: Region, node: Node) -> bool:
        """Whether a region (transitively) needs a view of a node's result that lies in memory.

        The copy that puts it there runs after the node's kernel and before the region.
        """
        wanted = self._forced_views(node)
        if not wanted:
            return False
        seen: set[int] = set()
        stack = list(region.nodes)
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            mine = self.region_of.get(index)
            together = mine.nodes if mine is not None else {index}
            seen |= together
            for tensor in (t for i in together for t in self.graph.nodes[i].operands):
                if tensor in wanted:
                    return True
                producer = self.graph.producer(tensor)
                if producer is not None:
                    stack.append(producer.index)
        return False

    def _forced_views(self, node: Node) -> set[int]:
        """The forced tensors that are a node's results seen through layout ops."""
        found: set[int] = set()
        stack = list(node.results)
        while stack:
            tensor = stack.pop()
            if tensor in self.forced:
                found.add(tensor)
                continue
            for user in self.graph.tensors[tensor].users:
                if user >= 0 and self.graph.nodes[user].name in FREE:
                    stack.extend(self.graph.nodes[user].results)
        return found

    def source(self, tensor: int) -> Node | None:
        """The node that computes a tensor, layout ops looked through; None for an argument."""
        node = self.graph.producer(tensor)
        while node is not None and node.name in LAYOUT:
            node = self.graph.producer(node.operands[0])
        return node

    def _horizon(self, first: int) -> int:
        """The node before which nothing depends on node `first`, not even by sharing a kernel."""
        spans = [(max(r.nodes), min(r.nodes)) for r in self.regions]
        for last, begin in sorted(spans, reverse=True):
            if last < first:
                break
            first = min(first, begin)
        return first
