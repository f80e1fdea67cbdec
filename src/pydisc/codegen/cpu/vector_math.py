"""Elementary functions on f32 vectors, from integer and fused multiply-add instructions only.

MLIR and LLVM turn `math.exp` of a vector into one libm call a lane; these polynomials are several
times faster than that and than Sleef. Each function takes a scalar or a vector, of f32 or, for
everything that is not f32, passes the operation on to the math dialect (libm). All are right for
infinities, NaN, signed zeros, denormals and huge arguments; errors are at most 1 ULP, those of
tanh and powers 2 (docs/accuracy.md).
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


def _two_sum(t: Text, x: Val, y: Val) -> tuple[Val, Val]:
    """x + y rounded, and what rounding has lost (Knuth)."""
    total = t.add(x, y)
    part = t.sub(total, x)
    return total, t.add(t.sub(x, t.sub(total, part)), t.sub(y, part))


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
    tail, f, jm, j = _exp_parts(t, x)
    return _times_power_of_2(t, t.fma(tail, f, _k(t, 1.0, x)), jm, j)


def _exp_parts(t: Text, x: Val) -> tuple[Val, Val, Val, Val]:
    """(p, f, jm, j) with e^x = 2^j (1 + p f); the low bits of jm hold j + 254."""
    x = _clamp(t, x, -105.0, 89.0)
    # 2^j is applied as two factors so that j may reach from the denormals to overflow. The bias
    # of both exponents (254) is in the magic number; shifting left drops the magic bits.
    magic = _k(t, _MAGIC + 254.0, x)
    jm = t.fma(x, _k(t, 1.442695, x), magic)
    j = t.sub(jm, magic)
    f = t.fma(j, _k(t, -6.93145752e-1, x), x)
    f = t.fma(j, _k(t, -1.42860677e-6, x), f)
    p = polynomial(
        t, f, [1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1.0]
    )
    return p, f, jm, j


def _times_power_of_2(t: Text, r: Val, jm: Val, j: Val) -> Val:
    """r * 2^j, also where 2^j is no normal number; the low bits of jm hold j + 254."""
    if "avx512f" in t.features and lanes_of(r.type) == 16:
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
    exact = t.fma(j, _k(t, -6.93145752e-1, x), clamped)
    f = t.fma(j, _k(t, -1.42860677e-6, x), exact)
    low = t.fma(j, _k(t, -1.42860677e-6, x), t.sub(exact, f))
    q = t.mul(polynomial(t, f, [1 / factorial(n) for n in range(8, 1, -1)]), f)
    p = t.fma(q, f, f)
    # what f and p have lost by rounding: where 2^j p cancels against 2^j - 1 it counts
    low = t.add(t.fma(low, p, low), t.fma(q, f, t.sub(f, p)))
    # 2^(j-1), so that j = 128 does not overflow before the end
    bits = t.add(t.cast("bitcast", jm, "i32"), _int(t, 126 - _MAGIC_BITS, x))
    least = t.maximum(bits, _int(t, 0, x))
    scale = t.cast("bitcast", t.shift_left(least, 23), "f32")
    r, lost = _two_sum(t, t.sub(scale, _k(t, 0.5, x)), t.mul(p, scale))
    r = t.add(r, t.fma(low, scale, lost))
    # from 2^20 on the half is taken from p instead: scale - 0.5 would no longer be exact
    inverse = t.cast("bitcast", t.shift_left(t.sub(_int(t, 254, x), least), 23), "f32")
    large = t.fma(t.fma(inverse, _k(t, -0.5, x), p), scale, scale)
    r = t.select(t.compare("ogt", j, _k(t, 20.0, x)), large, r)
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
    near = polynomial(
        t, q, [-5.89514659e-3, 2.07959612e-2, -5.3783827e-2, 1.33319241e-1, -3.3333298e-1]
    )
    near = t.fma(t.mul(near, q), x, x)
    return copysign(t, t.select(t.compare("ogt", a, _k(t, 0.6, x)), far, near), x)


def logistic(t: Text, x: Val) -> Val:
    """1 / (1 + e^-x), as e^x / (1 + e^x) for negative x: nothing overflows on the way."""
    one, zero = _k(t, 1.0, x), _k(t, 0.0, x)
    away = t.neg(absolute(t, x))
    negative = t.compare("olt", x, zero)
    if x.element != "f32":
        e = exp(t, away)
        return t.div(t.select(negative, e, one), t.add(one, e))
    # e + low is e^-|x|, and d + lost is 1 + e + low: the quotient is corrected by what they lose
    p, f, jm, j = _exp_parts(t, away)
    mantissa = t.fma(p, f, one)
    low = t.fma(p, f, t.sub(one, mantissa))
    e, low = (_times_power_of_2(t, m, jm, j) for m in (mantissa, low))
    d = t.add(one, e)
    lost = t.add(t.add(t.sub(one, d), e), low)
    above, below = t.select(negative, e, one), t.select(negative, low, zero)
    inverse = t.div(one, d)
    r = t.mul(above, inverse)
    rest = t.fma(t.neg(r), d, above)
    rest = t.add(t.fma(t.neg(r), lost, rest), below)
    return t.fma(rest, inverse, r)


def _log_parts(t: Text, x: Val) -> tuple[Val, Val, Val]:
    """(e, f, r) of a positive number: x = 2^e (1 + f), and r = log(1 + f) - f.

    1 + f is in [2/3, 4/3), so that nothing cancels; r comes from a polynomial.
    """
    tiny = t.compare("olt", x, _k(t, 1.17549435e-38, x))
    scaled = t.select(tiny, t.mul(x, _k(t, 8388608.0, x)), x)
    bits = t.cast("bitcast", scaled, "i32")
    e = t.shift_right(t.sub(bits, _int(t, 0x3F2AAAAB, x)), 23)
    m = t.cast("bitcast", t.sub(bits, t.shift_left(e, 23)), "f32")
    exponent = t.cast("sitofp", e, "f32")
    exponent = t.add(exponent, t.select(tiny, _k(t, -23.0, x), _k(t, 0.0, x)))
    f = t.sub(m, _k(t, 1.0, x))
    q = t.mul(f, f)
    # two chains side by side for the high powers, then one
    r = t.fma(_k(t, 0.120070326, x), f, _k(t, -0.128451017, x))
    s = t.fma(_k(t, 0.107542657, x), f, _k(t, -0.121957687, x))
    r = t.fma(r, q, s)
    for c in (0.143044542, -0.16679579, 0.199995978, -0.249998203, 0.333333357):
        r = t.fma(r, f, _k(t, c, x))
    half = _k(t, -0.5, x)
    lost = t.mul(t.fma(f, f, t.neg(q)), half)
    return exponent, f, t.fma(q, half, t.fma(t.mul(r, f), q, lost))


def _log_special(t: Text, x: Val, r: Val) -> Val:
    """The logarithm of x where it is no positive number, r elsewhere."""
    zero = _k(t, 0.0, x)
    r = t.select(t.compare("olt", x, _k(t, inf, x)), r, x)  # +inf and NaN give themselves
    r = t.select(t.compare("olt", x, zero), _k(t, nan, x), r)
    return t.select(t.compare("oeq", x, zero), _k(t, -inf, x), r)


def log(t: Text, x: Val) -> Val:
    """Natural logarithm."""
    if x.element != "f32":
        return t.math("log", x)
    e, f, rest = _log_parts(t, x)
    return _log_special(t, x, t.fma(e, _k(t, _LN2, x), t.add(f, rest)))


def log1p(t: Text, x: Val) -> Val:
    """log(1 + x), accurate near 0: what rounding 1 + x has lost is added to the logarithm."""
    if x.element != "f32":
        return t.math("log1p", x)
    one = _k(t, 1.0, x)
    u = t.add(one, x)
    # the lost part: x - (u - 1), or 1 - (u - x) where x is the larger
    lost = t.select(t.compare("ogt", x, one), t.sub(one, t.sub(u, x)), t.sub(x, t.sub(u, one)))
    e, f, rest = _log_parts(t, u)
    r = t.fma(e, _k(t, _LN2, x), t.add(f, t.add(rest, t.div(lost, u))))
    return t.select(t.compare("oeq", x, _k(t, 0.0, x)), x, _log_special(t, u, r))


def _log_to_base(t: Text, x: Val, ln: tuple[float, float], two: tuple[float, float]) -> Val:
    """Logarithm to another base: `ln` is 1 / log(base), `two` the logarithm of 2, each as a sum.

    The first part of `two` has few bits, so that e times it is exact; what the leading sum loses
    is kept (Dekker) and added last.
    """
    e, f, rest = _log_parts(t, x)
    high, low = (_k(t, c, x) for c in ln)
    p = t.mul(f, high)
    lost = t.fma(f, high, t.neg(p))
    lost = t.fma(f, low, t.fma(rest, high, lost))
    whole = t.mul(e, _k(t, two[0], x))
    total = t.add(whole, p)
    lost = t.add(lost, t.sub(p, t.sub(total, whole)))
    if two[1]:
        lost = t.fma(e, _k(t, two[1], x), lost)
    return _log_special(t, x, t.add(total, lost))


def log2(t: Text, x: Val) -> Val:
    """Logarithm to base 2."""
    if x.element != "f32":
        return t.math("log2", x)
    return _log_to_base(t, x, (1.44269502, 1.92596303e-8), (1.0, 0.0))


def log10(t: Text, x: Val) -> Val:
    """Logarithm to base 10."""
    if x.element != "f32":
        return t.math("log10", x)
    return _log_to_base(t, x, (0.434294492, -1.010305e-8), (0.301025390625, 4.60503898e-6))


def exp2(t: Text, x: Val) -> Val:
    """2^x: a whole power, times e^(f ln2) with |f| <= 1/2."""
    if x.element != "f32":
        return t.math("exp2", x)
    x = _clamp(t, x, -151.0, 129.0)
    magic = _k(t, _MAGIC + 254.0, x)
    jm = t.add(x, magic)
    j = t.sub(jm, magic)
    f = t.sub(x, j)
    ln2 = 0.6931471805599453
    r = polynomial(t, f, [ln2**n / factorial(n) for n in range(7, -1, -1)])
    return _times_power_of_2(t, r, jm, j)


def sin(t: Text, x: Val) -> Val:
    """Sine of an angle in radians; that of -0.0 is -0.0."""
    r = _sin_cos(t, x, "sin", 0)
    return r if x.element != "f32" else t.select(t.compare("oeq", x, _k(t, 0.0, x)), x, r)


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
    # x - j pi/2, pi/2 in three pieces, as a sum f + low: near a multiple much of it cancels
    exact = t.fma(j, _k(t, -1.57079601, x), x)
    middle = t.mul(j, _k(t, -3.13916473e-07, x))
    low = t.fma(j, _k(t, -3.13916473e-07, x), t.neg(middle))
    low = t.fma(j, _k(t, -5.39030253e-15, x), low)
    total, lost = _two_sum(t, exact, middle)
    low = t.add(low, lost)
    f = t.add(total, low)
    low = t.add(t.sub(total, f), low)
    bits = t.cast("bitcast", jm, "i32")
    if quadrant:
        bits = t.add(bits, _int(t, quadrant, x))
    q = t.mul(f, f)
    one, half = _k(t, 1.0, x), _k(t, 0.5, x)
    tail = polynomial(t, q, [2.4425679e-5, -1.38872515e-3, 4.16666444e-2])
    # 1 - q/2 loses up to half a unit; that, and what q and f have lost, goes into the tail
    w = t.fma(q, t.neg(half), one)
    lost = t.fma(q, t.neg(half), t.sub(one, w))
    lost = t.fma(t.fma(f, f, t.neg(q)), t.neg(half), lost)
    lost = t.fma(t.neg(low), f, lost)
    c = t.add(w, t.fma(t.mul(q, q), tail, lost))
    s = polynomial(t, q, [2.71736659e-6, -1.98392326e-4, 8.33332906e-3, -1.66666666e-1])
    s = t.add(f, t.fma(s, t.mul(f, q), t.mul(low, w)))
    odd = t.compare("ne", t.and_(bits, _int(t, 1, x)), _int(t, 0, x))
    r = t.cast("bitcast", t.select(odd, c, s), "i32")
    sign = t.shift_left(t.and_(bits, _int(t, 2, x)), 30)
    return t.cast("bitcast", t.xor(r, sign), "f32")


def sqrt(t: Text, x: Val) -> Val:
    """Square root, correctly rounded."""
    return t.math("sqrt", x)


def rsqrt(t: Text, x: Val) -> Val:
    """1 / sqrt(x), with the error of two roundings taken out by a step of Newton's."""
    one = _k(t, 1.0, x)
    y = t.div(one, t.math("sqrt", x))
    if x.element != "f32":
        return y
    product = t.mul(x, y)
    error = t.fma(t.neg(product), y, one)
    error = t.fma(t.neg(t.fma(x, y, t.neg(product))), y, error)
    better = t.fma(t.mul(y, _k(t, 0.5, x)), error, y)
    finite = t.compare("olt", absolute(t, error), one)  # not of 0, infinity and NaN
    return t.select(finite, better, y)


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


