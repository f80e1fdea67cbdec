"""From a region of tensor ops to a KernelProgram: top-down from the outputs, one point at a time."""

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
    is_zero,
)
from pydisc.shape import divisible, exact_quotient, product, prove_eq


class NoAccess(Exception):
    """A tensor cannot be read in place in this region: `tensor` must be materialised first."""

    def __init__(self, tensor: int, why: str) -> None:
        super().__init__(why)
        self.tensor = tensor
        self.why = why


class _Split(Exception):
    """Axis digit must be split so that its inner part has `inner` elements."""

    def __init__(self, axis: int, inner: Size) -> None:
        self.axis = axis
        self.inner = inner


@dataclass(frozen=True)
class RegionSpec:
    """What a kernel computes: outputs (tensor ids), the nodes that it may evaluate, its kind.

    Row and column regions name their `domain` (the shape under the reductions) and `reduced` dims;
    a dot region names its `dot` node.
    """

    kind: str
    outputs: tuple[int, ...]
    nodes: frozenset[int]
    domain: tuple[Size, ...] = ()
    reduced: tuple[int, ...] = ()
    dot: int | None = None
    memory: frozenset[int] = frozenset()
    """Tensors that lie in memory, the outputs of all regions: views among them are read, not seen through."""


def kernel_program(graph: Graph, region: RegionSpec) -> KernelProgram:
    """The program of a region. Raises NoAccess if a tensor must be materialised first."""
    domain = region.domain or graph.shape(region.outputs[0])
    digits: list[list[Size]] = [[s] if s != 1 else [] for s in domain]
    contracted: list[list[Size]] = []
    if region.dot is not None:
        dot = graph.nodes[region.dot]
        lhs_shape = graph.shape(dot.operands[0])
        sizes = [lhs_shape[i] for i in dot.attrs["lhs_contract"]]
        contracted = [[s] if s != 1 else [] for s in sizes]
    for _ in range(16):
        try:
            return _Evaluator(graph, region, domain, digits, contracted).run()
        except _Split as split:
            _split_digit(digits + contracted, split)
    raise NoAccess(region.outputs[0], "reshapes split one axis in too many ways")


def check_dot(graph: Graph, region: RegionSpec, program: KernelProgram) -> None:
    """Raise NoAccess unless the CPU kernels can read and write a dot (with collapsed axes) in place."""
    c = program.contraction
    assert c is not None and region.dot is not None
    lhs, rhs = graph.nodes[region.dot].operands
    if len(c.k) > 1 or (c.k and c.lhs.coefficient(c.k[0]) != 1):
        raise NoAccess(lhs, "the left operand of a dot must be contiguous along the contracted dim")
    if len(c.n) > 1:
        raise NoAccess(rhs, "the free dims of the right operand are not one stride")
    if c.n and any(store.index.coefficient(c.n[0]) != 1 for store in program.stores[:1]):
        raise NoAccess(
            graph.nodes[region.dot].result, "the result of a dot must be stored contiguously"
        )


def piece_programs(
    graph: Graph, output: int, nodes: frozenset[int], memory: frozenset[int]
) -> list[KernelProgram]:
    """Programs that fill one output piece by piece: the operands of a concatenate, the inside of a pad."""
    node = graph.producer(output)
    assert node is not None
    shape = graph.shape(output)
    programs = []
    if node.name == "pad":
        source, value = node.operands
        low = node.attrs["low"]
        programs.append(_piece(graph, value, shape, [0] * len(shape), shape, nodes, memory, True))
        programs.append(_piece(graph, source, graph.shape(source), low, shape, nodes, memory))
        return programs
    start: Size = 0
    axis = node.attrs["axis"]
    for operand in node.operands:
        at = [start if i == axis else 0 for i in range(len(shape))]
        programs.append(_piece(graph, operand, graph.shape(operand), at, shape, nodes, memory))
        start = start + graph.shape(operand)[axis]
    return programs


def _piece(
    graph: Graph,
    tensor: int,
    extent: Sequence[Size],
    at: Sequence[Size],
    whole: Sequence[Size],
    nodes: frozenset[int],
    memory: frozenset[int],
    scalar: bool = False,
) -> KernelProgram:
    """Copy a tensor (or repeat a scalar) into the box that starts at `at`."""
    region = RegionSpec("loop", (tensor,), nodes, tuple(extent), memory=memory)
    digits: list[list[Size]] = [[s] if s != 1 else [] for s in extent]
    for _ in range(16):
        try:
            evaluator = _Evaluator(graph, region, tuple(extent), digits, [])
            return evaluator.run_piece(tensor, at, whole, scalar)
        except _Split as split:
            _split_digit(digits, split)
    raise NoAccess(tensor, "reshapes split one axis in too many ways")


