"""Which ops become one kernel, and why the others did not join.

Three steps, in the order of what they save:
1. every dot takes the element-wise ops after it as its epilogue (`grow_epilogues`);
2. going backwards, reductions and element-wise ops join the region that consumes them, or start one:
   row regions hold several reductions over one shape with everything around them (`join_backwards`);
3. an output that is only ever read transposed is stored that way (`absorb_transposes`).
Layout ops belong to no region: they fold into the accesses of every kernel that reads through them.
A region that turns out not to be addressable in place names the tensor to materialise, and planning
starts again with that tensor as an output of its own.

After AStitch (ASPLOS 2022): reuse through registers and rows instead of one kernel an op.
"""

from dataclasses import dataclass, field
from typing import Any

from pydisc.fusion.accesses import (
    NoAccess,
    RegionSpec,
    check_dot,
    kernel_program,
    piece_programs,
)
from pydisc.fusion.collapse import collapse_axes
from pydisc.fusion.graph import ELEMENTWISE, FREE, TRANSCENDENTAL, Graph, Node
from pydisc.fusion.kernel_program import KernelProgram
from pydisc.shape import prove_eq
from pydisc.support.errors import InternalError

MAX_EPILOGUE_OUTPUTS = 2
HEAVY_COPY = frozenset({"concatenate", "pad"})


@dataclass(eq=False)
class Region:
    """A set of ops that becomes one kernel (or one call of the framework, kind `extern`)."""

    kind: str
    nodes: set[int]
    outputs: list[int] = field(default_factory=list)
    domain: tuple[Any, ...] = ()
    reduced: tuple[int, ...] = ()
    dot: int | None = None
    stored_as: int | None = None
    """The transposed form of the one output, if that is what lies in memory."""
    programs: tuple[KernelProgram, ...] = ()


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
        planner = _Planner(graph, forced)
        try:
            return planner.run()
        except NoAccess as miss:
            if miss.tensor in forced:
                raise InternalError(f"planning does not converge: {miss.why}") from miss
            forced[miss.tensor] = miss.why
    raise InternalError("planning does not converge")


