"""Reading by index tensors: `take` of rows, or a broadcast where the index is a range."""

from collections.abc import Sequence
from typing import Any

from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value
from pydisc.shape import Size, size_hint
from pydisc.support.errors import Unsupported


@lowering("aten.embedding.default")
def embedding(
    cx: Cx,
    table: Value,
    index: Value,
    padding_idx: Any = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Rows of the table."""
    return cx.b.take(table, index)


@lowering("aten.index_select.default")
def index_select(cx: Cx, x: Value, dim: int, index: Value) -> Value:
    """Slices of x along one dim."""
    if not x.shape:
        return NotImplemented
    return _take_along(cx, x, cx.axis(x, dim), cx.reshape(index, (cx.product(index.shape),)))


def _take_along(cx: Cx, x: Value, axis: int, index: Value) -> Value:
    """index.shape in place of one axis of x."""
    order = [axis, *(i for i in range(len(x.shape)) if i != axis)]
    rows = cx.b.take(cx.transpose(x, order), index)
    n = len(index.shape)
    back = [*range(n, n + axis), *range(n), *range(n + axis, len(rows.shape))]
    return cx.transpose(rows, back)


def _from_the_front(cx: Cx, index: Value, size: Size) -> Value:
    """Negative indices counted from the end."""
    if index in cx.iotas and cx.known(cx.iotas[index].start, "ge", 0):
        return index
    index = cx.convert(index, "i64")
    return cx.select(cx.compare("LT", index, 0), cx.binary("add", index, size), index)


@lowering("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_tensor(cx: Cx, x: Value, indices: Sequence[Value | None]) -> Value:
    """x[i, j, ...] with tensors of indices, which broadcast with each other."""
    axes = [i for i, index in enumerate(indices) if index is not None]
    used = [index for index in indices if index is not None]
    if any(index.dtype in ("i1", "ui8") for index in used):
        raise Unsupported(
            "indexing by a bool tensor",
            "the size of the result depends on the data",
            "use torch.where or multiply by the mask",
        )
    if axes != list(range(axes[0], axes[0] + len(axes))):
        order = [*axes, *(i for i in range(len(x.shape)) if i not in axes)]
        return index_tensor(cx, cx.transpose(x, order), used)
    shape = cx.broadcast_shapes(*(index.shape for index in used))
    whole = _whole_axes(cx, x, axes, used, shape)
    if whole is not None:
        return whole
    if len(axes) == 1:
        return _take_along(cx, x, axes[0], _from_the_front(cx, used[0], x.shape[axes[0]]))
    return _take_along_all(cx, x, axes, used, shape)


def _take_along_all(
    cx: Cx, x: Value, axes: list[int], indices: list[Value], shape: tuple[Any, ...]
) -> Value:
    """Several neighbouring axes taken as one."""
    first, last = axes[0], axes[-1]
    flat = _Flat(cx)
    for axis, index in zip(axes, indices, strict=True):
        size = x.shape[axis]
        flat.add(cx.operand(_from_the_front(cx, index, size), shape, "i64"), size)
    together = cx.product(x.shape[first : last + 1])
    merged = cx.reshape(x, (*x.shape[:first], together, *x.shape[last + 1 :]))
    return _take_along(cx, merged, first, flat.index())


class _Flat:
    """An index into several axes taken as one; out of range if it is so along one of them."""

    def __init__(self, cx: Cx) -> None:
        self.cx = cx
        self.sum: Value | None = None
        self.inside: Value | None = None

    def add(self, at: Value, size: Size) -> None:
        """Go on by an axis of some size, at index `at` (i64)."""
        cx = self.cx
        if not _is_inside(cx, at, size):
            inside = cx.b.binary("and", cx.compare("GE", at, 0), cx.compare("LT", at, size))
            known = self.inside
            self.inside = inside if known is None else cx.b.binary("and", known, inside)
        whole = self.sum
        if whole is not None:
            at = cx.b.binary("add", cx.binary("multiply", whole, size), at)
        self.sum = at

    def index(self) -> Value:
        """The index into all axes; -1 where it is out of range."""
        assert self.sum is not None
        if self.inside is None:
            return self.sum
        return self.cx.select(self.inside, self.sum, -1)


def _is_inside(cx: Cx, at: Value, size: Size) -> bool:
    """Whether an index is known to be in range."""
    iota = cx.iotas.get(at)
    if iota is None:
        return False
    end = iota.start + at.shape[iota.axis]  # pyright: ignore[reportOperatorIssue]
    return bool(cx.known(iota.start, "ge", 0) and cx.known(size, "ge", end))


def _prefix(cx: Cx, x: Value, axis: int, length: Size) -> Value:
    """x[:length] along an axis; sizes that the hints say are one are guarded to be."""
    size = x.shape[axis]
    if size_hint(size) == size_hint(length):
        cx.require_equal(size, length, "indexing by a range")
        return cx.reshape(x, (*x.shape[:axis], length, *x.shape[axis + 1 :]))
    cx.require_at_least(size, length, "index out of range")
    return cx.slice_axis(x, axis, 0, length)


def _whole_axes(
    cx: Cx, x: Value, axes: list[int], indices: list[Value], shape: tuple[Any, ...]
) -> Value | None:
    """The broadcast that the indexing is, if every index runs once along its axis, from 0 on.

    mask[arange(b)[:, None, None, None], arange(s)] is mask[:b, :s] as [b, 1, 1, s].
    """
    places: list[int] = []
    for index in indices:
        iota = cx.iotas.get(index)
        if iota is None or not (isinstance(iota.start, int) and iota.start == 0):
            return None
        place = iota.axis + len(shape) - len(index.shape)
        if place in places:
            return None
        places.append(place)
    for axis, index in zip(axes, indices, strict=True):
        x = _prefix(cx, x, axis, index.shape[cx.iotas[index].axis])
    first = axes[0]
    target = (*x.shape[:first], *shape, *x.shape[axes[-1] + 1 :])
    after = first + len(shape)
    dims = [*range(first), *(first + p for p in places), *range(after, len(target))]
    if dims != sorted(dims):
        order = sorted(range(len(dims)), key=dims.__getitem__)
        x, dims = cx.transpose(x, order), sorted(dims)
    if all(target[d] is x.shape[i] or target[d] == x.shape[i] for i, d in enumerate(dims)):
        rest = [s for i, s in enumerate(target) if i not in dims]
        if all(isinstance(s, int) and s == 1 for s in rest):
            return cx.reshape(x, target)
    return cx.broadcast(x, target, dims)


@lowering("aten.gather.default")
def gather(cx: Cx, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """out[i, j, ...] = x[i, index[i, j, ...], ...], with the index in place `dim`."""
    if not x.shape or not index.shape:
        return NotImplemented
    axis = cx.axis(x, dim)
    for i, size in enumerate(x.shape):
        if i != axis:
            cx.require_at_least(size, index.shape[i], "gather: the index is larger than the input")
    flat = _Flat(cx)
    axes = [i for i, s in enumerate(x.shape) if i == axis or not (isinstance(s, int) and s == 1)]
    for i in axes:
        at = cx.convert(index, "i64") if i == axis else cx.iota(index.shape, i)
        flat.add(at, x.shape[i])
    return cx.b.take(cx.reshape(x, (cx.product(x.shape),)), flat.index())


@lowering("aten.take.default")
def take(cx: Cx, x: Value, index: Value) -> Value:
    """Elements of x as if it were flat."""
    total = cx.product(x.shape)
    return cx.b.take(cx.reshape(x, (total,)), _from_the_front(cx, index, total))


@lowering("aten.take_along_dim.default")
def take_along_dim(cx: Cx, x: Value, index: Value, dim: int | None = None) -> Value:
    """`gather`, with the other dims broadcast."""
    if dim is None:
        total = cx.product(x.shape)
        return gather(cx, cx.reshape(x, (total,)), 0, cx.reshape(index, (cx.product(index.shape),)))
    axis = cx.axis(x, dim)

    def but(value: Value, size: Size) -> tuple[Any, ...]:
        return (*value.shape[:axis], size, *value.shape[axis + 1 :])

    lead = cx.broadcast_shapes(but(x, 1), but(index, 1))

    def to(value: Value) -> Value:
        size = value.shape[axis]
        return cx.broadcast(value, (*lead[:axis], size, *lead[axis + 1 :]))

    return gather(cx, to(x), axis, to(index))


@lowering("aten.diagonal_copy.default", "aten.diagonal.default")
def diagonal(cx: Cx, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The elements with equal indices in two dims, as a last dim."""
    one, two = cx.axis(x, dim1), cx.axis(x, dim2)
    others = [i for i in range(len(x.shape)) if i not in (one, two)]
    moved = cx.transpose(x, [one, two, *others])
    rows, columns = moved.shape[:2]
    down, right = max(-offset, 0), max(offset, 0)
    length = cx.minimum(cx.maximum(rows - down, 0), cx.maximum(columns - right, 0))
    place = cx.binary("multiply", cx.iota((length,), 0), columns + 1)
    place = cx.binary("add", place, down * columns + right)
    flat = cx.reshape(moved, (cx.product((rows, columns)), *moved.shape[2:]))
    return cx.transpose(cx.b.take(flat, place), [*range(1, len(x.shape) - 1), 0])
