"""Shapes and views: reshape, transpose, slice, expand, concatenate, pad."""

from collections.abc import Sequence
from typing import Any

from pydisc.frontend.dtypes import Number, result_dtype
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value
from pydisc.shape import Dim, Size

_END = 2**62
"""A slice bound at or above this means the end."""


@lowering("aten.view.default", "aten._unsafe_view.default")
def view(cx: Cx, x: Value, shape: Sequence[Size]) -> Value:
    """The same elements in another shape."""
    return cx.reshape(x, cx.infer_shape(x.shape, shape))


@lowering("aten.unsqueeze.default")
def unsqueeze(cx: Cx, x: Value, dim: int) -> Value:
    """A new dim of size 1."""
    axis = cx.axis(x, dim, extra=1)
    return cx.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def _without(cx: Cx, x: Value, axes: Sequence[int]) -> Value:
    """x without those of the axes that have size 1."""
    drop = {i for i in axes if cx.holds(x.shape[i], "eq", 1)}
    return cx.reshape(x, [s for i, s in enumerate(x.shape) if i not in drop])


@lowering("aten.squeeze.dim", "aten.squeeze.dims")
def squeeze_dims(cx: Cx, x: Value, dims: int | Sequence[int]) -> Value:
    """Without the given dims, where their size is 1."""
    chosen = [dims] if isinstance(dims, int) else dims
    return _without(cx, x, [cx.axis(x, d) for d in chosen] if x.shape else [])


@lowering("aten.squeeze.default")
def squeeze(cx: Cx, x: Value) -> Value:
    """Without any dim of size 1."""
    return _without(cx, x, range(len(x.shape)))


@lowering("aten.transpose.int")
def transpose(cx: Cx, x: Value, one: int, two: int) -> Value:
    """Two dims exchanged."""
    if not x.shape:
        return x
    order = list(range(len(x.shape)))
    a, b = cx.axis(x, one), cx.axis(x, two)
    order[a], order[b] = order[b], order[a]
    return cx.transpose(x, order)


@lowering("aten.t.default", "aten.numpy_T.default", "aten.matrix_H.default")
def t(cx: Cx, x: Value) -> Value:
    """All dims in the opposite order."""
    return cx.transpose(x, list(range(len(x.shape)))[::-1])


@lowering("aten.mT.default")
def m_t(cx: Cx, x: Value) -> Value:
    """The last two dims exchanged."""
    return transpose(cx, x, -2, -1)


@lowering("aten.permute.default")
def permute(cx: Cx, x: Value, dims: Sequence[int]) -> Value:
    """The dims in a given order."""
    return cx.transpose(x, [cx.axis(x, d) for d in dims])


@lowering("aten.detach.default", "aten.alias.default")
def alias(cx: Cx, x: Value) -> Value:
    """The same."""
    return x


@lowering("aten.expand.default")
def expand(cx: Cx, x: Value, sizes: Sequence[Size], *, implicit: bool = False) -> Value:
    """Dims of size 1 repeated; -1 keeps a size."""
    offset = len(sizes) - len(x.shape)
    shape = list(sizes)
    for i, mine in enumerate(x.shape):
        wanted = shape[offset + i]
        if isinstance(wanted, int) and wanted == -1:
            shape[offset + i] = mine
        elif not (wanted is mine or (isinstance(mine, int) and mine == 1)):
            _require_expandable(cx, mine, wanted)
            if isinstance(mine, int) and mine != 1:
                shape[offset + i] = mine
    return cx.broadcast(x, shape)


def _require_expandable(cx: Cx, mine: Size, wanted: Size) -> None:
    if isinstance(mine, Dim) and cx.known(1, "ge", mine):
        if not mine.eq(1).sym_or(mine.eq(wanted)).expect_true():
            raise RuntimeError(f"expand: size {mine} does not become {wanted}")
        return
    hints = [s if isinstance(s, int) else s.hint for s in (mine, wanted)]
    if isinstance(mine, Dim) and hints[0] == 1 and hints[1] != 1:
        cx.require_equal(mine, 1, "expand")
    else:
        cx.require_equal(mine, wanted, "expand")


