"""Element-wise ops: rows in tables where one StableHLO op does it, short functions elsewhere."""

import math
from typing import Any

import torch

from pydisc.frontend.dtypes import (
    TORCH_OF,
    Number,
    category,
    float_dtype,
    name_of,
    result_dtype,
)
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value
from pydisc.ir.types import FLOATS
from pydisc.shape import Real

# -- one operand ----------------------------------------------------------------------------------
_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "round_nearest_even"}
_FLOAT = {
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tan",
    "tanh": "tanh",
    "sigmoid": "logistic",
}


def _register_rounding(aten: str, hlo: str) -> None:
    @lowering(f"aten.{aten}.default")
    def rule(cx: Cx, x: Value) -> Value:
        return cx.unary(hlo, x) if x.dtype in FLOATS else x


def _register_float(aten: str, hlo: str) -> None:
    @lowering(f"aten.{aten}.default")
    def rule(cx: Cx, x: Value) -> Value:
        return cx.unary(hlo, cx.convert(x, float_dtype(x.dtype)))


for _aten, _hlo in _ROUNDING.items():
    _register_rounding(_aten, _hlo)
for _aten, _hlo in _FLOAT.items():
    _register_float(_aten, _hlo)


@lowering("aten.abs.default")
def abs_(cx: Cx, x: Value) -> Value:
    """|x|."""
    if x.dtype == "i1":
        raise NotImplementedError("\"abs_cpu\" not implemented for 'Bool'")
    return x if x.dtype == "ui8" else cx.unary("abs", x)


@lowering("aten.neg.default")
def neg(cx: Cx, x: Value) -> Value:
    """-x."""
    if x.dtype == "i1":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return cx.unary("negate", x)


@lowering("aten.sign.default", "aten.sgn.default")
def sign(cx: Cx, x: Value) -> Value:
    """(x > 0) - (x < 0): of NaN and of -0.0 it is 0."""
    if x.dtype == "i1":
        return x
    up, down = (cx.convert(cx.compare(c, x, 0), x.dtype) for c in ("GT", "LT"))
    return cx.b.binary("subtract", up, down)


_ELEMENTWISE = "erf exp2 log2 log10 asin acos atan sinh cosh asinh acosh atanh".split()
"""Functions that StableHLO lacks, by the name that aten and `disc.elementwise` have for them."""


def _register_elementwise(name: str) -> None:
    @lowering(f"aten.{name}.default")
    def rule(cx: Cx, x: Value) -> Value:
        return cx.b.elementwise(name, cx.convert(x, float_dtype(x.dtype)))


for _aten in _ELEMENTWISE:
    _register_elementwise(_aten)


@lowering("aten.trunc.default", "aten.fix.default")
def trunc(cx: Cx, x: Value) -> Value:
    """Rounded towards 0."""
    if x.dtype not in FLOATS:
        return x
    negative = cx.compare("LT", x, 0)
    return cx.select(negative, cx.unary("ceil", x), cx.unary("floor", x))


@lowering("aten.reciprocal.default")
def reciprocal(cx: Cx, x: Value) -> Value:
    """1 / x."""
    return cx.binary("divide", 1.0, cx.convert(x, float_dtype(x.dtype)))


@lowering("aten.square.default")
def square(cx: Cx, x: Value) -> Value:
    """x * x."""
    return cx.b.binary("multiply", x, x)


@lowering("aten.logical_not.default")
def logical_not(cx: Cx, x: Value) -> Value:
    """x == 0."""
    return cx.unary("not", cx.convert(x, "i1"))


@lowering("aten.bitwise_not.default")
def bitwise_not(cx: Cx, x: Value) -> Value:
    """Every bit flipped."""
    return cx.unary("not", x)


@lowering("aten.isnan.default")
def isnan(cx: Cx, x: Value) -> Value:
    """Only NaN differs from itself."""
    return cx.b.compare("NE", x, x)


@lowering("aten.isinf.default")
def isinf(cx: Cx, x: Value) -> Value:
    """|x| == inf."""
    if x.dtype not in FLOATS:
        return cx.full(x.shape, False, "i1")
    return cx.compare("EQ", cx.unary("abs", x), math.inf)


@lowering("aten.isfinite.default")
def isfinite(cx: Cx, x: Value) -> Value:
    """|x| < inf."""
    if x.dtype not in FLOATS:
        return cx.full(x.shape, True, "i1")
    return cx.compare("LT", cx.unary("abs", x), math.inf)


