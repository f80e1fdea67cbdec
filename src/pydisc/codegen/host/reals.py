"""Operations of symbolic floats in generated code, total as `Real.evaluate` has them.

A division by 0 and what has no value are 0; what overflows saturates. So every value is finite.
"""

from collections.abc import Callable, Sequence

from pydisc.codegen.common.assembly_text import Text, Val
from pydisc.support.errors import Unsupported

MAX = 1.7976931348623157e308
_LIMIT = 2.0**62
"""Integers beyond it are no sizes; they saturate: converting them would be undefined."""


def emit_real(t: Text, kind: str, args: Sequence[Val]) -> Val:
    """One operation on f64 values (on an i64 value for `float`)."""
    emit = _EMITTERS.get(kind)
    if emit is None:
        raise Unsupported(f"a size computed with {kind}", "there is no code for it")
    return emit(t, *args)


def emit_rounding(t: Text, kind: str, x: Val) -> Val:
    """floor, ceil, trunc or round (ties to even) to an i64."""
    whole = t.math("roundeven" if kind == "round" else kind, x)
    low, high = t.const(-_LIMIT, "f64"), t.const(_LIMIT, "f64")
    return t.cast("fptosi", t.minimum(t.maximum(whole, low), high), "i64")


def _zero(t: Text) -> Val:
    return t.const(0.0, "f64")


def _finite(t: Text, x: Val) -> Val:
    """Saturated; 0 for NaN."""
    x = t.select(t.compare("uno", x, x), _zero(t), x)
    return t.minimum(t.maximum(x, t.const(-MAX, "f64")), t.const(MAX, "f64"))


def _nonzero(t: Text, x: Val) -> tuple[Val, Val]:
    """Whether x is 0, and x with 1 in place of 0."""
    bad = t.compare("eq", x, _zero(t))
    return bad, t.select(bad, t.const(1.0, "f64"), x)


def _truediv(t: Text, x: Val, y: Val) -> Val:
    bad, y = _nonzero(t, y)
    return t.select(bad, _zero(t), _finite(t, t.div(x, y)))


def _sqrt(t: Text, x: Val) -> Val:
    return t.math("sqrt", t.maximum(x, _zero(t)))


def _pow(t: Text, x: Val, y: Val) -> Val:
    zero = _zero(t)
    pole = t.and_(t.compare("eq", x, zero), t.compare("lt", y, zero))
    value = t.math("powf", x, y)
    huge = t.compare("ogt", t.math("absf", value), t.const(MAX, "f64"))
    value = t.select(huge, t.const(MAX, "f64"), value)  # of either sign, as in Python
    value = t.select(t.compare("uno", value, value), zero, value)
    return t.select(pole, zero, value)


def _remainder(t: Text, x: Val, y: Val) -> tuple[Val, Val, Val]:
    """fmod(x, y) for y that is not 0, whether Python's remainder differs, and that remainder."""
    zero = _zero(t)
    rest = t.rem(x, y)
    opposite = t.xor(t.compare("lt", y, zero), t.compare("lt", rest, zero))
    moved = t.and_(opposite, t.compare("ne", rest, zero))
    return rest, moved, t.select(moved, t.add(rest, y), rest)


def _mod(t: Text, x: Val, y: Val) -> Val:
    bad, y = _nonzero(t, y)
    return t.select(bad, _zero(t), _remainder(t, x, y)[2])


def _floordiv(t: Text, x: Val, y: Val) -> Val:
    """Python's algorithm: the quotient of what is divisible, rounded to the nearest integer."""
    bad, y = _nonzero(t, y)
    rest, moved, _ = _remainder(t, x, y)
    one = t.const(1.0, "f64")
    quotient = t.div(t.sub(x, rest), y)
    quotient = t.select(moved, t.sub(quotient, one), quotient)
    floor = t.math("floor", quotient)
    up = t.compare("ogt", t.sub(quotient, floor), t.const(0.5, "f64"))
    return t.select(bad, _zero(t), _finite(t, t.select(up, t.add(floor, one), floor)))


_EMITTERS: dict[str, Callable[..., Val]] = {
    "add": lambda t, x, y: _finite(t, t.add(x, y)),
    "sub": lambda t, x, y: _finite(t, t.sub(x, y)),
    "mul": lambda t, x, y: _finite(t, t.mul(x, y)),
    "truediv": _truediv,
    "pow": _pow,
    "mod": _mod,
    "floordiv": _floordiv,
    "max": lambda t, x, y: t.maximum(x, y),
    "min": lambda t, x, y: t.minimum(x, y),
    "neg": lambda t, x: t.neg(x),
    "sqrt": _sqrt,
    "float": lambda t, x: t.cast("sitofp", x, "f64"),
}
