"""Where an element comes from: coordinates carried backwards through layout ops.

A coordinate is a linear form over the axes of the kernel. Transposes permute coordinates, slices
scale and shift them, broadcasts drop some. A reshape takes coordinates apart into digits and puts
them together again; no division is ever needed at run time, because an axis that a reshape splits
becomes two axes of the kernel (`SplitAxis`).
"""

from collections.abc import Sequence

from pydisc.fusion.graph import Graph, Node
from pydisc.fusion.kernel_program import Linear, Size, is_zero
from pydisc.shape import divisible, exact_quotient, product, prove_eq


class NoAccess(Exception):
    """A tensor cannot be read in place in this region: `tensor` must be materialised first."""

    def __init__(self, tensor: int, why: str) -> None:
        super().__init__(why)
        self.tensor = tensor
        self.why = why


class SplitAxis(Exception):
    """An axis must be split so that its inner part has `inner` elements."""

    def __init__(self, axis: int, inner: Size) -> None:
        super().__init__(axis, inner)
        self.axis = axis
        self.inner = inner


def size_is_at_most_one(size: Size) -> bool:
    """Whether a dim has one place at most: 0 is then where to read, repeated or not."""
    return size <= 1 if isinstance(size, int) else size.hi <= 1


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes are known to be equal."""
    return len(a) == len(b) and all(prove_eq(x, y) for x, y in zip(a, b, strict=True))


def operand_coords(
    graph: Graph, node: Node, coords: Sequence[Linear], axes: Sequence[Size]
) -> list[Linear]:
    """Coordinates of the operand of a layout op, from those of its result.

    `axes` are the extents of the kernel's axes. Raises NoAccess or SplitAxis.
    """
    shape = graph.shape(node.operands[0])
    match node.name:
        case "transpose":
            at: list[Linear] = [Linear()] * len(shape)
            for out_dim, in_dim in enumerate(node.attrs["permutation"]):
                at[in_dim] = coords[out_dim]
            return at
        case "broadcast_in_dim":
            dims = node.attrs["dims"]
            return [
                Linear() if size_is_at_most_one(size) else coords[dims[i]]
                for i, size in enumerate(shape)
            ]
        case "slice":
            starts, strides = node.attrs["starts"], node.attrs["strides"]
            return [
                c.scaled(step) + Linear((), start)
                for c, start, step in zip(coords, starts, strides, strict=True)
            ]
        case _:
            return _before_reshape(graph, node, coords, axes)


def _before_reshape(
    graph: Graph, node: Node, coords: Sequence[Linear], axes: Sequence[Size]
) -> list[Linear]:
    """Group by group, flatten the dims after the reshape and take them apart into those before."""
    into, out_shape = graph.shape(node.operands[0]), graph.shape(node.result)
    result: list[Linear] = [Linear()] * len(into)
    for ins, outs in reshape_groups(into, out_shape, node.operands[0]):
        flat = Linear()
        for position, dim in enumerate(outs):
            flat = flat + coords[dim].scaled(product([out_shape[d] for d in outs[position + 1 :]]))
        parts = [flat]
        if len(ins) > 1:
            parts = take_apart(flat, [into[d] for d in ins], axes, node.operands[0])
        for dim, coordinate in zip(ins, parts, strict=True):
            result[dim] = coordinate
    return result


def take_apart(
    flat: Linear, sizes: Sequence[Size], axes: Sequence[Size], tensor: int
) -> list[Linear]:
    """The coordinates, in dims of the given sizes, of element number `flat`, without divisions.

    Raises NoAccess for `tensor` where no linear form says it, SplitAxis where one would if the axis
    were two.
    """
    if not is_zero(flat.offset):
        raise NoAccess(tensor, "a reshape splits a dim that is read from an offset")
    terms = list(flat.terms)
    scale: Size = 1
    result: list[Linear] = []
    for size in reversed(sizes):
        result.append(_take_digit(terms, size, scale, axes, tensor))
        scale = scale * size
    if terms:
        raise NoAccess(tensor, "a reshape of strided data")
    return result[::-1]


def _take_digit(
    terms: list[tuple[int, Size]], size: Size, scale: Size, axes: Sequence[Size], tensor: int
) -> Linear:
    """Take from `terms` the axes that walk a dim of this size at steps of `scale`."""
    covered: Size = 1
    taken: list[tuple[int, Size]] = []
    while not prove_eq(covered, size):
        match = next(((a, c) for a, c in terms if prove_eq(c, scale * covered)), None)
        if match is None:
            raise NoAccess(tensor, "a reshape splits a dim in a way that no stride expresses")
        terms.remove(match)
        axis, _ = match
        whole = covered * axes[axis]
        if not prove_eq(whole, size) and quotient(size, whole) is None:
            rest = quotient(size, covered)
            if rest is not None and quotient(axes[axis], rest) is not None:
                raise SplitAxis(axis, rest)
            raise NoAccess(tensor, "a reshape regroups dims without a common factor")
        taken.append((axis, covered))
        covered = whole
    return Linear(tuple(sorted(taken)))


def quotient(whole: Size, factor: Size) -> Size | None:
    """whole / factor if it is known to be exact for all sizes."""
    if not isinstance(factor, int):
        return exact_quotient(whole, factor)
    if factor == 1:
        return whole
    if isinstance(whole, int):
        return whole // factor if factor and whole % factor == 0 else None
    return whole // factor if divisible(whole, factor) else None


def reshape_groups(
    before: Sequence[Size], after: Sequence[Size], tensor: int
) -> list[tuple[list[int], list[int]]]:
    """Smallest runs of dims before and after a reshape with equal products; dims of 1 are left out.

    Raises NoAccess for `tensor`, the reshape's operand, if they are not known to agree: where it
    lies in memory, the reshape has the same addresses.
    """
    ins = [i for i, s in enumerate(before) if s != 1]
    outs = [i for i, s in enumerate(after) if s != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while ins or outs:
        found = _shortest_match(
            _prefix_products([before[d] for d in ins]), _prefix_products([after[d] for d in outs])
        )
        if found is None:
            raise NoAccess(tensor, "a reshape whose groups of dims are not known to agree")
        p, q = found
        groups.append((ins[:p], outs[:q]))
        ins, outs = ins[p:], outs[q:]
    return groups


def _shortest_match(left: Sequence[Size], right: Sequence[Size]) -> tuple[int, int] | None:
    """The shortest prefixes (by their lengths together) with equal products."""
    for total in range(2, len(left) + len(right) + 1):
        for p in range(max(1, total - len(right)), min(len(left), total - 1) + 1):
            if prove_eq(left[p - 1], right[total - p - 1]):
                return p, total - p
    return None


def _prefix_products(sizes: Sequence[Size]) -> list[Size]:
    products: list[Size] = []
    total: Size = 1
    for size in sizes:
        total = total * size
        products.append(total)
    return products
