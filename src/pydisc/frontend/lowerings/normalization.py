"""Layer, group, batch and root-mean-square normalisation."""

from collections.abc import Sequence
from typing import Any

from pydisc.frontend.dtypes import compute_dtype
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.reduce import mean_over
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value


def _normalize(cx: Cx, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value, Value]:
    """((x - mean) * rstd, mean, rstd) over axes, which mean and rstd lack.

    The variance is the mean of squares of what is centred.
    """
    mean = mean_over(cx, x, axes)
    centred = cx.b.binary("subtract", x, cx.spread(mean, x.shape, axes))
    variance = mean_over(cx, cx.b.binary("multiply", centred, centred), axes)
    rstd = cx.unary("rsqrt", cx.binary("add", variance, eps))
    return cx.b.binary("multiply", centred, cx.spread(rstd, x.shape, axes)), mean, rstd


def _affine(cx: Cx, x: Value, weight: Value | None, bias: Value | None) -> Value:
    """x * weight + bias, each if there is one; in the type of x."""
    if weight is not None:
        x = cx.binary("multiply", x, weight, x.dtype)
    return x if bias is None else cx.binary("add", x, bias, x.dtype)


def _last_axes(cx: Cx, x: Value, shape: Sequence[Any]) -> list[int]:
    first = len(x.shape) - len(shape)
    for size, expected in zip(x.shape[first:], shape, strict=True):
        cx.require_equal(size, expected, "normalized_shape")
    return list(range(first, len(x.shape)))


@lowering("aten.native_layer_norm.default")
def native_layer_norm(
    cx: Cx, x: Value, shape: Sequence[Any], weight: Value | None, bias: Value | None, eps: float
) -> list[Value]:
    """Layer normalisation over the last dims, its mean and its 1/deviation."""
    out, mean, rstd = _layer_norm(cx, x, shape, weight, bias, eps)
    kept = (*x.shape[: len(x.shape) - len(shape)], *(1 for _ in shape))
    return [out, cx.reshape(mean, kept), cx.reshape(rstd, kept)]


def _layer_norm(
    cx: Cx, x: Value, shape: Sequence[Any], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    wide = cx.convert(x, compute_dtype(x.dtype))
    out, mean, rstd = _normalize(cx, wide, _last_axes(cx, x, shape), eps)
    return cx.convert(_affine(cx, out, weight, bias), x.dtype), mean, rstd


@lowering("aten.layer_norm.default")
def layer_norm(
    cx: Cx,
    x: Value,
    shape: Sequence[Any],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    """Layer normalisation over the last dims."""
    return _layer_norm(cx, x, shape, weight, bias, eps)[0]


@lowering("aten.rms_norm.default")
def rms_norm(
    cx: Cx, x: Value, shape: Sequence[Any], weight: Value | None = None, eps: float | None = None
) -> Value:
    """x / sqrt(mean of squares + eps) over the last dims."""
    wide = cx.convert(x, compute_dtype(x.dtype))
    if eps is None:
        eps = 1.1920928955078125e-07 if wide.dtype == "f32" else 2.220446049250313e-16
    axes = _last_axes(cx, x, shape)
    squares = mean_over(cx, cx.b.binary("multiply", wide, wide), axes)
    rstd = cx.unary("rsqrt", cx.binary("add", squares, eps))
    out = cx.b.binary("multiply", wide, cx.spread(rstd, x.shape, axes))
    return cx.convert(_affine(cx, out, weight, None), x.dtype)


def _per_channel(cx: Cx, v: Value | None, x: Value, dtype: str) -> Value | None:
    """A vector over dim 1 of x, ready to broadcast."""
    if v is None:
        return None
    return cx.convert(cx.reshape(v, (v.shape[0], *(1 for _ in x.shape[2:]))), dtype)


@lowering("aten.group_norm.default")
def group_norm(
    cx: Cx,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    """Normalisation over groups of channels and all that follows them."""
    batch, channels = x.shape[:2]
    rest = cx.product(x.shape[2:])
    wide = cx.convert(x, compute_dtype(x.dtype))
    grouped = cx.reshape(wide, (batch, groups, channels // groups, rest))
    out = cx.reshape(_normalize(cx, grouped, [2, 3], eps)[0], x.shape)
    weight, bias = (_per_channel(cx, v, x, wide.dtype) for v in (weight, bias))
    return cx.convert(_affine(cx, out, weight, bias), x.dtype)


@lowering("aten.batch_norm.default")
def batch_norm(
    cx: Cx,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    """Normalisation by running statistics; that by the batch's own is not covered."""
    if training or mean is None or variance is None:
        return NotImplemented
    dtype = compute_dtype(x.dtype)
    wide = cx.convert(x, dtype)
    centre = _per_channel(cx, mean, x, dtype)
    spread = _per_channel(cx, variance, x, dtype)
    assert centre is not None
    assert spread is not None
    rstd = cx.unary("rsqrt", cx.binary("add", spread, eps))
    out = cx.binary("multiply", cx.binary("subtract", wide, centre), rstd)
    weight, bias = (_per_channel(cx, v, x, dtype) for v in (weight, bias))
    return cx.convert(_affine(cx, out, weight, bias), x.dtype)


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    cx: Cx,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    momentum: float,
    eps: float,
) -> list[Value]:
    """Normalisation by running statistics; the saved statistics are empty."""
    out = batch_norm(cx, x, weight, bias, mean, variance, False, momentum, eps)
    empty = cx.full((0,), 0, compute_dtype(x.dtype))
    return [out, empty, empty]