@lowering("aten.nan_to_num.default")
def nan_to_num(
    cx: Cx, x: Value, nan: float | None = None, posinf: Any = None, neginf: Any = None
) -> Value:
    """NaN and infinities replaced."""
    if x.dtype not in FLOATS:
        return x
    limits = torch.finfo(TORCH_OF[x.dtype])
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    out = cx.select(cx.b.compare("NE", x, x), float(nan or 0.0), x)
    out = cx.select(cx.compare("EQ", out, math.inf), high, out)
    return cx.select(cx.compare("EQ", out, -math.inf), low, out)


@lowering("aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default")
def clamp(cx: Cx, x: Value, low: Any = None, high: Any = None) -> Value:
    """x between bounds of which each may be missing."""
    dtype = result_dtype(x, low, high)
    out = cx.convert(x, dtype)
    if low is not None:
        out = cx.binary("maximum", out, low, dtype)
    if high is not None:
        out = cx.binary("minimum", out, high, dtype)
    return out


@lowering("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(cx: Cx, x: Value, low: Any) -> Value:
    """max(x, low)."""
    return cx.binary("maximum", x, low)


@lowering("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(cx: Cx, x: Value, high: Any) -> Value:
    """min(x, high)."""
    return cx.binary("minimum", x, high)


# -- two operands ---------------------------------------------------------------------------------
def _scaled(cx: Cx, x: Value | Number, alpha: Number) -> Value | Number:
    if isinstance(alpha, int | float) and alpha == 1:
        return x
    if isinstance(x, Value):
        return cx.binary("multiply", x, alpha, x.dtype)
    return x * alpha  # pyright: ignore[reportOperatorIssue]


def _is_zero(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x == 0


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add(cx: Cx, x: Value, y: Any, alpha: Number = 1) -> Value:
    """x + alpha * y; adding the integer 0 does nothing."""
    if _is_zero(y) and x.dtype != "i1":
        return x
    if x.dtype == "i1" and isinstance(y, Value) and y.dtype == "i1":
        return cx.binary("or", x, y)
    out = cx.binary("add", x, _scaled(cx, y, alpha))
    iota = cx.iotas.get(x)
    if iota is not None and not isinstance(y, Value | float | bool) and out.dtype == x.dtype:
        cx.iotas[out] = type(iota)(iota.axis, iota.start + _scaled(cx, y, alpha))  # pyright: ignore
    return out


def _refuse_bools(*operands: Any) -> None:
    """Raise eager mode's error for a subtraction with a bool in it."""
    if any(x.dtype == "i1" if isinstance(x, Value) else isinstance(x, bool) for x in operands):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub(cx: Cx, x: Value, y: Any, alpha: Number = 1) -> Value:
    """x - alpha * y."""
    _refuse_bools(x, y)
    if _is_zero(y) and x.dtype != "i1":
        return x
    return cx.binary("subtract", x, _scaled(cx, y, alpha))


@lowering("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(cx: Cx, x: Value, y: Any, alpha: Number = 1) -> Value:
    """y - alpha * x."""
    _refuse_bools(x, y)
    return cx.binary("subtract", y, _scaled(cx, x, alpha))


@lowering("aten.mul.Tensor", "aten.mul.Scalar")
def mul(cx: Cx, x: Value, y: Any) -> Value:
    """x * y."""
    if x.dtype == "i1" and isinstance(y, Value) and y.dtype == "i1":
        return cx.binary("and", x, y)
    if isinstance(y, int | float) and y == 1 and result_dtype(x, y) == x.dtype:
        return x
    return cx.binary("multiply", x, y)


@lowering(
    "aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar"
)
def div(cx: Cx, x: Value, y: Any) -> Value:
    """x / y, in floats."""
    return cx.binary("divide", x, y, float_dtype(result_dtype(x, y)))


@lowering("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(cx: Cx, x: Value, y: Any, rounding_mode: str | None = None) -> Value:
    """x / y, rounded as asked for."""
    if rounding_mode is None:
        return div(cx, x, y)
    if rounding_mode == "floor":
        return floor_divide(cx, x, y)
    return trunc(cx, cx.binary("divide", x, y))


def _signs_differ(cx: Cx, x: Value, y: Value) -> Value:
    return cx.b.compare("NE", cx.compare("LT", x, 0), cx.compare("LT", y, 0))


@lowering("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(cx: Cx, x: Value, y: Any) -> Value:
    """x / y rounded down, as Python's // (floats by torch's own correction of the quotient)."""
    a, c = cx.align(x, y)
    rest = cx.b.binary("remainder", a, c)
    inexact = cx.b.binary("and", cx.compare("NE", rest, 0), _signs_differ(cx, rest, c))
    if a.dtype not in FLOATS:
        quotient = cx.b.binary("divide", a, c)
        return cx.select(inexact, cx.binary("subtract", quotient, 1), quotient)
    quotient = cx.b.binary("divide", cx.b.binary("subtract", a, rest), c)
    quotient = cx.select(inexact, cx.binary("subtract", quotient, 1.0), quotient)
    down = cx.unary("floor", quotient)
    over = cx.compare("GT", cx.b.binary("subtract", quotient, down), 0.5)
    down = cx.select(over, cx.binary("add", down, 1.0), down)
    return cx.select(cx.compare("EQ", c, 0.0), cx.b.binary("divide", a, c), down)


@lowering("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(cx: Cx, x: Any, y: Any) -> Value:
    """x % y with the sign of y, as Python's."""
    a, c = cx.align(x, y)
    rest = cx.b.binary("remainder", a, c)
    wrong = cx.b.binary("and", cx.compare("NE", rest, 0), _signs_differ(cx, rest, c))
    return cx.select(wrong, cx.b.binary("add", rest, c), rest)


@lowering("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(cx: Cx, x: Value, y: Any) -> Value:
    """x % y with the sign of x, as C's."""
    return cx.binary("remainder", x, y)


@lowering("aten.maximum.default", "aten.max.other")
def maximum(cx: Cx, x: Value, y: Value) -> Value:
    """The greater of both; NaN wins."""
    return cx.binary("maximum", x, y)


@lowering("aten.minimum.default", "aten.min.other")
def minimum(cx: Cx, x: Value, y: Value) -> Value:
    """The lesser of both; NaN wins."""
    return cx.binary("minimum", x, y)


@lowering("aten.atan2.default")
def atan2(cx: Cx, x: Value, y: Value) -> Value:
    """The angle of (y, x)."""
    return cx.binary("atan2", x, y, float_dtype(result_dtype(x, y)))


@lowering("aten.pow.Tensor_Scalar")
def pow_scalar(cx: Cx, x: Value, exponent: Any) -> Value:
    """x ** number: small whole and half powers by products and roots, as torch does."""
    dtype = result_dtype(x, exponent)
    x = cx.convert(x, dtype)
    if dtype not in FLOATS:
        return _integer_power(cx, x, exponent)
    if isinstance(exponent, int | float):
        known = _known_power(cx, x, exponent)
        if known is not None:
            return known
    return cx.binary("power", x, exponent, dtype)


def _integer_power(cx: Cx, x: Value, exponent: Any) -> Value:
    """x ** number in integers, which wrap around: by squaring where the number is known."""
    if not isinstance(exponent, int):
        return cx.binary("power", x, exponent, x.dtype)
    if exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    result, square, rest = None, x, int(exponent)
    while rest:
        if rest & 1:
            result = square if result is None else cx.b.binary("multiply", result, square)
        rest >>= 1
        if rest:
            square = cx.b.binary("multiply", square, square)
    return cx.full(x.shape, 1, x.dtype) if result is None else result


def _known_power(cx: Cx, x: Value, exponent: float) -> Value | None:
    if exponent == 1:
        return x
    if exponent == 2:
        return square(cx, x)
    if exponent == 3:
        return cx.b.binary("multiply", square(cx, x), x)
    if x.dtype in FLOATS:
        if exponent == 0.5:
            return cx.unary("sqrt", x)
        if exponent == -0.5:
            return cx.unary("rsqrt", x)
        if exponent == -1:
            return reciprocal(cx, x)
        if exponent == -2:
            return reciprocal(cx, square(cx, x))
    return None


@lowering("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_tensor(cx: Cx, x: Any, exponent: Value) -> Value:
    """x ** y."""
    if result_dtype(x, exponent) == "i1":
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")
    return cx.binary("power", x, exponent)


_COMPARISONS = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}


def _known_comparison(cx: Cx, direction: str, x: Value, y: Any) -> bool | None:
    """The answer where x is a range of integers that lies on one side of the size y altogether."""
    iota = cx.iotas.get(x)
    if iota is None or isinstance(y, Value | bool | float | Real):
        return None
    end = iota.start + x.shape[iota.axis]  # pyright: ignore[reportOperatorIssue]
    match direction:
        case "GE" if cx.known(iota.start, "ge", y):
            return True
        case "LT" if cx.known(y, "ge", end):
            return True
    return None


def _register_comparison(aten: str, direction: str) -> None:
    @lowering(f"aten.{aten}.Tensor", f"aten.{aten}.Scalar")
    def rule(cx: Cx, x: Value, y: Any) -> Value:
        known = _known_comparison(cx, direction, x, y)
        return cx.compare(direction, x, y) if known is None else cx.full(x.shape, known, "i1")


for _aten, _hlo in _COMPARISONS.items():
    _register_comparison(_aten, _hlo)


def _logical(cx: Cx, name: str, x: Value, y: Value) -> Value:
    """and, or, xor of bools; a scalar that changes nothing is left out."""
    shape = cx.broadcast_shapes(x.shape, y.shape)
    neutral = name == "and"
    for one, other in ((x, y), (y, x)):
        known = cx.scalars.get(one)
        if known is not None and bool(known) is neutral:
            return cx.broadcast(cx.convert(other, "i1"), shape)
    return cx.b.binary(name, cx.operand(x, shape, "i1"), cx.operand(y, shape, "i1"))


def _register_bits(name: str) -> None:
    @lowering(f"aten.logical_{name}.default")
    def logical(cx: Cx, x: Value, y: Value) -> Value:
        return _logical(cx, name, x, y)

    @lowering(
        f"aten.bitwise_{name}.Tensor", f"aten.bitwise_{name}.Scalar",
        f"aten.__{name}__.Tensor", f"aten.__{name}__.Scalar",
    )  # fmt: skip
    def bitwise(cx: Cx, x: Value, y: Any) -> Value:
        if x.dtype == "i1" and isinstance(y, Value) and y.dtype == "i1":
            return _logical(cx, name, x, y)
        return cx.binary(name, x, y)


for _name in ("and", "or", "xor"):
    _register_bits(_name)


def _register_shift(letter: str, hlo: str) -> None:
    overloads = [
        f"aten.{name}.{kind}"
        for name in (f"__{letter}shift__", f"bitwise_{_SHIFTS[letter]}_shift")
        for kind in ("Tensor", "Scalar" if name.startswith("__") else "Tensor_Scalar")
    ]

    @lowering(*overloads)
    def shift(cx: Cx, x: Value, y: Any) -> Value:
        if category(result_dtype(x, y)) != 1:
            return NotImplemented
        return cx.binary(hlo, x, y)


_SHIFTS = {"l": "left", "r": "right"}
_register_shift("l", "shift_left")
_register_shift("r", "shift_right_arithmetic")


# -- choices and conversions ----------------------------------------------------------------------
@lowering("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(cx: Cx, condition: Value, x: Any, y: Any) -> Value:
    """condition ? x : y."""
    return cx.select(condition, x, y)


@lowering("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(cx: Cx, x: Value, mask: Value, value: Any) -> Value:
    """The value where the mask is set, x elsewhere."""
    shape = cx.broadcast_shapes(x.shape, mask.shape)
    return cx.b.select(
        cx.operand(mask, shape, "i1"), cx.operand(value, shape, x.dtype), cx.broadcast(x, shape)
    )


@lowering("aten._to_copy.default")
def to_copy(cx: Cx, x: Value, *, dtype: Any = None, **_: Any) -> Value:
    """Element type conversion; where the tensor lives is not the IR's business."""
    return cx.convert(x, name_of(dtype)) if dtype is not None else x


@lowering("prims.convert_element_type.default")
def convert_element_type(cx: Cx, x: Value, dtype: Any) -> Value:
    """Element type conversion."""
    return cx.convert(x, name_of(dtype))


@lowering("aten.copy.default")
def copy(cx: Cx, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """The source with the shape and type of x."""
    return cx.broadcast(cx.convert(source, x.dtype), x.shape)


@lowering(
    *("aten.clone.default", "aten.lift_fresh_copy.default", "aten.lift_fresh.default"),
    *("aten.detach_copy.default", "aten.alias_copy.default", "aten.positive.default"),
)
def clone(cx: Cx, x: Value, **_: Any) -> Value:
    """A copy: values never change, so the value itself."""
    return x


@lowering("aten.fill.Scalar", "aten.fill.Tensor")
def fill(cx: Cx, x: Value, value: Any) -> Value:
    """One number in the shape of x."""
    return cx.operand(value, x.shape, x.dtype)


@lowering("aten.zero.default")
def zero(cx: Cx, x: Value) -> Value:
    """Zeros in the shape of x."""
    return cx.full(x.shape, 0, x.dtype)


@lowering("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(cx: Cx, x: Value, end: Value, weight: Any) -> Value:
    """x + weight * (end - x)."""
    return cx.binary("add", x, cx.binary("multiply", cx.binary("subtract", end, x), weight))


@lowering("aten.addcmul.default")
def addcmul(cx: Cx, x: Value, one: Value, two: Value, *, value: Number = 1) -> Value:
    """x + value * one * two."""
    return add(cx, x, cx.binary("multiply", one, two), value)


@lowering("aten.addcdiv.default")
def addcdiv(cx: Cx, x: Value, one: Value, two: Value, *, value: Number = 1) -> Value:
    """x + value * one / two."""
    return add(cx, x, div(cx, one, two), value)


def is_integral(dtype: str) -> bool:
    """Whether sums of this type are i64."""
    return category(dtype) < 2