def _split_digit(groups: Iterable[list[Size]], split: _Split) -> None:
    axis = 0
    for group in groups:
        for position, size in enumerate(group):
            if axis == split.axis:
                group[position : position + 1] = [size // split.inner, split.inner]
                return
            axis += 1
    raise AssertionError("no such axis")


@dataclass
class _Evaluator:
    graph: Graph
    region: RegionSpec
    domain: tuple[Size, ...]
    digits: list[list[Size]]
    contracted: list[list[Size]]
    axes: list[Size] = field(default_factory=list)
    exprs: list[Expr] = field(default_factory=list)
    memo: dict[object, int] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    contraction: Contraction | None = None

    def run(self) -> KernelProgram:
        coords = [self._new_axes(group) for group in self.digits]
        self.k_coords = [self._new_axes(group) for group in self.contracted]
        reduced = set(self.region.reduced)
        self.outer_coords = [c for i, c in enumerate(coords) if i not in reduced]
        self.coords = coords
        stores = []
        for output in self.region.outputs:
            at = self._root_coords(output, coords, reduced)
            expr = self.evaluate(output, at)
            info = self.graph.tensors[output]
            stores.append(Store(expr, self.address(info.shape, at), info.dtype))
        inner = [a for i, c in enumerate(coords) if i in reduced for a in sorted(c.axes)]
        k_axes = {a for c in self.k_coords for a in c.axes}
        outer = [a for a in range(len(self.axes)) if a not in inner and a not in k_axes]
        inputs = tuple(self.slots)
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

    def run_piece(
        self, tensor: int, at: Sequence[Size], whole: Sequence[Size], scalar: bool
    ) -> KernelProgram:
        """The program that evaluates a tensor over the domain and stores it at an offset."""
        coords = [self._new_axes(group) for group in self.digits]
        self.k_coords, self.outer_coords, self.coords = [], coords, coords
        expr = self._piece_value(tensor, [] if scalar else coords)
        moved = [c + Linear((), start) for c, start in zip(coords, at, strict=True)]
        dtype = self.graph.tensors[tensor].dtype
        inputs = tuple(self.slots)
        return KernelProgram(
            tuple(self.axes),
            tuple(range(len(self.axes))),
            (),
            tuple(self.exprs),
            inputs,
            tuple(self.graph.tensors[t].dtype for t in inputs),
            (Store(expr, self.address(whole, moved), dtype),),
        )

    def _piece_value(self, tensor: int, coords: Sequence[Linear]) -> int:
        info = self.graph.tensors[tensor]
        if tensor in self.region.memory:
            index = self.address(info.shape, coords)
            load = Expr("load", info.dtype, slot=self._slot(tensor), index=index, axes=index.axes)
            return self._expr(load)
        return self.evaluate(tensor, coords)

    def _new_axes(self, sizes: Sequence[Size]) -> Linear:
        """A coordinate made of new axes, outermost digit first."""
        first = len(self.axes)
        self.axes.extend(sizes)
        terms = []
        for position in range(len(sizes)):
            terms.append((first + position, product(sizes[position + 1 :])))
        return Linear(tuple(terms))

    def _root_coords(self, output: int, coords: list[Linear], reduced: set[int]) -> list[Linear]:
        """Coordinates of an output: the whole domain, or the domain without its reduced dims."""
        shape = self.graph.shape(output)
        if _same(shape, self.domain):
            return coords
        kept = [i for i in range(len(self.domain)) if i not in reduced]
        if _same(shape, [self.domain[i] for i in kept]):
            return [coords[i] for i in kept]
        if _same(shape, [1 if i in reduced else s for i, s in enumerate(self.domain)]):
            return [Linear() if i in reduced else c for i, c in enumerate(coords)]
        raise NoAccess(
            output, "an output's shape is neither the region's domain nor its outer part"
        )

    def _expr(self, expr: Expr) -> int:
        found = self.memo.get(expr)
        if found is None:
            found = self.memo[expr] = len(self.exprs)
            self.exprs.append(expr)
        return found

    def _slot(self, tensor: int) -> int:
        return self.slots.setdefault(tensor, len(self.slots))

    @staticmethod
    def address(shape: Sequence[Size], coords: Sequence[Linear]) -> Linear:
        """The element number in a contiguous buffer."""
        total = Linear()
        for i, coordinate in enumerate(coords):
            total = total + coordinate.scaled(product(shape[i + 1 :]))
        return total

    # -- evaluation ----------------------------------------------------------------------------
    def evaluate(self, tensor: int, coords: Sequence[Linear]) -> int:
        """The expression for element `coords` of a tensor."""
        key = (tensor, tuple(coords))
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._evaluate(tensor, coords)
        return found

    def _in_memory(self, tensor: int) -> bool:
        return tensor in self.region.memory and tensor not in self.region.outputs

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

    def _inside(self, node: Node | None) -> bool:
        return node is not None and (node.index in self.region.nodes or node.name in FREE)

    def _evaluate(self, tensor: int, coords: Sequence[Linear]) -> int:
        info = self.graph.tensors[tensor]
        node = info.producer
        if node is None or not self._inside(node) or self._in_memory(tensor):
            index = self.address(info.shape, coords)
            return self._expr(
                Expr("load", info.dtype, slot=self._slot(tensor), index=index, axes=index.axes)
            )
        name = node.name
        if name == "reshape" and (base := self._memory_under(tensor)) is not None:
            index = self.address(info.shape, coords)
            slot = self._slot(base)
            return self._expr(Expr("load", info.dtype, slot=slot, index=index, axes=index.axes))
        if name in ("broadcast_in_dim", "reshape", "transpose", "slice"):
            operand, at = self.through(node, coords)
            return self.evaluate(operand, at)
        if name == "constant":
            return self._expr(Expr("const", info.dtype, value=node.attrs["value"]))
        if name == "iota":
            return self._index(coords[node.attrs["axis"]], info.dtype)
        if name == "size":
            return self._index(Linear((), node.attrs["size"]), info.dtype)
        if name in ELEMENTWISE:
            return self._apply(node, coords, info.dtype)
        if name == "take":
            return self._take(node, coords, info.dtype)
        if name == "reduce":
            return self._reduce(node, coords, info.dtype)
        if name == "dot_general":
            return self._dot(node, coords, info.dtype)
        raise AssertionError(f"{name} is not evaluated point by point")

    def _index(self, index: Linear, dtype: str) -> int:
        whole = self._expr(Expr("index", "i64", index=index, axes=index.axes))
        if dtype == "i64":
            return whole
        return self._expr(Expr("apply", dtype, (whole,), fn="convert", axes=index.axes))

    def _apply(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        args = []
        for operand in node.operands:
            scalar = len(self.graph.shape(operand)) == 0
            args.append(self.evaluate(operand, () if scalar else coords))
        fn = node.name
        if fn == "compare":
            fn = f"compare_{node.attrs['direction']}"
        elif fn == "elementwise":
            fn = node.attrs["fn"]
        axes = frozenset().union(*(self.exprs[a].axes for a in args))
        return self._expr(Expr("apply", dtype, tuple(args), fn=fn, axes=axes))

    def _take(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        table, index = node.operands
        shape = self.graph.shape(table)
        base = self._memory_under(table)
        if base is None:
            raise NoAccess(table, "the table of an indexed read must be in memory")
        rank = len(self.graph.shape(index))
        row = self.evaluate(index, coords[:rank])
        at = self.address(shape, [Linear(), *coords[rank:]])
        axes = at.axes | self.exprs[row].axes
        slot, stride = self._slot(base), product(shape[1:])
        return self._expr(
            Expr("take", dtype, (row,), "", None, slot, at, stride, shape[0], axes=axes)
        )

    def _to_memory(self, tensor: int, coords: Sequence[Linear]) -> tuple[int, Linear]:
        """The tensor in memory under layout ops, and the address in it; NoAccess if there is none."""
        while True:
            base = self._memory_under(tensor)
            if base is not None:
                return base, self.address(self.graph.shape(tensor), coords)
            node = self.graph.producer(tensor)
            assert node is not None
            if node.name not in LAYOUT:
                raise NoAccess(tensor, f"{node.name} must be in memory here")
            tensor, coords = self.through(node, coords)

    def _reduce(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        operand = node.operands[0]
        shape = self.graph.shape(operand)
        reduced = node.attrs["axes"]
        if not _same(shape, self.domain) or tuple(reduced) != tuple(self.region.reduced):
            raise NoAccess(node.result, "reductions of different shapes in one region")
        if list(coords) != list(self.outer_coords):
            raise NoAccess(
                node.result, "a reduction's result is read at another place than its own row"
            )
        arg = self.evaluate(operand, self.coords)
        inner = tuple(sorted({a for i in reduced for a in self.coords[i].axes}))
        outer = frozenset(a for c in coords for a in c.axes)
        fn = node.attrs["kind"]
        return self._expr(Expr("reduce", dtype, (arg,), fn=fn, reduced=inner, axes=outer))

    def _dot(self, node: Node, coords: Sequence[Linear], dtype: str) -> int:
        a = node.attrs
        lhs_shape, rhs_shape = (self.graph.shape(t) for t in node.operands)
        batch_count = len(a["lhs_batch"])
        lhs_free = [i for i in range(len(lhs_shape)) if i not in a["lhs_batch"] + a["lhs_contract"]]
        rhs_free = [i for i in range(len(rhs_shape)) if i not in a["rhs_batch"] + a["rhs_contract"]]
        batch = coords[:batch_count]
        m = coords[batch_count : batch_count + len(lhs_free)]
        n = coords[batch_count + len(lhs_free) :]
        lhs_coords = self._operand(lhs_shape, a["lhs_batch"], batch, lhs_free, m, a["lhs_contract"])
        rhs_coords = self._operand(rhs_shape, a["rhs_batch"], batch, rhs_free, n, a["rhs_contract"])
        lhs, lhs_at = self._to_memory(node.operands[0], lhs_coords)
        rhs, rhs_at = self._to_memory(node.operands[1], rhs_coords)
        groups = [self._axes_of(c) for c in (batch, m, n)]
        if len({*groups[0], *groups[1], *groups[2]}) != sum(map(len, groups)):
            raise NoAccess(node.result, "an axis of the result belongs to both operands")
        self.contraction = Contraction(
            self._slot(lhs),
            lhs_at,
            self._slot(rhs),
            rhs_at,
            groups[0],
            groups[1],
            groups[2],
            self._axes_of(self.k_coords),
            dtype,
        )
        axes = frozenset(axis for group in groups for axis in group)
        return self._expr(Expr("accumulator", dtype, axes=axes))

    def _operand(
        self,
        shape: Sequence[Size],
        batch_dims: Sequence[int],
        batch: Sequence[Linear],
        free_dims: Sequence[int],
        free: Sequence[Linear],
        contract_dims: Sequence[int],
    ) -> list[Linear]:
        at: list[Linear] = [Linear()] * len(shape)
        for dims, values in (
            (batch_dims, batch),
            (free_dims, free),
            (contract_dims, self.k_coords),
        ):
            for dim, value in zip(dims, values, strict=True):
                at[dim] = value
        return at

    @staticmethod
    def _axes_of(coords: Sequence[Linear]) -> tuple[int, ...]:
        """Axes in the order of the dims, outermost digit first."""
        return tuple(axis for c in coords for axis, _ in c.terms)

    # -- layout ops ----------------------------------------------------------------------------
    def through(self, node: Node, coords: Sequence[Linear]) -> tuple[int, list[Linear]]:
        """Coordinates of the operand of a layout op, from those of its result."""
        operand = node.operands[0]
        shape = self.graph.shape(operand)
        match node.name:
            case "transpose":
                at: list[Linear] = [Linear()] * len(shape)
                for out_dim, in_dim in enumerate(node.attrs["permutation"]):
                    at[in_dim] = coords[out_dim]
                return operand, at
            case "broadcast_in_dim":
                dims = node.attrs["dims"]
                return operand, [
                    Linear() if size == 1 else coords[dims[i]] for i, size in enumerate(shape)
                ]
            case "slice":
                starts, strides = node.attrs["starts"], node.attrs["strides"]
                return operand, [
                    c.scaled(step) + Linear((), start)
                    for c, start, step in zip(coords, starts, strides, strict=True)
                ]
            case _:
                return operand, self._reshape(node, shape, coords)

    def _reshape(self, node: Node, into: Sequence[Size], coords: Sequence[Linear]) -> list[Linear]:
        """Coordinates before a reshape: groups of dims with equal products are taken apart and put together."""
        out_shape = self.graph.shape(node.result)
        result: list[Linear] = [Linear()] * len(into)
        in_dims = [i for i, s in enumerate(into) if s != 1]
        out_dims = [i for i, s in enumerate(out_shape) if s != 1]
        for ins, outs in _groups(into, in_dims, out_shape, out_dims, node.result):
            flat = Linear()
            for position, dim in enumerate(outs):
                flat = flat + coords[dim].scaled(
                    product([out_shape[d] for d in outs[position + 1 :]])
                )
            if len(ins) == 1:
                result[ins[0]] = flat
            else:
                for dim, coordinate in zip(
                    ins, self._digits(flat, [into[i] for i in ins], node), strict=True
                ):
                    result[dim] = coordinate
        return result

    def _digits(self, flat: Linear, sizes: Sequence[Size], node: Node) -> list[Linear]:
        """Take a linear form apart into coordinates of dims of the given sizes, without divisions."""
        if not is_zero(flat.offset):
            raise NoAccess(node.operands[0], "a reshape splits a dim that is read from an offset")
        terms = list(flat.terms)
        scale: Size = 1
        result = []
        for size in reversed(sizes):
            covered: Size = 1
            taken: list[tuple[int, Size]] = []
            while not (
                isinstance(covered, int) and isinstance(size, int) and covered == size
            ) and not prove_eq(covered, size):
                match = next(((a, c) for a, c in terms if prove_eq(c, scale * covered)), None)
                if match is None:
                    raise NoAccess(
                        node.operands[0], "a reshape splits a dim in a way that no stride expresses"
                    )
                terms.remove(match)
                extent = self.axes[match[0]]
                whole = covered * extent
                if not prove_eq(whole, size) and not _divides(whole, size):
                    rest = _quotient(size, covered)
                    if rest is not None and _divides(rest, extent):
                        raise _Split(match[0], rest)
                    raise NoAccess(
                        node.operands[0], "a reshape regroups dims without a common factor"
                    )
                taken.append((match[0], covered))
                covered = whole
            result.append(Linear(tuple(sorted(taken))))
            scale = scale * size
        if terms:
            raise NoAccess(node.operands[0], "a reshape of strided data")
        return result[::-1]


def _same(a: Sequence[Size], b: Sequence[Size]) -> bool:
    return len(a) == len(b) and all(prove_eq(x, y) for x, y in zip(a, b, strict=True))


def _divides(factor: Size, whole: Size) -> bool:
    """Whether `whole` is known to be a multiple of `factor`."""
    return _quotient(whole, factor) is not None


def _quotient(whole: Size, factor: Size) -> Size | None:
    """whole / factor if it is known to be exact."""
    if isinstance(factor, int):
        if factor == 1:
            return whole
        if isinstance(whole, int):
            return whole // factor if factor and whole % factor == 0 else None
        return whole // factor if divisible(whole, factor) else None
    quotient = exact_quotient(whole, factor)
    return quotient


def _groups(
    into: Sequence[Size],
    in_dims: list[int],
    out_shape: Sequence[Size],
    out_dims: list[int],
    tensor: int,
) -> list[tuple[list[int], list[int]]]:
    """Smallest runs of dims on both sides with equal products."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(in_dims) or j < len(out_dims):
        found = None
        in_products = _prefix_products([into[d] for d in in_dims[i:]])
        out_products = _prefix_products([out_shape[d] for d in out_dims[j:]])
        for total in range(2, len(in_products) + len(out_products) + 1):
            for p in range(1, total):
                q = total - p
                if (
                    p <= len(in_products)
                    and q <= len(out_products)
                    and prove_eq(in_products[p - 1], out_products[q - 1])
                ):
                    found = (p, q)
                    break
            if found:
                break
        if found is None:
            raise NoAccess(tensor, "a reshape whose groups of dims are not known to agree")
        p, q = found
        groups.append((in_dims[i : i + p], out_dims[j : j + q]))
        i, j = i + p, j + q
    return groups


def _prefix_products(sizes: Sequence[Size]) -> list[Size]:
    products: list[Size] = []
    total: Size = 1
    for size in sizes:
        total = total * size
        products.append(total)
    return products
