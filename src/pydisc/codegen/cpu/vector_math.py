"""Elementary functions on f32 vectors, from integer and fused multiply-add instructions only.

MLIR and LLVM turn `math.exp` of a vector into one libm call a lane; these polynomials are several
times faster than that and than Sleef. Each function takes a scalar or a vector, of f32 or, for
everything that is not f32, passes the operation on to the math dialect (libm). All are right for
infinities, NaN, signed zeros, denormals and huge arguments; errors are at most about 2 ULP.
"""

from collections.abc import Callable, Sequence
from math import factorial, inf, nan

from pydisc.codegen.common.assembly_text import Text, Val, lanes_of, with_element

_MAGIC = 12582912.0  # 1.5 * 2^23: adding it rounds a float to an integer, in its low mantissa bits
_MAGIC_BITS = 0x4B400000
_LN2 = 0.693147182
_HUGE_ANGLE = 1.0e5


def _k(t: Text, value: float, like: Val) -> Val:
    return t.const(value, like.type)


def _int(t: Text, value: int, like: Val) -> Val:
    return t.const(value, with_element(like.type, "i32"))


def polynomial(t: Text, x: Val, coefficients: Sequence[float]) -> Val:
    """Horner's scheme, highest power first."""
    r = _k(t, coefficients[0], x)
    for c in coefficients[1:]:
        r = t.fma(r, x, _k(t, c, x))
    return r


def absolute(t: Text, x: Val) -> Val:
    """|x| of floats and signed integers."""
    return t.math("absf" if x.is_float else "absi", x)


def copysign(t: Text, x: Val, sign: Val) -> Val:
    """x with the sign of another value."""
    return t.math("copysign", x, sign)


def _clamp(t: Text, x: Val, low: float, high: float) -> Val:
    """Clamp so that NaN passes (one instruction each; x must be the second operand)."""
    top, bottom = _k(t, high, x), _k(t, low, x)
    x = t.select(t.compare("olt", top, x), top, x)
    return t.select(t.compare("ogt", bottom, x), bottom, x)


def exp(t: Text, x: Val) -> Val:
    """e^x: x = j ln2 + f with |f| <= ln2 / 2, a polynomial in f, and scaling by 2^j."""
    if x.element != "f32":
        return t.math("exp", x)
    x = _clamp(t, x, -105.0, 89.0)
    # 2^j is applied as two factors so that j may reach from the denormals to overflow. The bias
    # of both exponents (254) is in the magic number; shifting left drops the magic bits.
    magic = _k(t, _MAGIC + 254.0, x)
    jm = t.fma(x, _k(t, 1.442695, x), magic)
    j = t.sub(jm, magic)
    f = t.fma(j, _k(t, -6.93145752e-1, x), x)
    f = t.fma(j, _k(t, -1.42860677e-6, x), f)
    r = polynomial(
        t, f, [1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1.0, 1.0]
    )
    if "avx512f" in t.features and lanes_of(x.type) == 16:
        return _scalef(t, r, j)
    bits = t.cast("bitcast", jm, "i32")
    half = t.shift_right(bits, 1, signed=False)
    rest = t.sub(bits, half)
    first = t.cast("bitcast", t.shift_left(half, 23), "f32")
    second = t.cast("bitcast", t.shift_left(rest, 23), "f32")
    return t.mul(t.mul(r, first), second)


def _scalef(t: Text, r: Val, j: Val) -> Val:
    """r * 2^j in one AVX-512 instruction."""
    mask, rounding = t.const(-1, "i16"), t.const(4, "i32")
    return t.op(
        f'llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"({r}, {j}, {r}, {mask}, '
        f"{rounding}) : ({r.type}, {r.type}, {r.type}, i16, i32) -> {r.type}",
        r.type,
    )


def expm1(t: Text, x: Val) -> Val:
    """e^x - 1, accurate near 0."""
    if x.element != "f32":
        return t.math("expm1", x)
    # x = j ln2 + f; e^x - 1 = 2^j (p + 1) - 1 with p = e^f - 1 = f + f^2 q(f)
    clamped = _clamp(t, x, -104.0, 88.8)
    magic = _k(t, _MAGIC, x)
    jm = t.fma(clamped, _k(t, 1.442695, x), magic)
    j = t.sub(jm, magic)
    f = t.fma(j, _k(t, -6.93145752e-1, x), clamped)
    f = t.fma(j, _k(t, -1.42860677e-6, x), f)
    q = polynomial(t, f, [1 / factorial(n) for n in range(8, 1, -1)])
    p = t.fma(q, t.mul(f, f), f)
    # 2^(j-1), so that j = 128 does not overflow before the end
    bits = t.add(t.cast("bitcast", jm, "i32"), _int(t, 126 - _MAGIC_BITS, x))
    least = t.maximum(bits, _int(t, 0, x))
    scale = t.cast("bitcast", t.shift_left(least, 23), "f32")
    r = t.fma(p, scale, t.sub(scale, _k(t, 0.5, x)))
    r = t.add(r, r)
    return t.select(t.compare("oeq", j, _k(t, 0.0, x)), copysign(t, p, x), r)


