"""Symbolic floats: what a program computes from sizes with `/`, `**`, `math.sqrt` and floats.

They are plain expression trees. Values are total and finite: a division by 0 is 0, what has no
value is 0, and what overflows saturates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydisc.shape.interval import INF, Bound, Range
from pydisc.shape.sym_node import SymNode

if TYPE_CHECKING:
    from pydisc.shape.cond import Cond
    from pydisc.shape.context import ShapeContext
    from pydisc.shape.dim import Dim

_MAX = 1.7976931348623157e308
_EXACT_DENOMINATOR = 1024

_FUNCTIONS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "mod": lambda a, b: a % b,
    "floordiv": lambda a, b: a // b,
    "max": max,
    "min": min,
    "neg": lambda a: -a,
    "sqrt": math.sqrt,
    "float": float,
}
_ROUNDERS: dict[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
}


def _compute(kind: str, values: list[Any]) -> float:
    """The total version of an operation."""
    try:
        value = _FUNCTIONS[kind](*values)
    except OverflowError:
        return -_MAX if kind == "float" and values[0] < 0 else _MAX
    except (ZeroDivisionError, ValueError):
        return 0.0
    if isinstance(value, complex) or math.isnan(value):
        return 0.0
    return min(max(value, -_MAX), _MAX)


def _corner(kind: str, x: float, y: float) -> list[float]:
    """A corner of an interval; where infinities leave it open, everything."""
    if kind == "mul":
        return [x * y if x and y else 0.0]
    value = x + y if kind == "add" else x - y if kind == "sub" else x / y
    return [-INF, INF] if math.isnan(value) else [value]


def _range(kind: str, args: tuple[Any, ...]) -> Range:
    """Bounds of an operation; rounding to nearest is monotone, so corners suffice."""
    if kind == "const":
        return args[0], args[0]
    if kind == "ite":
        a, b = args[1].range, args[2].range
        return min(a[0], b[0]), max(a[1], b[1])
    ranges = [a.range for a in args]
    if kind == "float":
        low, high = ranges[0]
        return _compute("float", [low]) if low != -INF else low, (
            _compute("float", [high]) if high != INF else high
        )
    if kind == "neg":
        return -ranges[0][1], -ranges[0][0]
    if kind == "sqrt":
        return 0.0, math.sqrt(ranges[0][1]) if ranges[0][1] > 0 else 0.0
    a, b = ranges
    if kind == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if kind == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if kind in ("add", "sub", "mul") or (kind == "truediv" and (b[0] > 0 or b[1] < 0)):
        corners = [c for x in a for y in b for c in _corner(kind, x, y)]
        return min(*corners, _MAX), max(*corners, -_MAX)
    positive = a[0] >= 0 and b[0] >= 0
    if (positive and kind != "mod") or (kind == "mod" and b[0] >= 0):
        return 0.0, INF
    return -INF, INF


class Real(SymNode):
    """A symbolic float.

    Kinds: const (float,); float (Dim,); add sub mul truediv pow mod floordiv max min (Real, Real);
    neg sqrt (Real,); ite (Cond, Real, Real).
    """

    __slots__ = ("args", "cx", "hint", "id", "kind")

    pytype = float

    def __init__(self, cx: ShapeContext, kind: str, args: tuple[Any, ...], hint: float) -> None:
        self.cx = cx
        self.kind = kind
        self.args = args
        self.hint: float = hint
        self.id = len(cx.reals)

    @property
    def constant(self) -> float | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The value if it is constant."""
        return self.args[0] if self.kind == "const" else None

    @property
    def range(self) -> Range:
        """Least and greatest possible value."""
        return _range(self.kind, self.args)

    @property
    def lo(self) -> Bound:
        """Least possible value."""
        return self.range[0]

    @property
    def hi(self) -> Bound:
        """Greatest possible value."""
        return self.range[1]

    def symbols(self) -> set[str]:
        """Names of the symbols in it."""
        if self.kind == "const":
            return set()
        return set().union(*(a.symbols() for a in self.args))

    def evaluate(self, env: Mapping[str, int]) -> float:
        """The value where symbols have the values `env`."""
        if self.kind == "const":
            return self.args[0]
        if self.kind == "ite":
            return (self.args[1] if self.args[0].evaluate(env) else self.args[2]).evaluate(env)
        return _compute(self.kind, [a.evaluate(env) for a in self.args])

    def round_to_int(self, kind: str, env: Mapping[str, int]) -> int:
        """floor, ceil, trunc or round of the value."""
        return _round(kind, self.evaluate(env))

    def integer_range(self, kind: str) -> Range:
        """Bounds of floor, ceil, trunc or round of it."""
        low, high = self.range
        return (
            low if low == -INF else _round(kind, low),
            high if high == INF else _round(kind, high),
        )

    def __str__(self) -> str:
        from pydisc.shape.expression import real_text

        return real_text(self)

    __repr__ = __str__

    # -- arithmetic ------------------------------------------------------------------------------
    def _apply(self, kind: str, *others: Real) -> Real:
        args = (self, *others)
        hint = _compute(kind, [a.hint for a in args])
        if all(a.kind == "const" for a in args):
            return self.cx.real(hint)
        return self.cx.real_node(kind, args, hint)

    def _lift(self, other: Any) -> Real:
        if type(other) is Real:
            return other
        if isinstance(other, int | float):
            return self.cx.real(float(other))
        return other.sym_float()

    def add(self, other: Any) -> Real:
        """self + other."""
        return self._apply("add", self._lift(other))

    def sub(self, other: Any) -> Real:
        """self - other."""
        return self._apply("sub", self._lift(other))

    def mul(self, other: Any) -> Real:
        """self * other."""
        return self._apply("mul", self._lift(other))

    def truediv(self, other: Any) -> Real:
        """self / other; 0 where other is 0."""
        return self._apply("truediv", self._lift(other))

    float_truediv = int_truediv = truediv

    def pow(self, other: Any) -> Real:
        """self ** other."""
        return self._apply("pow", self._lift(other))

    float_pow = pow

    def mod(self, other: Any) -> Real:
        """self % other, with the sign of other."""
        return self._apply("mod", self._lift(other))

    def floordiv(self, other: Any) -> Real:
        """self // other."""
        return self._apply("floordiv", self._lift(other))

    int_floordiv = floordiv

    def sym_max(self, other: Any) -> Real:
        """The greater of both."""
        return self._apply("max", self._lift(other))

    def sym_min(self, other: Any) -> Real:
        """The lesser of both."""
        return self._apply("min", self._lift(other))

    def neg(self) -> Real:
        """-self."""
        return self._apply("neg")

    def abs(self) -> Real:
        """The absolute value."""
        return self.sym_max(self.neg())

    def pos(self) -> Real:
        """Itself."""
        return self

    def sym_float(self) -> Real:
        """Itself."""
        return self

    def sym_sqrt(self) -> Real:
        """The square root."""
        return self._apply("sqrt")

    # -- back to integers ------------------------------------------------------------------------
    def _rounded(self, kind: str) -> Dim:
        constant = self.constant
        if constant is not None:
            return self.cx.node(_round(kind, constant))
        exact = self._as_ratio()
        if exact is not None:
            over, under = exact
            if kind == "floor" or (kind == "trunc" and over.lo >= 0 and under.lo >= 0):
                return over.floordiv(under)
            if kind == "ceil":
                return over.neg().floordiv(under).neg()
            if under.constant == 1:
                return over
        return self.cx.atom_dim(kind, (self,), _round(kind, self.hint))

    def _as_ratio(self) -> tuple[Dim, Dim] | None:
        """(p, q) if it is p / q of integers and a double holds it well enough to round the same.

        That is so for sizes below 2**43, which memory never exceeds.
        """
        if self.kind == "float":
            return self.args[0], self.cx.node(1)
        if self.kind == "truediv" and all(a.kind == "float" for a in self.args):
            return self.args[0].args[0], self.args[1].args[0]
        if self.kind not in ("mul", "truediv"):
            return None
        a, b = self.args
        if a.kind == "const" and self.kind == "mul":
            a, b = b, a
        if a.kind != "float" or b.kind != "const" or not math.isfinite(b.args[0]) or not b.args[0]:
            return None
        over, under = b.args[0].as_integer_ratio()
        if self.kind == "truediv":
            over, under = (under, over) if over > 0 else (-under, -over)
        if under > _EXACT_DENOMINATOR or abs(over) > _EXACT_DENOMINATOR:
            return None
        return a.args[0].mul(over), self.cx.node(under)

    def floor(self) -> Dim:
        """Rounded down."""
        return self._rounded("floor")

    def ceil(self) -> Dim:
        """Rounded up."""
        return self._rounded("ceil")

    def trunc(self) -> Dim:
        """Rounded towards 0."""
        return self._rounded("trunc")

    sym_int = trunc

    def round(self, ndigits: int | None = None) -> Any:
        """Rounded to the nearest integer, ties to even; to decimals only of a constant."""
        if ndigits is not None:
            return self.cx.real(round(self.guard_float(), ndigits))
        return self._rounded("round")

    def is_integer(self) -> Cond:
        """Whether it equals its floor."""
        return self.eq(self.floor().sym_float())

    # -- relations and guards --------------------------------------------------------------------
    def eq(self, other: Any) -> Cond:
        """self == other."""
        other = self._lift(other)
        a, b = (self, other) if self.id <= other.id else (other, self)
        return self.cx.cond("eq_real", (a, b))

    def ne(self, other: Any) -> Cond:
        """self != other."""
        return self.eq(other).sym_not()

    def lt(self, other: Any) -> Cond:
        """self < other."""
        return self.cx.cond("lt_real", (self, self._lift(other)))

    def le(self, other: Any) -> Cond:
        """self <= other."""
        return self.cx.cond("le_real", (self, self._lift(other)))

    def gt(self, other: Any) -> Cond:
        """self > other."""
        return self._lift(other).lt(self)

    def ge(self, other: Any) -> Cond:
        """self >= other."""
        return self._lift(other).le(self)

    def is_float(self) -> bool:
        """Yes."""
        return True

    def maybe_as_float(self) -> float | None:
        """The value if it is constant."""
        return self.constant

    def guard_float(self, file: str = "", line: int = 0) -> float:
        """The hint as a Python float: the program is specialised to it."""
        if self.constant is None:
            self.cx.guard(self.eq(self.hint), "specialize")
        return self.hint

    def guard_int(self, file: str = "", line: int = 0) -> int:
        """`guard_float`, truncated."""
        return int(self.guard_float())

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        """Whether it is not 0; guarded."""
        return self.ne(0.0).guard_bool()

    def bool_(self) -> bool:
        """`guard_bool`."""
        return self.guard_bool()


def _round(kind: str, value: float) -> int:
    return _ROUNDERS[kind](value) if math.isfinite(value) else 0