class _Planner:
    def __init__(self, graph: Graph, forced: dict[int, str]) -> None:
        self.graph = graph
        self.forced = forced
        self.region_of: dict[int, Region] = {}
        self.regions: list[Region] = []
        self.consumers = self._consumers_through_layout()
        self.reasons: dict[tuple[int, int], str] = {}

    def run(self) -> FusionPlan:
        self.grow_epilogues()
        self.join_backwards()
        self.materialize_views()
        self.absorb_transposes()
        for region in self.regions:
            self._find_outputs(region)
        self.regions = [r for r in self.regions if r.outputs or r.kind == "extern"]
        memory = frozenset(t for r in self.regions for t in r.outputs)
        for region in self.regions:
            if region.kind != "extern":
                region.programs = self._programs(region, memory)
        return FusionPlan(tuple(self._ordered()), tuple(self._not_fused()))

    def _programs(self, region: Region, memory: frozenset[int]) -> tuple[KernelProgram, ...]:
        if region.kind in HEAVY_COPY:
            nodes = frozenset(region.nodes)
            return tuple(piece_programs(self.graph, region.outputs[0], nodes, memory))
        spec = RegionSpec(
            region.kind,
            tuple(region.outputs),
            frozenset(region.nodes),
            region.domain,
            region.reduced,
            region.dot,
            memory,
        )
        program = kernel_program(self.graph, spec)
        if region.kind == "dot":
            program = collapse_axes(program)
            check_dot(self.graph, spec, program)
        return (program,)

    # -- the graph seen through layout ops -----------------------------------------------------
    def _consumers_through_layout(self) -> list[set[int]]:
        """For each tensor, the nodes that need it (-1: the return), layout ops looked through.

        A forced tensor is read from memory by the node -2.
        """
        graph = self.graph
        found: list[set[int]] = [set() for _ in graph.tensors]
        for tensor in range(len(graph.tensors) - 1, -1, -1):
            for user in graph.tensors[tensor].users:
                if user >= 0 and graph.nodes[user].name in FREE:
                    found[tensor] |= found[graph.nodes[user].result]
                else:
                    found[tensor].add(user)
            if tensor in self.forced:
                found[tensor] = {-2}
        return found

    def _node_consumers(self, node: Node) -> set[int]:
        return set().union(*(self.consumers[r] for r in node.results))

    def _new(self, kind: str, node: Node, **extra: Any) -> Region:
        region = Region(kind, {node.index}, **extra)
        self.regions.append(region)
        self.region_of[node.index] = region
        return region

    def _join(self, region: Region, node: Node) -> None:
        region.nodes.add(node.index)
        self.region_of[node.index] = region

    def _miss(self, producer: int, consumer: int, reason: str) -> None:
        self.reasons.setdefault((producer, consumer), reason)

    # -- step 1 --------------------------------------------------------------------------------
    def grow_epilogues(self) -> None:
        for node in self.graph.nodes:
            if node.name == "dot_general":
                self._grow_epilogue(node)
            elif (
                node.name not in FREE
                and node.name not in ELEMENTWISE
                and node.name not in ("reduce", "take")
            ):
                kind = node.name if node.name in HEAVY_COPY else "extern"
                self._new(kind, node)

    def _grow_epilogue(self, dot: Node) -> None:
        region = self._new("dot", dot, dot=dot.index)
        shape = self.graph.shape(dot.result)
        if dot.result in self.forced:
            return
        taken = {dot.index}
        frontier = [dot]
        best: set[int] = {dot.index}
        while frontier:
            node = frontier.pop(0)
            for user in sorted(self.graph.tensors[node.result].users):
                if user < 0 or user in taken:
                    continue
                candidate = self.graph.nodes[user]
                reason = self._epilogue_miss(candidate, dot, taken, shape)
                if reason:
                    self._miss(node.index, user, reason)
                    continue
                taken.add(user)
                frontier.append(candidate)
                if len(self._outputs_of(taken)) <= 1:
                    best = set(taken)
        if len(self._outputs_of(taken)) <= MAX_EPILOGUE_OUTPUTS and len(self._outputs_of(best)) > 1:
            best = taken
        for index in sorted(best - {dot.index}):
            self._join(region, self.graph.nodes[index])

    def _epilogue_miss(self, node: Node, dot: Node, taken: set[int], shape: tuple[Any, ...]) -> str:
        """Why an op cannot be in the epilogue; '' if it can."""
        if node.name in FREE:
            return "a layout op: it folds into what reads it"
        if node.name not in ELEMENTWISE:
            return f"{node.name} is not element-wise"
        if node.index in self.region_of:
            return "already in another kernel"
        if not _same(self.graph.shape(node.result), shape):
            return "another shape"
        for operand in node.operands:
            if operand in self.forced:
                return self.forced[operand]
            producer = self.graph.producer(operand)
            if producer is not None and producer.index > dot.index and producer.index not in taken:
                if self._depends_on(operand, dot.index, taken):
                    return "also needs a value computed from this one in another kernel"
        return ""

    def _depends_on(self, tensor: int, source: int, taken: set[int]) -> bool:
        """Whether a tensor is computed from node `source` (by a path outside `taken`)."""
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

    def _outputs_of(self, nodes: set[int]) -> list[int]:
        """Results of nodes that something outside needs."""
        return [
            result
            for index in sorted(nodes)
            for result in self.graph.nodes[index].results
            if any(user not in nodes for user in self.consumers[result])
        ]

    # -- step 2 --------------------------------------------------------------------------------
    def join_backwards(self) -> None:
        for node in reversed(self.graph.nodes):
            if node.name in FREE or node.index in self.region_of:
                continue
            users = self._node_consumers(node)
            if not users and node.result not in self.forced:
                continue  # dead
            region = self._joinable(node, users)
            if region is not None:
                self._join(region, node)
            elif node.name == "reduce":
                shape = self.graph.shape(node.operands[0])
                self._new("row", node, domain=shape, reduced=tuple(node.attrs["axes"]))
            else:
                self._new("loop", node, domain=self.graph.shape(node.result))

    def _joinable(self, node: Node, users: set[int]) -> Region | None:
        """The region that a node joins, or None. Notes the reason of each miss."""
        if node.result in self.forced:
            return None
        regions = list(dict.fromkeys(self.region_of[u] for u in sorted(users) if u >= 0))
        for region in regions:
            reason = self._join_miss(node, region, users, regions)
            if not reason:
                return region
            for user in users & region.nodes:
                self._miss(node.index, user, reason)
        return None

    def _join_miss(self, node: Node, region: Region, users: set[int], regions: list[Region]) -> str:
        if region.kind == "extern":
            return "the consumer is run by the framework"
        if node.name == "reduce":
            reason = self._reduce_miss(node, region)
        else:
            reason = self._elementwise_miss(node, region)
        if reason:
            return reason
        if len(regions) == 1 and users <= region.nodes:
            if node.name == "reduce":
                self._make_row(node, region)
            return ""
        # Another kernel or the caller needs the value too: it becomes one more output here.
        if region.kind not in ("loop", "row"):
            return "several kernels need the value"
        if not self._is_domain_shape(node, region):
            return "several kernels need the value and its shape is not the kernel's"
        if any(self._reaches(other, region) for other in regions if other is not region):
            return "a cycle: the other consumer feeds this kernel"
        if node.name == "reduce":
            self._make_row(node, region)
        return ""

    def _reduce_miss(self, node: Node, region: Region) -> str:
        if region.kind not in ("loop", "row"):
            return f"a reduction does not go into a {region.kind} kernel"
        shape = self.graph.shape(node.operands[0])
        axes = node.attrs["axes"]
        if region.kind == "row":
            if not _same(shape, region.domain) or tuple(axes) != region.reduced:
                return "reductions over different shapes or axes"
            return ""
        kept = [s for i, s in enumerate(shape) if i not in axes]
        if _same(shape, region.domain) and self._read_by_row(node, region):
            return ""
        keepdim = [1 if i in axes else s for i, s in enumerate(shape)]
        if _same(kept, region.domain) or _same(keepdim, region.domain):
            return ""
        return "the consumer's shape is neither the reduction's input nor its output"

    def _read_by_row(self, node: Node, region: Region) -> bool:
        """Whether the region reads a reduction's result at its own row (and not transposed or shifted)."""
        shape = self.graph.shape(node.operands[0])
        axes = node.attrs["axes"]
        spec = RegionSpec(
            "row", (self._root(region),), frozenset(region.nodes | {node.index}), shape, tuple(axes)
        )
        try:
            kernel_program(self.graph, spec)
        except NoAccess:
            return False
        return True

    def _root(self, region: Region) -> int:
        return self._outputs_of(region.nodes)[0]

    def _make_row(self, node: Node, region: Region) -> None:
        if region.kind == "loop":
            region.kind = "row"
            region.domain = self.graph.shape(node.operands[0])
            region.reduced = tuple(node.attrs["axes"])

    def _elementwise_miss(self, node: Node, region: Region) -> str:
        shape = self.graph.shape(node.result)
        if node.name == "take" and region.kind == "dot":
            return "an indexed read is not part of a dot's epilogue"
        if region.kind == "dot":
            consumer = self.graph.nodes[region.dot or 0]
            for index in region.nodes & self._node_consumers(node):
                if index == consumer.index:
                    return "an operand of a dot must be in memory"
            if consumer.index < node.index:
                # Evaluated in the epilogue: it must not depend on the dot by another way.
                if self._depends_on(node.result, consumer.index, set(region.nodes)):
                    return "depends on the kernel itself"
            if not _same(shape, self.graph.shape(consumer.result)):
                return "a smaller shape: computed once, not for every element of the dot"
        if (
            node.name in TRANSCENDENTAL
            and region.domain
            and not self._is_domain_shape(node, region)
        ):
            return "costly and of a smaller shape: computed once"
        if self._is_index(node, region):
            return "row numbers of an indexed read are read once a row"
        return ""

    def _is_index(self, node: Node, region: Region) -> bool:
        return False

    def _is_domain_shape(self, node: Node, region: Region) -> bool:
        shape = self.graph.shape(node.result)
        if _same(shape, region.domain):
            return True
        if not region.reduced:
            return False
        kept = [s for i, s in enumerate(region.domain) if i not in region.reduced]
        return _same(shape, kept)

    def _reaches(self, source: Region, target: Region) -> bool:
        """Whether `target` (transitively) needs something that `source` computes."""
        first = min(source.nodes)
        seen: set[int] = set()
        stack = [t for index in target.nodes for t in self.graph.nodes[index].operands]
        while stack:
            node = self.graph.producer(stack.pop())
            if node is None or node.index in seen or node.index < first:
                continue
            seen.add(node.index)
            region = self.region_of.get(node.index)
            if region is source:
                return True
            if region is not None and region is not target:
                for index in region.nodes:
                    if index not in seen:
                        seen.add(index)
                        stack.extend(self.graph.nodes[index].operands)
            stack.extend(node.operands)
        return False

    # -- step 3 --------------------------------------------------------------------------------
    def materialize_views(self) -> None:
        """Views that must be in memory: returned, handed to the framework, or forced."""
        graph = self.graph
        needed: dict[int, None] = dict.fromkeys(t for t in graph.returns if self._is_free(t))
        for region in self.regions:
            if region.kind == "extern":
                for index in region.nodes:
                    needed.update(
                        dict.fromkeys(t for t in graph.nodes[index].operands if self._is_free(t))
                    )
        needed.update(dict.fromkeys(t for t in self.forced if self._is_free(t)))
        for tensor in needed:
            region = Region("loop", set(), [tensor], domain=graph.shape(tensor))
            self.regions.append(region)

    def _is_free(self, tensor: int) -> bool:
        node = self.graph.producer(tensor)
        return node is not None and node.name in FREE

    def absorb_transposes(self) -> None:
        """Store an output transposed when its one reader wants it so; the last dim stays the last."""
        graph = self.graph
        for region in self.regions:
            if region.kind not in ("dot", "loop") or not region.nodes:
                continue
            outputs = self._outputs_of(region.nodes)
            if len(outputs) != 1 or outputs[0] in self.forced or outputs[0] in graph.returns:
                continue
            users = graph.tensors[outputs[0]].users
            if len(users) != 1 or users[0] < 0:
                continue
            user = graph.nodes[users[0]]
            if user.name != "transpose" or user.result in self.forced:
                continue
            permutation = user.attrs["permutation"]
            if permutation[-1] == len(permutation) - 1:
                region.stored_as = user.result
                region.domain = graph.shape(user.result)

    # -- results -------------------------------------------------------------------------------
    def _find_outputs(self, region: Region) -> None:
        if region.stored_as is not None:
            region.outputs = [region.stored_as]
        elif region.nodes:
            graph = self.graph
            returned = set(graph.returns)
            region.outputs = [
                result
                for index in sorted(region.nodes)
                for result in graph.nodes[index].results
                if result in returned
                or result in self.forced
                or any(u not in region.nodes for u in self.consumers[result])
            ]

    def _ordered(self) -> list[Region]:
        """Regions sorted so that each comes after those it reads from."""
        graph = self.graph
        owner = {t: r for r in self.regions for t in r.outputs}
        for r in self.regions:
            for index in r.nodes:
                for result in graph.nodes[index].results:
                    owner.setdefault(result, r)
        ordered: list[Region] = []
        state: dict[int, int] = {}

        def needs(region: Region) -> list[Region]:
            if region.programs:
                tensors = [t for p in region.programs for t in p.inputs]
            else:
                tensors = [t for i in sorted(region.nodes) for t in graph.nodes[i].operands]
            return [
                owner[t] for t in self._memory_sources(tensors, owner) if owner[t] is not region
            ]

        def visit(region: Region) -> None:
            key = id(region)
            if state.get(key) == 2:
                return
            if state.get(key) == 1:
                raise InternalError("the fusion plan has a cycle")
            state[key] = 1
            for other in needs(region):
                visit(other)
            state[key] = 2
            ordered.append(region)

        for region in sorted(self.regions, key=self._position):
            visit(region)
        return ordered

    def _memory_sources(self, tensors: list[int], owner: dict[int, Region]) -> list[int]:
        found: dict[int, None] = {}
        stack = list(tensors)
        while stack:
            tensor = stack.pop(0)
            if tensor in owner:
                found[tensor] = None
                continue
            node = self.graph.producer(tensor)
            if node is not None:
                stack.extend(node.operands)
        return list(found)

    def _position(self, region: Region) -> int:
        if region.nodes:
            return max(region.nodes)
        producer = self.graph.producer(region.outputs[0])
        return producer.index if producer else -1

    def _not_fused(self) -> list[NotFused]:
        found = []
        for node in self.graph.nodes:
            mine = self.region_of.get(node.index)
            if mine is None:
                continue
            for user in sorted(self._node_consumers(node)):
                if user < 0:
                    continue
                other = self.region_of.get(user)
                if other is None or other is mine:
                    continue
                consumer = self.graph.nodes[user]
                reason = self.reasons.get((node.index, user)) or self._why(node, consumer)
                found.append(NotFused(self._label(node), self._label(consumer), reason))
        return found

    def _label(self, node: Node) -> str:
        where = self.graph.where(node)
        return f"{node.name} ({where})" if where else node.name

    def _why(self, producer: Node, consumer: Node) -> str:
        if consumer.name == "dot_general":
            return "an operand of a dot must be in memory"
        if "extern" in (self.region_of[producer.index].kind, self.region_of[consumer.index].kind):
            return "one side is run by the framework"
        if producer.name == "dot_general":
            return "several ops need the dot's result"
        return "several kernels need the value"


def _same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(prove_eq(x, y) for x, y in zip(a, b, strict=True))
