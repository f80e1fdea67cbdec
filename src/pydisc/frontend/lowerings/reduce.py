"""Reductions over axes, and softmax."""

from collections.abc import Sequence
from typing import Any

from pydisc.frontend.dtypes import category, compute_dtype, float_dtype, name_of
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value
from pydisc.ir.types import FLOATS
from pydisc.shape import Dim

Dims = int | Sequence[int] | None


def _sum_dtype(x: Value, dtype: Any) -> str:
    if dtype is not None:
        return name_of(dtype)
    return x.dtype if category(x.dtype) == 2 else "i64"


def _accumulate(cx: Cx, kind: str, x: Value, dims: Dims, keepdim: bool, dtype: str) -> Value:
    """A reduction that adds up: 16-bit floats in f32."""
    wide = cx.convert(x, compute_dtype(dtype))
    return cx.convert(cx.reduce(kind, wide, cx.axes(x, dims), keepdim), dtype)


@lowering("aten.sum.dim_IntList", "aten.sum.default")
def sum_(cx: Cx, x: Value, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The sum over axes."""
    return _accumulate(cx, "add", x, dims, keepdim, _sum_dtype(x, dtype))


@lowering("aten.prod.default")
def prod(cx: Cx, x: Value, *, dtype: Any = None) -> Value:
    """The product of all."""
    return _accumulate(cx, "multiply", x, None, False, _sum_dtype(x, dtype))


@lowering("aten.prod.dim_int")
def prod_dim(cx: Cx, x: Value, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The product along one axis."""
    return _accumulate(cx, "multiply", x, dim, keepdim, _sum_dtype(x, dtype))


def count(cx: Cx, x: Value, axes: Sequence[int]) -> Any:
    """How many elements a reduction over these axes takes together."""
    return cx.product(x.shape[i] for i in axes)


def mean_over(cx: Cx, x: Value, axes: Sequence[int], keepdim: bool = False) -> Value:
    """The mean of a float value over axes."""
    total = cx.reduce("add", x, axes, keepdim)
    n = count(cx, x, axes)
    if isinstance(n, Dim):
        return cx.binary("divide", total, n, x.dtype)
    return cx.binary("multiply", total, 1.0 / n if n else float("nan"), x.dtype)


@lowering("aten.mean.dim", "aten.mean.default")
def mean(cx: Cx, x: Value, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The mean over axes."""
    target = name_of(dtype) if dtype is not None else x.dtype
    wide = cx.convert(x, compute_dtype(target))
    return cx.convert(mean_over(cx, wide, cx.axes(x, dims), keepdim), target)


def _divisor(cx: Cx, n: Any, correction: Any) -> Any:
    """max(0, n - correction), by which a variance divides; of too few elements it is NaN or inf."""
    rest = n - (1 if correction is None else correction)
    if isinstance(rest, int | float):
        return float(max(rest, 0))
    if isinstance(rest, Dim):
        return cx.maximum(rest, 0)
    return cx.binary("maximum", cx.scalar(rest, "f64"), 0.0)


def _variance(cx: Cx, x: Value, dims: Dims, correction: Any, keepdim: bool) -> Value:
    axes = cx.axes(x, dims)
    wide = cx.convert(x, compute_dtype(x.dtype))
    centred = cx.b.binary("subtract", wide, cx.spread(mean_over(cx, wide, axes), wide.shape, axes))
    total = cx.reduce("add", cx.b.binary("multiply", centred, centred), axes, keepdim)
    return cx.binary("divide", total, _divisor(cx, count(cx, x, axes), correction), wide.dtype)


@lowering("aten.var.correction")
def var(
    cx: Cx, x: Value, dims: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    """The variance over axes."""
    return cx.convert(_variance(cx, x, dims, correction, keepdim), x.dtype)


@lowering("aten.std.correction")
def std(
    cx: Cx, x: Value, dims: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    """The standard deviation over axes."""
    return cx.convert(cx.unary("sqrt", _variance(cx, x, dims, correction, keepdim)), x.dtype)


@lowering("aten.var_mean.correction")
def var_mean(
    cx: Cx, x: Value, dims: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> list[Value]:
    """Variance and mean over axes."""
    return [var(cx, x, dims, correction=correction, keepdim=keepdim), mean(cx, x, dims, keepdim)]


@lowering("aten.std_mean.correction")
def std_mean(
    cx: Cx, x: Value, dims: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> list[Value]:
    """Standard deviation and mean over axes."""
    return [std(cx, x, dims, correction=correction, keepdim=keepdim), mean(cx, x, dims, keepdim)]


def _require_some(cx: Cx, name: str, x: Value, axes: Sequence[int]) -> None:
    """Demand elements along axes: the greatest of nothing is an IndexError, as in eager mode."""
    for axis in axes:
        if not cx.is_at_least(x.shape[axis], 1):
            raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


def _require_any(cx: Cx, name: str, x: Value, error: type[Exception] = RuntimeError) -> None:
    """Demand elements of a tensor that is reduced as a whole."""
    if not cx.is_at_least(cx.product(x.shape), 1):
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )


def _extreme(cx: Cx, name: str, kind: str, x: Value, dims: Dims, keepdim: bool) -> Value:
    axes = cx.axes(x, dims)
    if dims is None or dims == []:
        _require_any(cx, name, x)
    else:
        _require_some(cx, name, x, axes)
    return cx.reduce(kind, x, axes, keepdim)


@lowering("aten.amax.default")
def amax(cx: Cx, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    """The greatest over axes."""
    return _extreme(cx, "amax", "maximum", x, dims, keepdim)


@lowering("aten.amin.default")
def amin(cx: Cx, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    """The least over axes."""
    return _extreme(cx, "amin", "minimum", x, dims, keepdim)


@lowering("aten.max.default")
def max_all(cx: Cx, x: Value) -> Value:
    """The greatest of all."""
    return _extreme(cx, "max", "maximum", x, None, False)


@lowering("aten.min.default")
def min_all(cx: Cx, x: Value) -> Value:
    """The least of all."""
    return _extreme(cx, "min", "minimum", x, None, False)


def _first_index(cx: Cx, x: Value, best: Value, axis: int, keepdim: bool) -> Value:
    """The first index at which x is the best along an axis, or NaN."""
    hit = cx.compare("EQ", x, best)
    if x.dtype in FLOATS:
        hit = cx.b.binary("or", hit, cx.b.compare("NE", x, x))
    index = cx.select(hit, cx.iota(x.shape, axis), x.shape[axis])
    return cx.reduce("minimum", index, [axis], keepdim)


def _extreme_along(cx: Cx, name: str, kind: str, x: Value, dim: int, keepdim: bool) -> list[Value]:
    if not x.shape:
        return [x, cx.constant(0, "i64")]
    axis = cx.axis(x, dim)
    _require_some(cx, name, x, [axis])
    best = cx.reduce(kind, x, [axis], keepdim=True)
    index = _first_index(cx, x, best, axis, keepdim)
    return [best if keepdim else _drop(cx, best, axis), index]


def _drop(cx: Cx, x: Value, axis: int) -> Value:
    return cx.reshape(x, (*x.shape[:axis], *x.shape[axis + 1 :]))


@lowering("aten.max.dim")
def max_dim(cx: Cx, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    """The greatest along one axis, and where."""
    return _extreme_along(cx, "max", "maximum", x, dim, keepdim)


@lowering("aten.min.dim")
def min_dim(cx: Cx, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    """The least along one axis, and where."""
    return _extreme_along(cx, "min", "minimum", x, dim, keepdim)


def _arg(cx: Cx, name: str, kind: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    if dim is None:
        _require_any(cx, name, x, IndexError)
        flat = cx.reshape(x, (cx.product(x.shape),))
        index = _extreme_along(cx, name, kind, flat, 0, False)[1]
        return cx.reshape(index, (1,) * len(x.shape)) if keepdim else index
    return _extreme_along(cx, name, kind, x, dim, keepdim)[1]


@lowering("aten.argmax.default")
def argmax(cx: Cx, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Where the greatest is first."""
    return _arg(cx, "argmax", "maximum", x, dim, keepdim)


@lowering("aten.argmin.default")
def argmin(cx: Cx, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Where the least is first."""
    return _arg(cx, "argmin", "minimum", x, dim, keepdim)


@lowering("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(cx: Cx, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    """Whether one is not 0."""
    out = cx.reduce("or", cx.convert(x, "i1"), cx.axes(x, dims), keepdim)
    return out if x.dtype != "ui8" else cx.convert(out, "ui8")


@lowering("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(cx: Cx, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    """Whether none is 0."""
    out = cx.reduce("and", cx.convert(x, "i1"), cx.axes(x, dims), keepdim)
    return out if x.dtype != "ui8" else cx.convert(out, "ui8")


@lowering("aten.linalg_vector_norm.default")
def vector_norm(
    cx: Cx, x: Value, ord: float = 2, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    """The p-norm over axes, for p = 0, 1, 2, inf and -inf and in general."""
    target = name_of(dtype) if dtype is not None else float_dtype(x.dtype)
    axes = cx.axes(x, dims)
    wide = cx.convert(x, compute_dtype(target))
    if ord == 2:
        total = cx.reduce("add", cx.b.binary("multiply", wide, wide), axes, keepdim)
        return cx.convert(cx.unary("sqrt", total), target)
    size = cx.unary("abs", wide)
    if ord in (float("inf"), float("-inf")):
        if not all(cx.is_at_least(x.shape[i], 1) for i in axes):
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the "
                "operation does not have an identity"
            )
        return cx.convert(
            cx.reduce("maximum" if ord > 0 else "minimum", size, axes, keepdim), target
        )
    if ord == 0:
        nonzero = cx.convert(cx.compare("NE", size, 0.0), wide.dtype)
        return cx.convert(cx.reduce("add", nonzero, axes, keepdim), target)
    if ord != 1:
        size = cx.binary("power", size, float(ord))
    total = cx.reduce("add", size, axes, keepdim)
    return cx.convert(total if ord == 1 else cx.binary("power", total, 1.0 / ord), target)


@lowering("aten.norm.ScalarOpt_dim")
def norm(cx: Cx, x: Value, p: Any, dims: Dims, keepdim: bool = False) -> Value:
    """The p-norm over axes."""
    return vector_norm(cx, x, 2 if p is None else p, dims, keepdim)


# -- softmax --------------------------------------------------------------------------------------
def softmax_along(cx: Cx, x: Value, axis: int, total: bool = False) -> Value:
    """exp(x - max) / sum of that, along one axis. `total`: a row of -inf gives 0, not NaN."""
    top = cx.reduce("maximum", x, [axis])
    if total:
        top = cx.select(cx.compare("EQ", top, float("-inf")), 0.0, top)
    grown = cx.unary("exponential", cx.b.binary("subtract", x, cx.spread(top, x.shape, [axis])))
    whole = cx.reduce("add", grown, [axis])
    if total:
        whole = cx.select(cx.compare("EQ", whole, 0.0), 1.0, whole)
    return cx.b.binary("divide", grown, cx.spread(whole, x.shape, [axis]))


def _softmax_input(cx: Cx, x: Value, dtype: Any) -> tuple[Value, str]:
    """The input widened, and the type of the result."""
    target = name_of(dtype) if dtype is not None else x.dtype
    return cx.convert(x, compute_dtype(target)), target


@lowering("aten.softmax.int", "aten.special_softmax.int")
def softmax(cx: Cx, x: Value, dim: int, dtype: Any = None) -> Value:
    """Softmax along one axis; 16-bit floats are computed in f32."""
    wide, target = _softmax_input(cx, x, dtype)
    if not x.shape:
        return cx.constant(1.0, target)
    return cx.convert(softmax_along(cx, wide, cx.axis(x, dim)), target)


@lowering("aten._softmax.default")
def softmax_half(cx: Cx, x: Value, dim: int, half_to_float: bool) -> Value:
    """Softmax along one axis."""
    out = softmax(cx, cx.convert(x, "f32") if half_to_float else x, dim)
    return out


@lowering("aten._safe_softmax.default")
def safe_softmax(cx: Cx, x: Value, dim: int, dtype: Any = None) -> Value:
    """Softmax along one axis; a row of -inf gives 0."""
    wide, target = _softmax_input(cx, x, dtype)
    return cx.convert(softmax_along(cx, wide, cx.axis(x, dim), total=True), target)


def _log_softmax_along(cx: Cx, x: Value, axis: int) -> Value:
    top = cx.reduce("maximum", x, [axis])
    shifted = cx.b.binary("subtract", x, cx.spread(top, x.shape, [axis]))
    whole = cx.reduce("add", cx.unary("exponential", shifted), [axis])
    return cx.b.binary("subtract", shifted, cx.spread(cx.unary("log", whole), x.shape, [axis]))


@lowering("aten.log_softmax.int")
def log_softmax(cx: Cx, x: Value, dim: int, dtype: Any = None) -> Value:
    """x - max - log(sum(exp(x - max))) along one axis."""
    wide, target = _softmax_input(cx, x, dtype)
    if not x.shape:
        return cx.constant(0.0, target)
    return cx.convert(_log_softmax_along(cx, wide, cx.axis(x, dim)), target)


@lowering("aten._log_softmax.default")
def log_softmax_half(cx: Cx, x: Value, dim: int, half_to_float: bool) -> Value:
    """log_softmax along one axis."""
    return log_softmax(cx, cx.convert(x, "f32") if half_to_float else x, dim)


@lowering("aten.logsumexp.default")
def logsumexp(cx: Cx, x: Value, dims: Dims, keepdim: bool = False) -> Value:
    """log(sum(exp(x))) over axes, without overflow."""
    axes = cx.axes(x, dims)
    wide = cx.convert(x, compute_dtype(float_dtype(x.dtype)))
    top = cx.reduce("maximum", wide, axes, keepdim=True)
    finite = cx.compare("LT", cx.unary("abs", top), float("inf"))
    top = cx.select(finite, top, 0.0)
    whole = cx.reduce(
        "add", cx.unary("exponential", cx.binary("subtract", wide, top)), axes, keepdim=True
    )
    out = cx.b.binary("add", cx.unary("log", whole), top)
    if not keepdim:
        out = cx.reshape(out, [s for i, s in enumerate(x.shape) if i not in axes])
    return cx.convert(out, float_dtype(x.dtype))
