"""Symbolic sizes: polynomials with integer coefficients over atoms, one object per value.

A `Dim` is in a canonical form and hash-consed by its `ShapeContext`, so that `is` (and `==`, and
use as a dictionary key) compares sizes structurally. Python's operators take and return a `Size`:
a plain int wherever the result is constant.

Every Dim has a value for every assignment of integers to its symbols: **x // 0 is 0** and so
x % 0 is x. Sizes may be 0, so nothing is cancelled unless the divisor is known not to be 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydisc.shape import interval
from pydisc.shape.interval import Bound, Range
from pydisc.shape.sym_node import IntNode

if TYPE_CHECKING:
    from pydisc.shape.cond import Cond
    from pydisc.shape.context import ShapeContext

Monomial = tuple[int, ...]
"""Indices of atoms in ascending order, repeated for powers."""
Poly = tuple[tuple[Monomial, int], ...]


def leading_key(monomial: Monomial) -> tuple[int, Monomial]:
    """Graded order of monomials: compatible with multiplication, which exact division needs."""
    return len(monomial), monomial


class Atom:
    """What a Dim is a polynomial in.

    kind       name      args
    "sym"      its name  ()
    "floordiv"           (Dim, Dim)
    "max"                (Dim, Dim)
    "min"                (Dim, Dim)
    "ite"                (Cond, Dim, Dim)
    "floor", "ceil", "trunc", "round"   (Real,)
    """

    __slots__ = ("_range", "_version", "args", "cx", "declared", "hint", "index", "kind", "name")

    def __init__(
        self,
        cx: ShapeContext,
        kind: str,
        name: str,
        args: tuple[Any, ...],
        hint: int,
        declared: Range = interval.EVERYTHING,
    ) -> None:
        self.cx = cx
        self.kind = kind
        self.name = name
        self.args = args
        self.hint = hint
        self.index = len(cx.atoms)
        self.declared = declared
        """What was declared or learnt; the arguments may imply more."""
        self._range = declared
        self._version = -1

    @property
    def range(self) -> Range:
        """Least and greatest possible value."""
        if self._version != self.cx.version:
            low, high = self._implied()
            self._range = max(low, self.declared[0]), min(high, self.declared[1])
            self._version = self.cx.version
        return self._range

    def _implied(self) -> Range:
        match self.kind, self.args:
            case "floordiv", (a, b):
                return interval.floordiv(a.range, b.range)
            case "max", (a, b):
                return max(a.lo, b.lo), max(a.hi, b.hi)
            case "min", (a, b):
                return min(a.lo, b.lo), min(a.hi, b.hi)
            case "ite", (_, a, b):
                return interval.hull(a.range, b.range)
            case "floor" | "ceil" | "trunc" | "round", (x,):
                return x.integer_range(self.kind)
        return interval.EVERYTHING

    @property
    def lo(self) -> Bound:
        """Least possible value."""
        return self.range[0]

    @property
    def hi(self) -> Bound:
        """Greatest possible value."""
        return self.range[1]

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value where symbols have the values `env`."""
        if self.kind == "sym":
            return env[self.name]
        if self.kind == "ite":
            return (self.args[1] if self.args[0].evaluate(env) else self.args[2]).evaluate(env)
        if len(self.args) == 1:
            return self.args[0].round_to_int(self.kind, env)
        a, b = (x.evaluate(env) for x in self.args)
        if self.kind == "floordiv":
            return a // b if b else 0
        return max(a, b) if self.kind == "max" else min(a, b)

    def __repr__(self) -> str:
        from pydisc.shape.expression import atom_text

        return atom_text(self)


