"""Running sums, products and extremes along an axis."""

from typing import Any

from pydisc.frontend.dtypes import category, name_of
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value
from pydisc.ir.types import FLOATS


def _is_one(x: Value, axis: int) -> bool:
    size = x.shape[axis]
    return isinstance(size, int) and size == 1


def _scan(cx: Cx, kind: str, x: Value, axis: int) -> Value:
    """A running value; of one element it is the element."""
    return x if _is_one(x, axis) else cx.b.scan(kind, x, axis)


def _accumulate(cx: Cx, kind: str, x: Value, dim: int, dtype: Any) -> Value:
    """Running sums or products, of integers in i64 and of floats in f64, as eager mode has it."""
    target = "i64" if category(x.dtype) < 2 else x.dtype
    if dtype is not None:
        target = name_of(dtype)
    axis = cx.axis(x, dim)
    x = cx.convert(x, target)
    if not x.shape or target == "i1":
        return x if not x.shape else NotImplemented
    wide = cx.convert(x, "f64" if target in FLOATS else target)
    return cx.convert(_scan(cx, kind, wide, axis), target)


@lowering("aten.cumsum.default")
def cumsum(cx: Cx, x: Value, dim: int, *, dtype: Any = None) -> Value:
    """At each place the sum of all up to it."""
    return _accumulate(cx, "add", x, dim, dtype)


@lowering("aten.cumprod.default")
def cumprod(cx: Cx, x: Value, dim: int, *, dtype: Any = None) -> Value:
    """At each place the product of all up to it."""
    return _accumulate(cx, "multiply", x, dim, dtype)


def _extreme(cx: Cx, kind: str, x: Value, dim: int) -> list[Value]:
    """At each place the extreme of all up to it (NaN wins), and where it was last."""
    axis = cx.axis(x, dim)
    if not x.shape or _is_one(x, axis):
        return [x, cx.full(x.shape, 0, "i64")]
    best = cx.b.scan(kind, x, axis)
    hit = cx.b.compare("EQ", x, best)
    if x.dtype in FLOATS:
        hit = cx.b.binary("or", hit, cx.b.compare("NE", x, x))
    place = cx.select(hit, cx.iota(x.shape, axis), 0)
    return [best, cx.b.scan("maximum", place, axis)]


@lowering("aten.cummax.default")
def cummax(cx: Cx, x: Value, dim: int) -> list[Value]:
    """The greatest of all up to each place, and where."""
    return _extreme(cx, "maximum", x, dim)


@lowering("aten.cummin.default")
def cummin(cx: Cx, x: Value, dim: int) -> list[Value]:
    """The least of all up to each place, and where."""
    return _extreme(cx, "minimum", x, dim)