def erf(t: Text, x: Val) -> Val:
    """The error function: an odd polynomial near 0, 1 - exp(polynomial) elsewhere."""
    if x.element != "f32":
        return t.math("erf", x)
    a, q = absolute(t, x), t.mul(x, x)
    r = t.fma(_k(t, -1.72853470e-5, x), a, _k(t, 3.83197126e-4, x))
    u = t.fma(_k(t, -3.88396438e-3, x), a, _k(t, 2.42546219e-2, x))
    r = t.fma(r, q, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = t.fma(r, a, _k(t, c, x))
    r = t.fma(r, a, t.neg(a))
    far = copysign(t, t.sub(_k(t, 1.0, x), exp(t, r)), x)
    near = polynomial(
        t,
        q,
        [
            -5.96761703e-4,
            4.99119423e-3,
            -2.67681349e-2,
            1.12819925e-1,
            -3.76125336e-1,
            1.28379166e-1,
        ],
    )
    near = t.fma(near, x, x)
    return t.select(t.compare("ogt", a, _k(t, 0.927734375, x)), far, near)


def tanh(t: Text, x: Val) -> Val:
    """Hyperbolic tangent: an odd polynomial near 0, 1 - 2 / (e^2x + 1) elsewhere."""
    if x.element != "f32":
        return t.math("tanh", x)
    a, q, one = absolute(t, x), t.mul(x, x), _k(t, 1.0, x)
    e = exp(t, t.add(a, a))
    far = t.sub(one, t.div(_k(t, 2.0, x), t.add(e, one)))
    near = polynomial(t, q, [1.57296831e-2, -5.23025580e-2, 1.33152977e-1, -3.33327681e-1])
    near = t.fma(t.mul(near, q), x, x)
    return copysign(t, t.select(t.compare("ogt", a, _k(t, 0.55, x)), far, near), x)


def logistic(t: Text, x: Val) -> Val:
    """1 / (1 + e^-x)."""
    one = _k(t, 1.0, x)
    return t.div(one, t.add(one, exp(t, t.neg(x))))


def log(t: Text, x: Val) -> Val:
    """Natural logarithm: x = 2^e m with m in [2/3, 4/3), a polynomial in m - 1."""
    if x.element != "f32":
        return t.math("log", x)
    tiny = t.compare("olt", x, _k(t, 1.17549435e-38, x))
    scaled = t.select(tiny, t.mul(x, _k(t, 8388608.0, x)), x)
    bits = t.cast("bitcast", scaled, "i32")
    e = t.shift_right(t.sub(bits, _int(t, 0x3F2AAAAB, x)), 23)
    m = t.cast("bitcast", t.sub(bits, t.shift_left(e, 23)), "f32")
    exponent = t.cast("sitofp", e, "f32")
    exponent = t.add(exponent, t.select(tiny, _k(t, -23.0, x), _k(t, 0.0, x)))
    f = t.sub(m, _k(t, 1.0, x))
    q = t.mul(f, f)
    r = t.fma(_k(t, -0.130187988, x), f, _k(t, 0.140889585, x))
    s = t.fma(_k(t, -0.121489584, x), f, _k(t, 0.139809534, x))
    r = t.fma(r, q, s)
    for c in (-0.166845024, 0.200121149, -0.249996364, 0.333331943, -0.5):
        r = t.fma(r, f, _k(t, c, x))
    r = t.fma(exponent, _k(t, _LN2, x), t.fma(r, q, f))
    # +inf and NaN give themselves; 0 gives -inf; negative gives NaN
    finite = t.compare("olt", x, _k(t, inf, x))
    r = t.select(finite, r, x)
    r = t.select(t.compare("olt", x, _k(t, 0.0, x)), _k(t, nan, x), r)
    return t.select(t.compare("oeq", x, _k(t, 0.0, x)), _k(t, -inf, x), r)


def log1p(t: Text, x: Val) -> Val:
    """log(1 + x), accurate near 0: the rounding of 1 + x is divided out (Kahan)."""
    if x.element != "f32":
        return t.math("log1p", x)
    one = _k(t, 1.0, x)
    u = t.add(one, x)
    d = t.sub(u, one)
    r = t.div(t.mul(log(t, u), x), d)
    r = t.select(t.compare("oeq", u, one), x, r)
    # beyond 2^24 nothing is lost in 1 + x, and the product above may overflow
    return t.select(t.compare("ogt", x, _k(t, 1.6777216e7, x)), log(t, x), r)


def log2_(t: Text, x: Val) -> Val:
    """Logarithm to base 2."""
    if x.element != "f32":
        return t.math("log2", x)
    return t.mul(log(t, x), _k(t, 1.44269504, x))


def sin(t: Text, x: Val) -> Val:
    """Sine of an angle in radians."""
    return _sin_cos(t, x, "sin", 0)


def cos(t: Text, x: Val) -> Val:
    """Cosine of an angle in radians."""
    return _sin_cos(t, x, "cos", 1)


def _sin_cos(t: Text, x: Val, name: str, quadrant: int) -> Val:
    """Cody-Waite reduction in three steps; any lane beyond 1e5 sends the vector to libm."""
    if x.element != "f32":
        return t.math(name, x)
    huge = t.compare("ugt", absolute(t, x), _k(t, _HUGE_ANGLE, x))
    with t.when(t.any_lane(huge) if lanes_of(x.type) > 1 else huge, [x.type]) as branch:
        branch.give(t.math(name, x))
    with branch.otherwise():
        branch.give(_reduced_sin_cos(t, x, quadrant))
    return branch.results[0]


def _reduced_sin_cos(t: Text, x: Val, quadrant: int) -> Val:
    magic = _k(t, _MAGIC, x)
    jm = t.fma(x, _k(t, 0.636619747, x), magic)
    j = t.sub(jm, magic)
    f = x
    for c in (-1.57079601, -3.13916473e-07, -5.39030253e-15):  # pi / 2 in three pieces
        f = t.fma(j, _k(t, c, x), f)
    bits = t.cast("bitcast", jm, "i32")
    if quadrant:
        bits = t.add(bits, _int(t, quadrant, x))
    q = t.mul(f, f)
    s = polynomial(t, q, [2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1])
    s = t.fma(s, t.mul(f, q), f)
    c = polynomial(t, q, [2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -0.5, 1.0])
    odd = t.compare("ne", t.and_(bits, _int(t, 1, x)), _int(t, 0, x))
    r = t.cast("bitcast", t.select(odd, c, s), "i32")
    sign = t.shift_left(t.and_(bits, _int(t, 2, x)), 30)
    return t.cast("bitcast", t.xor(r, sign), "f32")


def sqrt(t: Text, x: Val) -> Val:
    """Square root, correctly rounded."""
    return t.math("sqrt", x)


def rsqrt(t: Text, x: Val) -> Val:
    """1 / sqrt(x)."""
    return t.div(_k(t, 1.0, x), t.math("sqrt", x))


def floor(t: Text, x: Val) -> Val:
    """Round down."""
    return t.math("floor", x)


def ceil(t: Text, x: Val) -> Val:
    """Round up."""
    return t.math("ceil", x)


def trunc(t: Text, x: Val) -> Val:
    """Round towards zero."""
    return t.math("trunc", x)


def round_nearest_even(t: Text, x: Val) -> Val:
    """Round to nearest, ties to even."""
    return t.math("roundeven", x)


def sign(t: Text, x: Val) -> Val:
    """-1, 0 or 1 for numbers; NaN and zeros give themselves (aten.sign of NaN is 0)."""
    zero, one = _k(t, 0, x), _k(t, 1, x)
    if x.is_float:
        return t.select(t.compare("one", x, zero), copysign(t, one, x), x)
    up = t.select(t.compare("gt", x, zero), one, zero)
    return t.select(t.compare("lt", x, zero), _k(t, -1, x), up)


def remainder(t: Text, x: Val, y: Val) -> Val:
    """Remainder with the sign of x: C's fmod and %. Floats go to libm, exactly."""
    return t.rem(x, y)


def power(t: Text, x: Val, y: Val) -> Val:
    """x^y for floats, computed in f64: exp2(y log2 |x|), with C's special cases."""
    if x.element != "f32":
        return t.math("powf", x, y)
    wide_x, wide_y = t.cast("extf", absolute(t, x), "f64"), t.cast("extf", y, "f64")
    r = t.cast("truncf", _exp2_f64(t, t.mul(_log2_f64(t, wide_x), wide_y)), "f32")
    zero, one = _k(t, 0.0, x), _k(t, 1.0, x)
    # a negative base needs an integer exponent; an odd one keeps the sign (of zeros and inf too)
    half = t.mul(y, _k(t, 0.5, x))
    integer = t.compare("oeq", floor(t, y), y)
    even = t.compare("oeq", floor(t, half), half)
    signed = t.select(even, r, copysign(t, r, x))
    r = t.select(integer, signed, r)
    infinite = t.compare("oeq", absolute(t, x), _k(t, inf, x))
    allowed = t.or_(t.or_(integer, infinite), t.compare("uge", x, zero))
    r = t.select(allowed, r, _k(t, nan, x))
    minus_one = t.compare("oeq", x, _k(t, -1.0, x))
    endless = t.compare("oeq", absolute(t, y), _k(t, inf, x))
    certain = t.or_(t.compare("oeq", y, zero), t.compare("oeq", x, one))
    return t.select(t.or_(certain, t.and_(minus_one, endless)), one, r)


def _log2_f64(t: Text, x: Val) -> Val:
    """log2 of a non-negative f64 that came from an f32 (so it is no f64 denormal)."""
    wide = with_element(x.type, "i64")
    bits = t.cast("bitcast", x, "i64")
    e = t.shift_right(t.sub(bits, t.const(0x3FE6A09E667F3BCD, wide)), 52)  # sqrt(1/2)
    m = t.cast("bitcast", t.sub(bits, t.shift_left(e, 52)), "f64")
    one = t.const(1.0, x.type)
    s = t.div(t.sub(m, one), t.add(m, one))
    q = t.mul(s, s)
    p = polynomial(t, q, [2.0 * 1.4426950408889634 / (2 * n + 1) for n in range(8, -1, -1)])
    exponent = t.cast("sitofp", t.cast("trunci", e, "i32"), "f64")
    r = t.fma(p, s, exponent)
    r = t.select(t.compare("olt", x, t.const(inf, x.type)), r, x)  # inf and NaN give themselves
    return t.select(t.compare("oeq", x, t.const(0.0, x.type)), t.const(-inf, x.type), r)


def _exp2_f64(t: Text, x: Val) -> Val:
    """2^x in f64 for a result that is going to be f32."""
    x = _clamp(t, x, -400.0, 400.0)
    magic = t.const(6755399441055744.0, x.type)  # 1.5 * 2^52
    jm = t.add(x, magic)
    f = t.sub(x, t.sub(jm, magic))
    ln2 = 0.6931471805599453
    p = polynomial(t, f, [ln2**n / factorial(n) for n in range(10, -1, -1)])
    bits = t.shift_left(t.cast("bitcast", jm, "i64"), 52)
    return t.cast("bitcast", t.add(t.cast("bitcast", p, "i64"), bits), "f64")


def gelu_erf(t: Text, x: Val) -> Val:
    """x/2 (1 + erf(x / sqrt 2))."""
    e = erf(t, t.mul(x, _k(t, 0.7071067811865476, x)))
    half = t.mul(x, _k(t, 0.5, x))
    return t.fma(half, e, half)


def through_libm(name: str) -> Callable[[Text, Val], Val]:
    """An operation of the math dialect that has no fast version here: one libm call a lane."""

    def emit(t: Text, x: Val) -> Val:
        return t.math(name, x)

    emit.__doc__ = f"`math.{name}`."
    return emit


UNARY: dict[str, Callable[[Text, Val], Val]] = {
    "abs": absolute,
    "ceil": ceil,
    "cosine": cos,
    "erf": erf,
    "exponential": exp,
    "exponential_minus_one": expm1,
    "floor": floor,
    "log": log,
    "log_plus_one": log1p,
    "logistic": logistic,
    "negate": lambda t, x: t.neg(x),
    "round_nearest_even": round_nearest_even,
    "rsqrt": rsqrt,
    "sign": sign,
    "sine": sin,
    "sqrt": sqrt,
    "tanh": tanh,
    "trunc": trunc,
    "cbrt": through_libm("cbrt"),
    "tan": through_libm("tan"),
    "acos": through_libm("acos"),
    "acosh": through_libm("acosh"),
    "asin": through_libm("asin"),
    "asinh": through_libm("asinh"),
    "atan": through_libm("atan"),
    "atanh": through_libm("atanh"),
    "cosh": through_libm("cosh"),
    "sinh": through_libm("sinh"),
    "log2": log2_,
}
"""Emitters by StableHLO (or disc.elementwise) name."""
