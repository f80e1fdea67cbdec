"""One element-wise function on vectors of any tensor dtype."""

from collections.abc import Sequence

from pydisc.codegen.cpu import vector_math
from pydisc.codegen.common.assembly_text import Text, Val
from pydisc.support.errors import InternalError

_BINARY = {"add": "add", "subtract": "sub", "multiply": "mul"}
_COMPARE = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def is_signed(dtype: str) -> bool:
    """Whether integers of a dtype carry a sign."""
    return not (dtype.startswith("u") or dtype == "i1")


def apply(t: Text, fn: str, args: Sequence[Val], sources: Sequence[str], dtype: str) -> Val:
    """Emit `fn(args)`: `sources` are the dtypes of the arguments, `dtype` that of the result."""
    x = args[0]
    source = sources[0]
    if fn in vector_math.UNARY and len(args) == 1 and source != "i1":
        return vector_math.UNARY[fn](t, x)
    if fn in _BINARY and source != "i1":
        return getattr(t, _BINARY[fn])(x, args[1])
    if fn.startswith("compare_"):
        return _compare(t, fn.removeprefix("compare_"), x, args[1], source)
    match fn:
        case "select":
            return t.select(x, args[1], args[2])
        case "convert":
            return t.convert(x, source, dtype)
        case "add" | "or" | "maximum" if source == "i1":
            return t.or_(x, args[1])
        case "multiply" | "and" | "minimum" if source == "i1":
            return t.and_(x, args[1])
        case "subtract" if source == "i1":
            return t.xor(x, args[1])
        case "maximum":
            return t.maximum(x, args[1], signed=is_signed(dtype))
        case "minimum":
            return t.minimum(x, args[1], signed=is_signed(dtype))
        case "and":
            return t.and_(x, args[1])
        case "or":
            return t.or_(x, args[1])
        case "xor":
            return t.xor(x, args[1])
        case "not":
            return t.xor(x, t.const(1 if source == "i1" else -1, x.type))
        case "divide":
            return _divide(t, x, args[1], source)
        case "remainder":
            return _remainder(t, x, args[1])
        case "power":
            return _power(t, x, args[1], source)
        case "clamp":
            low, value, high = args
            return t.minimum(t.maximum(value, low), high)
        case "is_finite":
            infinite = t.const(float("inf"), x.type)
            return t.compare("olt", vector_math.absolute(t, x), infinite)
        case _:
            raise InternalError(f"no CPU code for element-wise {fn} on {source}")


def _compare(t: Text, direction: str, x: Val, y: Val, source: str) -> Val:
    predicate = _COMPARE[direction]
    if not is_signed(source) and predicate not in ("eq", "ne"):
        return t.compare(f"u{predicate}", x, y)
    return t.compare(predicate, x, y)


def _divide(t: Text, x: Val, y: Val, source: str) -> Val:
    """Integer division truncates; by zero it gives 0 instead of a trap."""
    if source.startswith("f"):
        return t.div(x, y)
    zero, one = t.const(0, x.type), t.const(1, x.type)
    bad = t.compare("eq", y, zero)
    return t.select(bad, zero, t.div(x, t.select(bad, one, y)))


def _remainder(t: Text, x: Val, y: Val) -> Val:
    if x.is_float:
        return vector_math.remainder(t, x, y)
    zero, one = t.const(0, x.type), t.const(1, x.type)
    bad = t.compare("eq", y, zero)
    return t.select(bad, zero, t.rem(x, t.select(bad, one, y)))


def _power(t: Text, x: Val, y: Val, source: str) -> Val:
    if not source.startswith("f"):
        raise InternalError("integer powers have no CPU code")
    return vector_math.power(t, x, y)