def atan2(t: Text, y: Val, x: Val) -> Val:
    """The angle of the point (x, y), by libm; of f32 in f64, whose rounding is the only error."""
    if x.element != "f32":
        return t.math("atan2", y, x)
    wide = t.math("atan2", t.cast("extf", y, "f64"), t.cast("extf", x, "f64"))
    return t.cast("truncf", wide, "f32")


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


def through_libm(name: str) -> Callable[[Text, Val], Val]:
    """An operation of the math dialect that has no fast version here: one libm call a lane."""

    def emit(t: Text, x: Val) -> Val:
        return t.math(name, x)

    emit.__doc__ = f"`math.{name}`."
    return emit


def through_f64_libm(name: str) -> Callable[[Text, Val], Val]:
    """As `through_libm`, of f32 in f64: libm's f32 version is off by more than one unit."""

    def emit(t: Text, x: Val) -> Val:
        if x.element != "f32":
            return t.math(name, x)
        return t.cast("truncf", t.math(name, t.cast("extf", x, "f64")), "f32")

    emit.__doc__ = f"`math.{name}`, in f64."
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
    "acosh": through_f64_libm("acosh"),
    "asin": through_libm("asin"),
    "asinh": through_f64_libm("asinh"),
    "atan": through_libm("atan"),
    "atanh": through_f64_libm("atanh"),
    "cosh": through_f64_libm("cosh"),
    "sinh": through_f64_libm("sinh"),
    "exp2": exp2,
    "log2": log2,
    "log10": log10,
}
"""Emitters by StableHLO (or disc.elementwise) name."""