class Dim(IntNode):
    """A symbolic size. Made by `ShapeContext.symbol` and by arithmetic, never directly."""

    __slots__ = ("_range", "_terms", "_version", "constant", "cx", "hint", "id", "poly")

    def __init__(self, cx: ShapeContext, poly: Poly) -> None:
        self.cx = cx
        self.poly = poly
        self.id = len(cx.dims)
        self.constant: int | None = None
        if not poly:
            self.constant = 0
        elif len(poly) == 1 and not poly[0][0]:
            self.constant = poly[0][1]
        hint = 0
        for monomial, coefficient in poly:
            for index in monomial:
                coefficient *= cx.atoms[index].hint
            hint += coefficient
        self.hint = hint
        self._terms: tuple[tuple[tuple[Atom, ...], int], ...] | None = None
        self._range: Range = interval.EVERYTHING
        self._version = -1

    # -- what it is ----------------------------------------------------------------------------
    @property
    def terms(self) -> tuple[tuple[tuple[Atom, ...], int], ...]:
        """The polynomial: (atoms, coefficient) pairs; the constant has no atoms."""
        if self._terms is None:
            atoms = self.cx.atoms
            self._terms = tuple((tuple(atoms[i] for i in m), c) for m, c in self.poly)
        return self._terms

    @property
    def range(self) -> Range:
        """Least and greatest possible value, term by term; the solver may know more."""
        if self._version != self.cx.version:
            atoms = self.cx.atoms
            low: Bound = 0
            high: Bound = 0
            for monomial, coefficient in self.poly:
                span: Range = (coefficient, coefficient)
                for index in monomial:
                    span = interval.multiply(span, atoms[index].range)
                low += span[0]
                high += span[1]
            self._range = low, high
            self._version = self.cx.version
        return self._range

    @property
    def lo(self) -> Bound:
        """Least possible value, as far as intervals tell."""
        return self.range[0]

    @property
    def hi(self) -> Bound:
        """Greatest possible value, as far as intervals tell."""
        return self.range[1]

    @property
    def atom(self) -> Atom | None:
        """The atom, if the Dim is nothing but one."""
        if len(self.poly) == 1 and self.poly[0][1] == 1 and len(self.poly[0][0]) == 1:
            return self.cx.atoms[self.poly[0][0][0]]
        return None

    def symbols(self) -> set[str]:
        """Names of the symbols in it, those inside atoms included."""
        names: set[str] = set()
        for index in {i for m, _ in self.poly for i in m}:
            atom = self.cx.atoms[index]
            if atom.kind == "sym":
                names.add(atom.name)
            for arg in atom.args:
                names |= arg.symbols()
        return names

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value where symbols have the values `env`. x // 0 is 0."""
        atoms = self.cx.atoms
        total = 0
        values: dict[int, int] = {}
        for monomial, coefficient in self.poly:
            for index in monomial:
                value = values.get(index)
                if value is None:
                    value = values[index] = atoms[index].evaluate(env)
                coefficient *= value
            total += coefficient
        return total

    def __str__(self) -> str:
        from pydisc.shape.expression import dim_text

        return dim_text(self)

    __repr__ = __str__

    # -- arithmetic on nodes: Dim in, Dim out (the SymNode protocol calls these) -----------------
    def _lift(self, other: Any) -> Dim:
        if type(other) is Dim:
            return other
        if isinstance(other, int):
            return self.cx.node(other)
        inner = getattr(other, "node", None)  # a torch.SymInt
        if type(inner) is Dim:
            return inner
        raise TypeError(f"not a size: {other!r}")

    def add(self, other: Dim | int) -> Dim:
        """self + other."""
        other = self._lift(other)
        key = ("+", self.id, other.id)
        found = self.cx.memo.get(key)
        if found is None:
            out = dict(self.poly)
            for m, c in other.poly:
                out[m] = out.get(m, 0) + c
            found = self.cx.memo[key] = self.cx.from_terms(out)
        return found

    def sub(self, other: Dim | int) -> Dim:
        """self - other."""
        other = self._lift(other)
        key = ("-", self.id, other.id)
        found = self.cx.memo.get(key)
        if found is None:
            out = dict(self.poly)
            for m, c in other.poly:
                out[m] = out.get(m, 0) - c
            found = self.cx.memo[key] = self.cx.from_terms(out)
        return found

    def mul(self, other: Dim | int) -> Dim:
        """self * other."""
        other = self._lift(other)
        key = ("*", self.id, other.id)
        found = self.cx.memo.get(key)
        if found is None:
            out: dict[Monomial, int] = {}
            for m, c in self.poly:
                for m2, c2 in other.poly:
                    both = tuple(sorted(m + m2)) if m and m2 else (m or m2)
                    out[both] = out.get(both, 0) + c * c2
            found = self.cx.memo[key] = self.cx.from_terms(out)
        return found

    def neg(self) -> Dim:
        """-self."""
        return self.cx.from_terms({m: -c for m, c in self.poly})

    def floordiv(self, other: Dim | int) -> Dim:
        """self // other, rounded down; 0 where other is 0."""
        other = self._lift(other)
        key = ("//", self.id, other.id)
        found = self.cx.quotients.get(key)
        if found is None:
            from pydisc.shape.division import floordiv

            found = self.cx.quotients[key] = floordiv(self, other)
        return found

    def mod(self, other: Dim | int) -> Dim:
        """self - other * (self // other)."""
        other = self._lift(other)
        return self.sub(other.mul(self.floordiv(other)))

    def sym_max(self, other: Dim | int) -> Dim:
        """The greater of both."""
        return self._extreme(self._lift(other), "max")

    def sym_min(self, other: Dim | int) -> Dim:
        """The lesser of both."""
        return self._extreme(self._lift(other), "min")

    def _extreme(self, other: Dim, kind: str) -> Dim:
        greater, lesser = (self, other) if kind == "max" else (other, self)
        facts = self.cx.facts
        if facts.is_nonneg(greater.sub(lesser)):
            return self
        if facts.is_nonneg(lesser.sub(greater)):
            return other
        for one, two in ((self, other), (other, self)):
            atom = one.atom
            if atom is not None and atom.kind == kind and two in atom.args:
                return one
        for one, two in ((self, other), (other, self)):
            simpler = one._without_dominated(two, kind)
            if simpler is not None:
                return simpler._extreme(two, kind)
        a, b = (self, other) if self.id < other.id else (other, self)
        hint = max(a.hint, b.hint) if kind == "max" else min(a.hint, b.hint)
        return self.cx.atom_dim(kind, (a, b), hint)

    def _without_dominated(self, other: Dim, kind: str) -> Dim | None:
        """a + c, if this is max(a, b) + c with b + c <= `other`, under a maximum; min likewise."""
        parts = [(m, c) for m, c in self.poly if m]
        if len(parts) != 1 or len(parts[0][0]) != 1 or parts[0][1] != 1:
            return None
        atom = self.cx.atoms[parts[0][0][0]]
        if atom.kind != kind:
            return None
        shift = self.sub(self.cx.from_atom(atom))
        for kept, dropped in (atom.args, atom.args[::-1]):
            gap = other.sub(dropped).sub(shift)
            if self.cx.facts.is_nonneg(gap if kind == "max" else gap.neg()):
                return kept.add(shift)
        return None

    # -- relations: a Cond each ------------------------------------------------------------------
    def eq(self, other: Dim | int) -> Cond:
        """self == other."""
        return self.cx.is_zero(self.sub(other))

    def ne(self, other: Dim | int) -> Cond:
        """self != other."""
        return self.eq(other).sym_not()

    def ge(self, other: Dim | int) -> Cond:
        """self >= other."""
        return self.cx.is_nonneg(self.sub(other))

    def le(self, other: Dim | int) -> Cond:
        """self <= other."""
        return self._lift(other).ge(self)

    def gt(self, other: Dim | int) -> Cond:
        """self > other."""
        return self.ge(self._lift(other).add(1))

    def lt(self, other: Dim | int) -> Cond:
        """self < other."""
        return self._lift(other).gt(self)

    # -- Python's operators: Size in, Size out ---------------------------------------------------
    def _operand(self, other: Any) -> Dim | None:
        """The other operand as a Dim; None if it is not an integer, so that Python tries on."""
        try:
            return self._lift(other)
        except TypeError:
            return None

    def __add__(self, other: Any) -> Any:
        node = self._operand(other)
        return NotImplemented if node is None else unwrap(self.add(node))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        node = self._operand(other)
        return NotImplemented if node is None else unwrap(self.sub(node))

    def __rsub__(self, other: Any) -> Any:
        node = self._operand(other)
        return NotImplemented if node is None else unwrap(node.sub(self))

    def __mul__(self, other: Any) -> Any:
        node = self._operand(other)
        return NotImplemented if node is None else unwrap(self.mul(node))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        node = self._operand(other)
        return NotImplemented if node is None else unwrap(self.floordiv(node))

    def __rfloordiv__(self, other: Any) -> Any:
        node = self._operand(other)
        return NotImplemented if node is None else unwrap(node.floordiv(self))

    def __mod__(self, other: Any) -> Any:
        node = self._operand(other)
        return NotImplemented if node is None else unwrap(self.mod(node))

    def __rmod__(self, other: Any) -> Any:
        node = self._operand(other)
        return NotImplemented if node is None else unwrap(node.mod(self))

    def __neg__(self) -> Any:
        return unwrap(self.neg())


Size = Dim | int
"""An int where static, a Dim where symbolic."""


def unwrap(dim: Dim) -> Size:
    """The Size of a node: an int if it is constant."""
    return dim if dim.constant is None else dim.constant
