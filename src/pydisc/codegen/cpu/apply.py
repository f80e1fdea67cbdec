"""One element-wise function on vectors of any tensor dtype."""

from collections.abc import Callable, Sequence

from pydisc.codegen.common.assembly_text import Text, Val
from pydisc.codegen.cpu import integer_math, vector_math
from pydisc.support.errors import InternalError

_PLAIN = {
    "add": "add", "subtract": "sub", "multiply": "mul", "select": "select",
    "and": "and_", "or": "or_", "xor": "xor",
}  # fmt: skip
_BOOLEAN = {
    "add": "or_", "maximum": "or_", "multiply": "and_", "minimum": "and_", "subtract": "xor",
}  # fmt: skip
"""What arithmetic on i1 is."""
_COMPARE = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def is_signed(dtype: str) -> bool:
    """Whether integers of a dtype carry a sign."""
    return not (dtype.startswith("u") or dtype == "i1")


def apply(t: Text, fn: str, args: Sequence[Val], sources: Sequence[str], dtype: str) -> Val:
    """Emit `fn(args)`: `sources` are the dtypes of the arguments, `dtype` that of the result."""
    source = sources[0]
    if fn == "convert":
        return t.convert(args[0], source, dtype)
    if fn in vector_math.UNARY and len(args) == 1 and source != "i1":
        return vector_math.UNARY[fn](t, args[0])
    if source == "i1" and fn in _BOOLEAN:
        return getattr(t, _BOOLEAN[fn])(*args)
    if fn in _PLAIN:
        return getattr(t, _PLAIN[fn])(*args)
    if fn.startswith("compare_"):
        return _compare(t, fn.removeprefix("compare_"), args[0], args[1], source)
    if fn in _SPECIAL:
        return _SPECIAL[fn](t, args, is_signed(source))
    raise InternalError(f"no CPU code for element-wise {fn} on {source}")


def _compare(t: Text, direction: str, x: Val, y: Val, source: str) -> Val:
    predicate = _COMPARE[direction]
    if not is_signed(source) and predicate not in ("eq", "ne"):
        return t.compare(f"u{predicate}", x, y)
    return t.compare(predicate, x, y)


def _maximum(t: Text, args: Sequence[Val], signed: bool) -> Val:
    return t.maximum(args[0], args[1], signed=signed)


def _minimum(t: Text, args: Sequence[Val], signed: bool) -> Val:
    return t.minimum(args[0], args[1], signed=signed)


def _clamp(t: Text, args: Sequence[Val], signed: bool) -> Val:
    low, x, high = args
    return t.minimum(t.maximum(x, low, signed=signed), high, signed=signed)


def _not(t: Text, args: Sequence[Val], _: bool) -> Val:
    x = args[0]
    return t.xor(x, t.const(1 if x.element == "i1" else -1, x.type))


def _divide(t: Text, args: Sequence[Val], signed: bool) -> Val:
    x, y = args
    return t.div(x, y) if x.is_float else integer_math.divide(t, x, y, signed=signed)


def _remainder(t: Text, args: Sequence[Val], signed: bool) -> Val:
    x, y = args
    if x.is_float:
        return vector_math.remainder(t, x, y)
    return integer_math.remainder(t, x, y, signed=signed)


def _power(t: Text, args: Sequence[Val], signed: bool) -> Val:
    x, y = args
    if x.is_float:
        return vector_math.power(t, x, y)
    return integer_math.power(t, x, y, signed=signed)


def _shift_left(t: Text, args: Sequence[Val], _: bool) -> Val:
    return integer_math.shift_left(t, *args)


def _shift_right(t: Text, args: Sequence[Val], signed: bool) -> Val:
    return integer_math.shift_right(t, *args, signed=signed)


def _shift_right_logical(t: Text, args: Sequence[Val], _: bool) -> Val:
    return integer_math.shift_right(t, *args, signed=False)


def _atan2(t: Text, args: Sequence[Val], _: bool) -> Val:
    return vector_math.atan2(t, *args)


def _is_finite(t: Text, args: Sequence[Val], _: bool) -> Val:
    x = args[0]
    return t.compare("olt", vector_math.absolute(t, x), t.const(float("inf"), x.type))


_SPECIAL: dict[str, Callable[[Text, Sequence[Val], bool], Val]] = {
    "atan2": _atan2,
    "clamp": _clamp,
    "divide": _divide,
    "is_finite": _is_finite,
    "maximum": _maximum,
    "minimum": _minimum,
    "not": _not,
    "power": _power,
    "remainder": _remainder,
    "shift_left": _shift_left,
    "shift_right_arithmetic": _shift_right,
    "shift_right_logical": _shift_right_logical,
}
"""Emitters that are told whether the operands are signed."""
