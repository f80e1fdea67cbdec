"""One region at one point: tensor ops become expressions, layout ops become addresses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydisc.fusion.graph import ELEMENTWISE, FREE, LAYOUT, Graph, Node
from pydisc.fusion.kernel_program import (
    Contraction,
    Expr,
    KernelProgram,
    Linear,
    Size,
    Store,
)
from pydisc.fusion.layout import NoAccess, operand_coords, same_shape
from pydisc.fusion.region import RegionSpec
from pydisc.shape import product


def address(shape: Sequence[Size], coords: Sequence[Linear]) -> Linear:
    """The element number in a contiguous buffer."""
    total = Linear()
    for i, coordinate in enumerate(coords):
        total = total + coordinate.scaled(product(shape[i + 1 :]))
    return total


@dataclass
class Evaluator:
    """Top-down from the outputs; each tensor at each place once.

    `digits[i]` are the axes of dim i of the domain, outermost first, `contracted` those of the
    contracted dims of a dot.
    """

    graph: Graph
    region: RegionSpec
    domain: tuple[Size, ...]
    digits: Sequence[Sequence[Size]]
    contracted: Sequence[Sequence[Size]] = ()
    axes: list[Size] = field(default_factory=list)
    exprs: list[Expr] = field(default_factory=list)
    contraction: Contraction | None = None

    def __post_init__(self) -> None:
        self._memo: dict[object, int] = {}
        self._slots: dict[int, int] = {}
        self.coords = [self._new_axes(group) for group in self.digits]
        self.k_coords = [self._new_axes(group) for group in self.contracted]
        reduced = self.region.reduced
        self.outer_coords = [c for i, c in enumerate(self.coords) if i not in reduced]

    def run(self) -> KernelProgram:
        """The program of all outputs of the region."""
        stores: list[Store] = []
        for output in self.region.outputs:
            at = self._root_coords(output)
            info = self.graph.tensors[output]
            stores.append(Store(self.evaluate(output, at), address(info.shape, at), info.dtype))
        reduced = self.region.reduced
        inner = [a for i, c in enumerate(self.coords) if i in reduced for a in sorted(c.axes)]
        k_axes = {a for c in self.k_coords for a in c.axes}
        outer = [a for a in range(len(self.axes)) if a not in inner and a not in k_axes]
        return self._program(outer, inner, stores)

    def run_piece(
        self, tensor: int, source: Sequence[Size], target: Sequence[Size], whole: Sequence[Size]
    ) -> KernelProgram:
        """The program that copies the domain, from `source` in a tensor to `target` in a buffer."""
        at = [c + Linear((), start) for c, start in zip(self.coords, source, strict=True)]
        expr = self.evaluate(tensor, at if self.graph.shape(tensor) else [])
        to = [c + Linear((), start) for c, start in zip(self.coords, target, strict=True)]
        store = Store(expr, address(whole, to), self.graph.tensors[tensor].dtype)
        return self._program(range(len(self.axes)), (), [store])

    def _program(
        self, outer: Iterable[int], inner: Iterable[int], stores: Iterable[Store]
    ) -> KernelProgram:
        inputs = tuple(self._slots)
        return KernelProgram(
            tuple(self.axes),
            tuple(outer),
            tuple(inner),
            tuple(self.exprs),
            inputs,
            tuple(self.graph.tensors[t].dtype for t in inputs),
            tuple(stores),
            self.contraction,
        )

    def _new_axes(self, sizes: Sequence[Size]) -> Linear:
        """A coordinate made of new axes, outermost digit first."""
        first = len(self.axes)
        self.axes.extend(sizes)
        return Linear(tuple((first + i, product(sizes[i + 1 :])) for i in range(len(sizes))))

    def _root_coords(self, output: int) -> list[Linear]:
        """Coordinates of an output: the whole domain, or the domain without its reduced dims."""
        shape, reduced = self.graph.shape(output), self.region.reduced
        if same_shape(shape, self.domain):
            return self.coords
        if same_shape(shape, [s for i, s in enumerate(self.domain) if i not in reduced]):
            return self.outer_coords
        if same_shape(shape, [1 if i in reduced else s for i, s in enumerate(self.domain)]):
            return [Linear() if i in reduced else c for i, c in enumerate(self.coords)]
        raise NoAccess(
            output, "an output's shape is neither the region's domain nor its outer part"
        )

    def _expr(self, expr: Expr) -> int:
        found = self._memo.get(expr)
        if found is None:
            found = self._memo[expr] = len(self.exprs)
            self.exprs.append(expr)
        return found

    def _slot(self, tensor: int) -> int:
        return self._slots.setdefault(tensor, len(self._slots))

    # -- memory --------------------------------------------------------------------------------
    def _in_memory(self, tensor: int) -> bool:
        return tensor in self.region.memory and tensor not in self.region.outputs

    def _inside(self, node: Node) -> bool:
        return node.index in self.region.nodes or node.name in FREE

    def _memory_under(self, tensor: int) -> int | None:
        """The tensor in memory of which this one is only reshapes: it has the same addresses."""
        while not self._in_memory(tensor):
            node = self.graph.producer(tensor)
            if node is None or not self._inside(node):
                return tensor
            if node.name != "reshape":
                return None
            tensor = node.operands[0]
        return tensor

    def _to_memory(self, tensor: int, coords: Sequence[Linear]) -> tuple[int, Linear]:
        """The tensor in memory under layout ops, and the address in it; NoAccess if none is."""
        while True:
            base = self._memory_under(tensor)
            if base is not None:
                return base, address(self.graph.shape(tensor), coords)
            node = self.graph.producer(tensor)
            assert node is not None
            if node.name not in LAYOUT:
                raise NoAccess(tensor, f"{node.name} must be in memory here")
            coords = operand_coords(self.graph, node, coords, self.axes)
            tensor = node.operands[0]

    # -- values --------------------------------------------------------------------------------
    def evaluate(self, tensor: int, coords: Sequence[Linear]) -> int:
        """The expression for element `coords` of a tensor."""
        key = (tensor, tuple(coords))
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._evaluate(tensor, coords)
        return found

    def _evaluate(self, tensor: int, coords: Sequence[Linear]) -> int:
        base = self._memory_under(tensor)
        if base is not None:
            return self._load(tensor, base, coords)
        node = self.graph.producer(tensor)
        assert node is not None
        if node.name in LAYOUT:
            at = operand_coords(self.graph, node, coords, self.axes)
            return self.evaluate(node.operands[0], at)
        dtype = self.graph.tensors[tensor].dtype
        if node.name in ELEMENTWISE:
            return self._apply(node, coords, dtype)
        match node.name:
            case "constant":
                return self._expr(Expr("const", dtype, value=node.attrs["value"]))
            case "iota":
                return self._index(coords[node.attrs["axis"]], dtype)
            case "size":
                return self._index(Linear((), node.attrs["size"]), dtype)
            case "take":
                return self._take(node, coords, dtype)
            case "reduce":
                return self._reduce(node, coords, dtype)
            case "scan":
                return self._scan(node, coords, dtype)
            case "dot_general":
                return self._dot(node, coords, dtype)
        raise AssertionError(f"{node.name} is not evaluated point by point")

    def _load(self, tensor: int, base: int, coords: Sequence[Linear]) -> int:
        info = self.graph.tensors[tensor]
        index = address(info.shape, coords)
        slot = self._slot(base)
        return self._expr(Expr("load", info.dtype, slot=slot, index=index, axes=index.axes))

    def _index(self, index: Linear, dtype: str) -> int:
        whole = self._expr(Expr("index", "i64", index=index, axes=index.axes))
        if dtype == "i64":
            return whole
        return self._expr(Expr("apply", dtype, (whole,), fn="convert", axes=index.axes))

    def _apply(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        args = tuple(
            self.evaluate(operand, coords if self.graph.shape(operand) else ())
            for operand in node.operands
        )
        fn = node.name
        if fn == "compare":
            fn = f"compare_{node.attrs['direction']}"
        elif fn == "elementwise":
            fn = node.attrs["fn"]
        axes = frozenset().union(*(self.exprs[a].axes for a in args))
        return self._expr(Expr("apply", dtype, args, fn=fn, axes=axes))

    def _take(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        table, index = node.operands
        shape = self.graph.shape(table)
        base = self._memory_under(table)
        if base is None:
            raise NoAccess(table, "the table of an indexed read must be in memory")
        rank = len(self.graph.shape(index))
        row = self.evaluate(index, coords[:rank])
        at = address(shape, [Linear(), *coords[rank:]])
        slot = self._slot(base)
        return self._expr(
            Expr(
                "take",
                dtype,
                (row,),
                slot=slot,
                index=at,
                stride=product(shape[1:]),
                bound=shape[0],
                axes=at.axes | self.exprs[row].axes,
            )
        )

    def _reduce(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        operand = node.operands[0]
        reduced = tuple(node.attrs["axes"])
        if not same_shape(self.graph.shape(operand), self.domain) or reduced != self.region.reduced:
            raise NoAccess(node.result, "reductions of different shapes in one region")
        if list(coords) != self.outer_coords:
            raise NoAccess(
                node.result, "a reduction's result is read at another place than its own row"
            )
        arg = self.evaluate(operand, self.coords)
        inner = tuple(sorted({a for i in reduced for a in self.coords[i].axes}))
        outer = frozenset(a for c in coords for a in c.axes)
        fn = node.attrs["kind"]
        return self._expr(Expr("reduce", dtype, (arg,), fn=fn, reduced=inner, axes=outer))

    def _scan(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        operand, axis = node.operands[0], node.attrs["axis"]
        if not same_shape(self.graph.shape(operand), self.domain) or self.region.reduced != (axis,):
            raise NoAccess(node.result, "a scan of another shape or axis than the kernel's")
        if list(coords) != self.coords:
            raise NoAccess(node.result, "running values are read at other places than their own")
        arg = self.evaluate(operand, self.coords)
        inner = tuple(sorted(self.coords[axis].axes))
        axes = frozenset(a for c in self.coords for a in c.axes)
        fn = node.attrs["fn"]
        return self._expr(Expr("scan", dtype, (arg,), fn=fn, reduced=inner, axes=axes))

    def _dot(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        a = node.attrs
        lhs_rank = len(self.graph.shape(node.operands[0]))
        batch_count, contract_count = len(a["lhs_batch"]), len(a["lhs_contract"])
        middle = lhs_rank - contract_count  # batch dims and free dims of the left operand
        batch, m, n = coords[:batch_count], coords[batch_count:middle], coords[middle:]
        lhs = self._dot_operand(node, 0, a["lhs_batch"], batch, a["lhs_contract"], m)
        rhs = self._dot_operand(node, 1, a["rhs_batch"], batch, a["rhs_contract"], n)
        groups = _axes_of(batch), _axes_of(m), _axes_of(n)
        if len({*groups[0], *groups[1], *groups[2]}) != sum(map(len, groups)):
            raise NoAccess(node.result, "an axis of the result belongs to both operands")
        k = _axes_of(self.k_coords)
        self.contraction = Contraction(*lhs, *rhs, *groups, k, dtype)
        axes = frozenset(axis for group in groups for axis in group)
        return self._expr(Expr("accumulator", dtype, axes=axes))

    def _dot_operand(
        self,
        node: Node,
        side: int,
        batch_dims: Sequence[int],
        batch: Sequence[Linear],
        contract_dims: Sequence[int],
        free: Sequence[Linear],
    ) -> tuple[int, Linear]:
        """Slot and address of an operand of a dot."""
        tensor = node.operands[side]
        known = dict(zip(batch_dims, batch, strict=True))
        known.update(zip(contract_dims, self.k_coords, strict=True))
        rest = iter(free)
        rank = len(self.graph.shape(tensor))
        at = [known[dim] if dim in known else next(rest) for dim in range(rank)]
        memory, index = self._to_memory(tensor, at)
        return self._slot(memory), index


def _axes_of(coords: Sequence[Linear]) -> tuple[int, ...]:
    """Axes in the order of the dims, outermost digit first."""
    return tuple(axis for c in coords for axis, _ in c.terms)