# -- slices ---------------------------------------------------------------------------------------
def _bound(cx: Cx, bound: Size, size: Size) -> Size:
    """A bound of a Python slice, as an offset within [0, size].

    Where it is not known to lie inside: a constant is cut at the ends (by a minimum or maximum),
    anything else is guarded to be where the hints say it is.
    """
    if isinstance(bound, int) and isinstance(size, int):
        bound = bound + size if bound < 0 else bound
        return min(max(bound, 0), size)
    if isinstance(bound, int):
        if bound >= 0:
            return cx.minimum(bound, size)
        return cx.maximum(size + bound, 0)  # pyright: ignore[reportOperatorIssue]
    if not cx.holds(bound, "ge", 0):
        bound = bound + size
        if not cx.holds(bound, "ge", 0):
            return 0
    return bound if cx.holds(size, "ge", bound) else size


def _limit(cx: Cx, end: Size | None, size: Size) -> Size:
    """The end of a slice as an offset; what lies beyond every size means the end."""
    if end is None or (isinstance(end, int) and end >= _END):
        return size
    return _bound(cx, end, size)


def _range(cx: Cx, start: Any, end: Any, size: Size) -> tuple[Size, Size, Size]:
    """(begin, limit, length) of start:end within a size, in range whatever the size is."""
    limit = _limit(cx, end, size)
    if start is None or (isinstance(start, int) and start == 0):
        return 0, limit, limit
    begin = _bound(cx, start, size)
    if not isinstance(start, int):
        if not cx.holds(limit, "ge", begin):
            limit = begin
        return begin, limit, limit - begin  # pyright: ignore[reportOperatorIssue]
    # limit - begin, with the cut of `begin` carried over to where it leaves one cut in all
    if start > 0:
        length = limit - start  # pyright: ignore[reportOperatorIssue]
    else:
        length = cx.minimum(limit - (size + start), limit)  # pyright: ignore[reportOperatorIssue]
    return begin, cx.maximum(limit, begin), cx.maximum(length, 0)


