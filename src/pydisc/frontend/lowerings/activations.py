"""Activation functions, written out in element-wise ops."""

import math
from collections.abc import Callable
from typing import Any

from pydisc.frontend.dtypes import compute_dtype
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.elementwise import clamp
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value


def _in_compute_dtype(rule: Callable[..., Value]) -> Callable[..., Value]:
    """16-bit floats are computed in f32 and rounded once."""

    def wrapped(cx: Cx, x: Value, *args: Any, **kwargs: Any) -> Value:
        wide = cx.convert(x, compute_dtype(x.dtype))
        return cx.convert(rule(cx, wide, *args, **kwargs), x.dtype)

    wrapped.__doc__ = rule.__doc__
    return wrapped


@lowering("aten.relu.default")
def relu(cx: Cx, x: Value) -> Value:
    """max(x, 0)."""
    return cx.binary("maximum", x, 0)


@lowering("aten.relu6.default")
def relu6(cx: Cx, x: Value) -> Value:
    """x clamped to [0, 6]."""
    return cx.binary("minimum", cx.binary("maximum", x, 0), 6)


@lowering("aten.gelu.default")
@_in_compute_dtype
def gelu(cx: Cx, x: Value, *, approximate: str = "none") -> Value:
    """x/2 (1 + erf(x/sqrt 2)), or its approximation by tanh."""
    if approximate == "none":
        inner = cx.b.elementwise("erf", cx.binary("multiply", x, math.sqrt(0.5)))
    else:
        cube = cx.b.binary("multiply", cx.b.binary("multiply", x, x), x)
        poly = cx.b.binary("add", x, cx.binary("multiply", cube, 0.044715))
        inner = cx.unary("tanh", cx.binary("multiply", poly, math.sqrt(2 / math.pi)))
    half = cx.binary("multiply", x, 0.5)
    return cx.b.binary("multiply", half, cx.binary("add", inner, 1.0))


@lowering("aten.silu.default")
@_in_compute_dtype
def silu(cx: Cx, x: Value) -> Value:
    """x * sigmoid(x)."""
    return cx.b.binary("multiply", x, cx.unary("logistic", x))


@lowering("aten.mish.default")
@_in_compute_dtype
def mish(cx: Cx, x: Value) -> Value:
    """x * tanh(log(1 + exp(x)))."""
    return cx.b.binary("multiply", x, cx.unary("tanh", _softplus(cx, x, 1.0, 20.0)))


def _softplus(cx: Cx, x: Value, beta: float, threshold: float) -> Value:
    scaled = cx.binary("multiply", x, beta) if beta != 1 else x
    soft = cx.unary("log_plus_one", cx.unary("exponential", scaled))
    soft = cx.binary("divide", soft, beta) if beta != 1 else soft
    return cx.select(cx.compare("GT", scaled, threshold), x, soft)


@lowering("aten.softplus.default")
@_in_compute_dtype
def softplus(cx: Cx, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """log(1 + exp(beta x)) / beta, and x where that is large."""
    return _softplus(cx, x, float(beta), float(threshold))


@lowering("aten.log_sigmoid.default")
@_in_compute_dtype
def log_sigmoid(cx: Cx, x: Value) -> Value:
    """min(x, 0) - log(1 + exp(-|x|))."""
    tail = cx.unary("exponential", cx.unary("negate", cx.unary("abs", x)))
    return cx.b.binary("subtract", cx.binary("minimum", x, 0), cx.unary("log_plus_one", tail))


@lowering("aten.leaky_relu.default")
def leaky_relu(cx: Cx, x: Value, negative_slope: float = 0.01) -> Value:
    """x, or slope * x below 0."""
    return cx.select(cx.compare("GT", x, 0), x, cx.binary("multiply", x, negative_slope))


@lowering("aten.elu.default")
@_in_compute_dtype
def elu(cx: Cx, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """scale * x, or scale * alpha * (exp(x) - 1) below 0."""
    low = cx.unary("exponential_minus_one", cx.binary("multiply", x, float(input_scale)))
    low = cx.binary("multiply", low, float(alpha) * float(scale))
    return cx.select(cx.compare("GT", x, 0), cx.binary("multiply", x, float(scale)), low)


def _relu6_of_plus_3(cx: Cx, x: Value) -> Value:
    return cx.binary("minimum", cx.binary("maximum", cx.binary("add", x, 3.0), 0.0), 6.0)


@lowering("aten.hardswish.default")
@_in_compute_dtype
def hardswish(cx: Cx, x: Value) -> Value:
    """x * relu6(x + 3) / 6."""
    return cx.binary("divide", cx.b.binary("multiply", x, _relu6_of_plus_3(cx, x)), 6.0)


@lowering("aten.hardsigmoid.default")
@_in_compute_dtype
def hardsigmoid(cx: Cx, x: Value) -> Value:
    """relu6(x + 3) / 6."""
    return cx.binary("divide", _relu6_of_plus_3(cx, x), 6.0)


@lowering("aten.hardtanh.default")
def hardtanh(cx: Cx, x: Value, low: float = -1, high: float = 1) -> Value:
    """x between two bounds."""
    return clamp(cx, x, low, high)
