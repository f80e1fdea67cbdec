"""Integer arithmetic that no instruction does as torch has it: every operand gives an answer.

The processor traps on a division by zero and on INT_MIN / -1, and shifts by an amount modulo the
width. Here the first gives 0 (who calls reports it), the second wraps around as all arithmetic
does, and a shift by more than the width shifts everything out.
"""

from pydisc.codegen.common.assembly_text import Text, Val, lanes_of


def _bits(x: Val) -> int:
    return int(x.element[1:])


def _safe_divisor(t: Text, y: Val, *, signed: bool) -> tuple[Val, Val | None]:
    """The divisor, 1 where it would trap, and where that is because it is -1."""
    zero, one = t.const(0, y.type), t.const(1, y.type)
    bad = t.compare("eq", y, zero)
    minus = t.compare("eq", y, t.const(-1, y.type)) if signed else None
    trap = t.or_(bad, minus) if minus is not None else bad
    return t.select(trap, one, y), minus


def divide(t: Text, x: Val, y: Val, *, signed: bool) -> Val:
    """The quotient towards zero; by zero 0."""
    divisor, minus = _safe_divisor(t, y, signed=signed)
    quotient = t.div(x, divisor, signed=signed)
    if minus is not None:
        quotient = t.select(minus, t.neg(x), quotient)
    return t.select(t.compare("eq", y, t.const(0, y.type)), t.const(0, x.type), quotient)


def remainder(t: Text, x: Val, y: Val, *, signed: bool) -> Val:
    """The remainder with the sign of x; by zero, and by 1 and -1, 0."""
    divisor, _ = _safe_divisor(t, y, signed=signed)
    return t.rem(x, divisor, signed=signed)


def power(t: Text, x: Val, y: Val, *, signed: bool) -> Val:
    """x^y modulo 2^width, by squaring; a negative power is 1 / x^|y| rounded towards zero."""
    zero, one = t.const(0, x.type), t.const(1, x.type)
    most = y if lanes_of(y.type) == 1 else t.reduce("or", y)
    # The loop runs for as many bits as the largest exponent has: none if all are 0.
    leading = t.math("ctlz", most)
    width = t.const(_bits(y), most.type)
    rounds = t.sub(width, leading)
    if _bits(y) < 64:
        rounds = t.cast("extui", rounds, "i64")
    with t.loop(t.const(0), rounds, 1, [one, x, y]) as loop:
        result, square, rest = loop.carried
        odd = t.compare("ne", t.and_(rest, one), zero)
        result = t.select(odd, t.mul(result, square), result)
        loop.carry(result, t.mul(square, square), t.shift_right(rest, 1, signed=False))
    if not signed:
        return loop.results[0]
    minus = t.const(-1, x.type)
    odd = t.compare("ne", t.and_(y, one), zero)
    inverse = t.select(t.compare("eq", x, minus), t.select(odd, minus, one), zero)
    inverse = t.select(t.compare("eq", x, one), one, inverse)
    return t.select(t.compare("lt", y, zero), inverse, loop.results[0])


def shift_left(t: Text, x: Val, y: Val) -> Val:
    """x * 2^y; 0 where y is negative or too large."""
    inside = t.compare("ult", y, t.const(_bits(x), y.type))
    amount = t.select(inside, y, t.const(0, y.type))
    return t.select(inside, t.shift_left(x, amount), t.const(0, x.type))


def shift_right(t: Text, x: Val, y: Val, *, signed: bool) -> Val:
    """x / 2^y rounded down; the sign alone where y is negative or too large."""
    inside = t.compare("ult", y, t.const(_bits(x), y.type))
    if signed:
        amount = t.select(inside, y, t.const(_bits(x) - 1, y.type))
        return t.shift_right(x, amount)
    amount = t.select(inside, y, t.const(0, y.type))
    return t.select(inside, t.shift_right(x, amount, signed=False), t.const(0, x.type))