@lowering("aten.slice.Tensor")
def slice_(
    cx: Cx, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """x[start:end:step] along a dim."""
    axis = cx.axis(x, dim)
    begin, limit, length = _range(cx, start, end, x.shape[axis])
    return cx.slice_axis(x, axis, begin, limit, step, length)


@lowering("aten.select.int")
def select(cx: Cx, x: Value, dim: int, index: Size) -> Value:
    """x[index] along a dim, which is dropped."""
    axis = cx.axis(x, dim)
    size = x.shape[axis]
    if isinstance(index, int):
        cx.require_at_least(size, index + 1 if index >= 0 else -index, "index out of range")
        index = index if index >= 0 else size + index
    elif not cx.holds(index, "ge", 0):
        index = index + size
    one = cx.slice_axis(x, axis, index, index + 1)  # pyright: ignore[reportOperatorIssue]
    return cx.reshape(one, (*x.shape[:axis], *x.shape[axis + 1 :]))


@lowering("aten.narrow.default")
def narrow(cx: Cx, x: Value, dim: int, start: Size, length: Size) -> Value:
    """length elements from start on."""
    return slice_(cx, x, dim, start, start + length)  # pyright: ignore[reportOperatorIssue]


@lowering("aten.split_with_sizes.default", "aten.split.sizes")
def split_with_sizes(cx: Cx, x: Value, sizes: Sequence[Size], dim: int = 0) -> list[Value]:
    """Parts of given sizes."""
    axis = cx.axis(x, dim)
    parts: list[Value] = []
    at: Size = 0
    for size in sizes:
        parts.append(cx.slice_axis(x, axis, at, at + size))  # pyright: ignore[reportOperatorIssue]
        at = at + size  # pyright: ignore[reportOperatorIssue]
    cx.require_equal(at, x.shape[axis], "split_with_sizes: the sum of the sizes")
    return parts


@lowering("aten.split.Tensor")
def split(cx: Cx, x: Value, size: Size, dim: int = 0) -> list[Value]:
    """Parts of one size; how many they are is a Python number, so a size may be specialised."""
    axis = cx.axis(x, dim)
    whole = x.shape[axis]
    count = (whole + size - 1) // size if not (isinstance(size, int) and size == 0) else 1
    if isinstance(count, Dim):
        count = count.guard_int()
    count = max(count, 1)
    sizes = [size] * (count - 1)
    return split_with_sizes(cx, x, [*sizes, whole - size * (count - 1)], dim)


@lowering("aten.chunk.default")
def chunk(cx: Cx, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    """At most `chunks` parts of one size."""
    whole = x.shape[cx.axis(x, dim)]
    return split(cx, x, (whole + chunks - 1) // chunks, dim)


@lowering("aten.unbind.int")
def unbind(cx: Cx, x: Value, dim: int = 0) -> list[Value]:
    """Every slice along a dim."""
    size = x.shape[cx.axis(x, dim)]
    count = size if isinstance(size, int) else size.guard_int()
    return [select(cx, x, dim, i) for i in range(count)]


# -- putting together -----------------------------------------------------------------------------
@lowering("aten.cat.default", "aten.concat.default")
def cat(cx: Cx, xs: Sequence[Value], dim: int = 0) -> Value:
    """One after the other along a dim; empty vectors do not count, as torch has it."""
    kept = [
        x for x in xs if not (len(x.shape) == 1 and isinstance(x.shape[0], int) and x.shape[0] == 0)
    ]
    if not kept:
        return xs[0]
    dtype = result_dtype(*xs)
    axis = cx.axis(kept[0], dim)
    shape = kept[0].shape
    for x in kept[1:]:
        for i, size in enumerate(shape):
            if i != axis:
                cx.require_equal(x.shape[i], size, "cat")
    aligned = [
        cx.broadcast(cx.convert(x, dtype), (*shape[:axis], x.shape[axis], *shape[axis + 1 :]))
        for x in kept
    ]
    return cx.concatenate(aligned, axis)


@lowering("aten.stack.default")
def stack(cx: Cx, xs: Sequence[Value], dim: int = 0) -> Value:
    """Along a new dim."""
    axis = cx.axis(xs[0], dim, extra=1)
    return cat(cx, [unsqueeze(cx, x, axis) for x in xs], axis)


@lowering("aten.slice_scatter.default")
def slice_scatter(
    cx: Cx, x: Value, source: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """x with source in place of x[start:end]."""
    if step != 1:
        return NotImplemented
    axis = cx.axis(x, dim)
    size = x.shape[axis]
    begin, limit, length = _range(cx, start, end, size)
    middle = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    parts = [
        cx.slice_axis(x, axis, 0, begin),
        cx.broadcast(cx.convert(source, x.dtype), middle),
        cx.slice_axis(x, axis, limit, size),
    ]
    sized = [p for p in parts if not (isinstance(p.shape[axis], int) and p.shape[axis] == 0)]
    out = cx.concatenate(sized or parts[:1], axis)
    return cx.reshape(out, x.shape)


@lowering("aten.select_scatter.default")
def select_scatter(cx: Cx, x: Value, source: Value, dim: int, index: Size) -> Value:
    """x with source in place of x[index]."""
    axis = cx.axis(x, dim)
    if isinstance(index, int) and index < 0:
        index = x.shape[axis] + index
    end = index + 1  # pyright: ignore[reportOperatorIssue]
    return slice_scatter(cx, x, unsqueeze(cx, source, axis), axis, index, end)


@lowering("aten.repeat.default")
def repeat(cx: Cx, x: Value, times: Sequence[Size]) -> Value:
    """x laid out several times along each dim."""
    shape = (*(1 for _ in range(len(times) - len(x.shape))), *x.shape)
    x = cx.reshape(x, shape)
    if all(isinstance(n, int) and n == 1 for n in times):
        return x
    wide = [s for pair in zip(times, shape, strict=True) for s in pair]
    spread = cx.broadcast(x, wide, range(1, len(wide), 2))
    return cx.reshape(spread, [n * s for n, s in zip(times, shape, strict=True)])


@lowering("aten.repeat_interleave.self_int")
def repeat_interleave(cx: Cx, x: Value, times: Size, dim: int | None = None, **_: Any) -> Value:
    """Each element, or each slice along a dim, several times in a row."""
    if dim is None:
        x, dim = cx.reshape(x, (cx.product(x.shape),)), 0
    axis = cx.axis(x, dim)
    wide = (*x.shape[: axis + 1], times, *x.shape[axis + 1 :])
    spread = cx.broadcast(x, wide, [i for i in range(len(wide)) if i != axis + 1])
    return cx.reshape(spread, (*x.shape[:axis], x.shape[axis] * times, *x.shape[axis + 1 :]))


@lowering("aten.constant_pad_nd.default")
def constant_pad(cx: Cx, x: Value, pad: Sequence[Size], value: Number = 0) -> Value:
    """A number around x: (before, after) from the last dim backwards; negative cuts off."""
    for i in range(len(pad) // 2):
        x = _pad_axis(cx, x, len(x.shape) - 1 - i, pad[2 * i], pad[2 * i + 1], value)
    return x


def _pad_axis(cx: Cx, x: Value, axis: int, before: Size, after: Size, value: Number) -> Value:
    if isinstance(before, int) and isinstance(after, int):
        if not before and not after:
            return x
        low, high = ([n if i == axis else 0 for i in range(len(x.shape))] for n in (before, after))
        return cx.b.pad(x, cx.scalar(value, x.dtype), low, high)
    for n in (before, after):
        cx.require_at_least(n, 0, "pad by a size")

    def block(n: Size) -> list[Value]:
        if isinstance(n, int) and n == 0:
            return []
        return [cx.full((*x.shape[:axis], n, *x.shape[axis + 1 :]), value, x.dtype)]

    return cx.concatenate([*block(before), x, *block(after)], axis)


@lowering("aten.roll.default")
def roll(cx: Cx, x: Value, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Value:
    """What is shifted out at one end comes in at the other."""
    if not dims:
        flat = cx.reshape(x, (cx.product(x.shape),))
        return cx.reshape(roll(cx, flat, shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = cx.axis(x, dim)
        size = x.shape[axis]
        if isinstance(size, int) and (size == 0 or shift % size == 0):
            continue
        at = (-shift) % cx.maximum(size, 1)  # of nothing there is nothing to shift
        head, tail = cx.slice_axis(x, axis, 0, at), cx.slice_axis(x, axis, at, size)
        x = cx.b.reshape(cx.concatenate([tail, head], axis), x.shape)
    return x


def _triangle(cx: Cx, x: Value, diagonal: Size, upper: bool) -> Value:
    rows = cx.iota(x.shape[-2:], 0)
    columns = cx.iota(x.shape[-2:], 1)
    if not (isinstance(diagonal, int) and diagonal == 0):
        rows = cx.binary("add", rows, diagonal)
    keep = cx.b.compare("GE" if upper else "LE", columns, rows)
    return cx.select(keep, x, cx.full(x.shape, 0, x.dtype))


@lowering("aten.tril.default")
def tril(cx: Cx, x: Value, diagonal: Size = 0) -> Value:
    """The lower triangle, 0 above it."""
    return _triangle(cx, x, diagonal, upper=False)


@lowering("aten.triu.default")
def triu(cx: Cx, x: Value, diagonal: Size = 0) -> Value:
    """The upper triangle, 0 below it."""
    return _triangle(cx, x, diagonal, upper=True)
