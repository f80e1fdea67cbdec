"""The home of the sizes of one program: its symbols, hash-consed nodes, facts and guards."""

from collections.abc import Callable, Iterable
from math import gcd
from typing import Any

from pydisc.shape.cond import Cond, Guard
from pydisc.shape.dim import Atom, Dim, Monomial, Poly, Size, unwrap
from pydisc.shape.division import common_monomial, divide_by_monomial, without
from pydisc.shape.interval import EVERYTHING, INF, Bound
from pydisc.shape.real import Real
from pydisc.shape.solver import Facts
from pydisc.support.source import SourceLine, current_source_line

RESERVED = frozenset("max min ite floor ceil trunc round float sqrt and or not True False".split())
"""Words of the expression language, which no symbol may have as its name."""


class ShapeContext:
    """Makes and keeps Dims, Conds and Reals; two contexts' nodes must not be mixed."""

    def __init__(self) -> None:
        self.symbols: dict[str, Dim] = {}
        """The symbols by name, in order of creation."""
        self.guards: list[Guard] = []
        """What the program was specialised to, in order. Each is simplified by those before it."""
        self.eager_bool = True
        """True outside dispatch: torch makes a plain bool of every comparison, with a guard."""
        self.on_guard_source: Callable[[], SourceLine] = current_source_line
        """Says where a guard comes from."""
        self.shape_env: Any = None
        """What nodes return as their `shape_env`; injected by the frontend."""
        self.version = 0
        """Raised when an atom's range is narrowed; ranges are cached by it."""
        self.atoms: list[Atom] = []
        self.dims: dict[Poly, Dim] = {}
        self.conds: dict[tuple[str, tuple[Any, ...]], Cond] = {}
        self.reals: dict[tuple[Any, ...], Real] = {}
        self.memo: dict[tuple[str, int, int], Dim] = {}
        self.quotients: dict[tuple[str, int, int], Dim] = {}
        self._atoms: dict[tuple[str, str, tuple[Any, ...]], Atom] = {}
        self._indicators: dict[int, Monomial] = {}
        """By the index of each atom min(x, 1), where x >= 0 is one monomial: that monomial."""
        self.facts = Facts(self)

    # -- sizes -----------------------------------------------------------------------------------
    def symbol(self, name: str, hint: int, lo: int = 0, hi: Bound = INF) -> Dim:
        """A new symbol, or the one of that name. The hint is the size at which the trace runs."""
        found = self.symbols.get(name)
        if found is not None:
            return found
        if not name.isidentifier() or name in RESERVED:
            raise ValueError(f"not a name for a symbolic size: {name!r}")
        if not lo <= hint <= hi:
            raise ValueError(f"size {hint} of symbol {name} is outside its range [{lo}, {hi}]")
        atom = Atom(self, "sym", name, (), hint, (lo, hi))
        self.atoms.append(atom)
        self._atoms[("sym", name, ())] = atom
        found = self.symbols[name] = self.from_atom(atom)
        return found

    def const(self, value: int) -> int:
        """A static size: the int itself."""
        return value

    def node(self, value: int) -> Dim:
        """A constant as a Dim, which only the SymNode protocol needs."""
        return self._intern((((), value),) if value else ())

    def dim(self, size: Size) -> Dim:
        """A Size as a Dim."""
        return size if isinstance(size, Dim) else self.node(size)

    def from_atom(self, atom: Atom) -> Dim:
        """The Dim that is one atom."""
        return self._intern((((atom.index,), 1),))

    def atom_dim(self, kind: str, args: tuple[Any, ...], hint: int) -> Dim:
        """The Dim that is the atom of this kind and arguments."""
        key = (kind, "", args)
        atom = self._atoms.get(key)
        if atom is None:
            atom = Atom(self, kind, "", args, hint, EVERYTHING)
            self.atoms.append(atom)
            self._atoms[key] = atom
            base = _counted_once(atom)
            if base:
                self._indicators[atom.index] = base
        return self.from_atom(atom)

    def from_terms(self, terms: dict[Monomial, int]) -> Dim:
        """The polynomial with these coefficients."""
        if self._indicators:
            terms = self._without_indicators(terms)
        return self._intern(tuple(sorted((m, c) for m, c in terms.items() if c)))

    def _without_indicators(self, terms: dict[Monomial, int]) -> dict[Monomial, int]:
        """min(x, 1) * x is x, and its square is itself, for x >= 0."""
        out: dict[Monomial, int] = {}
        for monomial, coefficient in terms.items():
            for index in set(monomial) & self._indicators.keys():
                base = self._indicators[index]
                while index in monomial and (
                    monomial.count(index) > 1 or without(monomial, base) is not None
                ):
                    at = monomial.index(index)
                    monomial = (*monomial[:at], *monomial[at + 1 :])
            out[monomial] = out.get(monomial, 0) + coefficient
        return out

    def _intern(self, poly: Poly) -> Dim:
        found = self.dims.get(poly)
        if found is None:
            found = Dim(self, poly)
            self.dims[poly] = found
        return found

    # -- floats ----------------------------------------------------------------------------------
    def real(self, value: float) -> Real:
        """A constant float."""
        key = ("const", repr(value))
        found = self.reals.get(key)
        if found is None:
            found = self.reals[key] = Real(self, "const", (value,), value)
        return found

    def real_of(self, dim: Dim) -> Real:
        """A size as a float."""
        if dim.constant is not None:
            return self.real(float(dim.constant))
        return self.real_node("float", (dim,), float(dim.hint))

    def real_node(self, kind: str, args: tuple[Any, ...], hint: float) -> Real:
        """The Real of this kind and arguments."""
        key = (kind, *args)
        found = self.reals.get(key)
        if found is None:
            found = self.reals[key] = Real(self, kind, args, hint)
        return found

    # -- conditions ------------------------------------------------------------------------------
    def boolean(self, value: bool) -> Cond:
        """A constant condition."""
        return self.cond("const", (bool(value),))

    def cond(self, kind: str, args: tuple[Any, ...]) -> Cond:
        """The Cond of this kind and arguments, as they are."""
        key = (kind, args)
        found = self.conds.get(key)
        if found is None:
            found = self.conds[key] = Cond(self, kind, args)
        return found

    def is_zero(self, dim: Dim) -> Cond:
        """dim == 0, in canonical form: no common factor, the last coefficient positive."""
        if dim.constant is not None:
            return self.boolean(dim.constant == 0)
        dim = self._without_common_atoms(dim)
        if dim.constant is not None:
            return self.boolean(False)
        content = content_of(dim.poly)
        if dim.poly[-1][1] < 0:
            content = -content
        if content != 1:
            dim = self.from_terms({m: c // content for m, c in dim.poly})
        simpler = self._is_extreme(dim)
        return self.cond("eq", (dim,)) if simpler is None else simpler

    def _is_extreme(self, dim: Dim) -> Cond | None:
        """For dim == 0 that says max(a, b) == a: that a >= b; min likewise. Else None."""
        for monomial, coefficient in dim.poly:
            atom = self.atoms[monomial[0]] if len(monomial) == 1 else None
            if atom is None or atom.kind not in ("max", "min") or abs(coefficient) != 1:
                continue
            rest = self.from_atom(atom).sub(dim if coefficient == 1 else dim.neg())
            if rest in atom.args:
                other = atom.args[0 if rest is atom.args[1] else 1]
                return self.is_nonneg(rest.sub(other) if atom.kind == "max" else other.sub(rest))
        return None

    def is_nonneg(self, dim: Dim) -> Cond:
        """dim >= 0, in canonical form: coefficients divided, the constant rounded down."""
        if dim.constant is not None:
            return self.boolean(dim.constant >= 0)
        dim = self._without_common_atoms(dim)
        if dim.constant is not None:
            return self.boolean(dim.constant >= 0)
        content = content_of(t for t in dim.poly if t[0])
        if content != 1:  # the constant may vanish, and leave a common factor
            return self.is_nonneg(self.from_terms({m: c // content for m, c in dim.poly}))
        return self.cond("ge", (dim,))

    def _without_common_atoms(self, dim: Dim) -> Dim:
        common = tuple(i for i in common_monomial(dim) if self.atoms[i].lo >= 1)
        return divide_by_monomial(dim, common) if common else dim

    # -- facts and guards ------------------------------------------------------------------------
    def assume(self, cond: Cond | bool, value: bool = True) -> None:
        """Learn that a condition holds (with value=False: does not), without recording a guard.

        Raises ValueError if the contrary is known.
        """
        if isinstance(cond, bool):
            if cond is not value:
                raise ValueError("a condition that is false cannot be assumed")
            return
        answer = cond.decide()
        if answer is not None:
            if answer is not value:
                raise ValueError(f"cannot assume that '{cond}' is {value}: the contrary is known")
            return
        self.facts.learn(cond if value else cond.sym_not())

    def guard(self, cond: Cond, kind: str) -> bool:
        """The value of a condition: decided, or its hint with a guard (and the fact learnt)."""
        answer = cond.decide()
        if answer is not None:
            return answer
        value = cond.hint
        if cond.kind == ("and" if value else "or"):
            for part in cond.args:
                self.guard(part, kind)
            return value
        self.guards.append(Guard(cond, value, kind, self.on_guard_source()))
        self.facts.learn(cond if value else cond.sym_not())
        return value

    def unwrap(self, dim: Dim) -> Size:
        """The Size of a node."""
        return unwrap(dim)


def _counted_once(atom: Atom) -> Monomial:
    """The x of min(x, 1), if it is one monomial that is never negative; else nothing."""
    if atom.kind == "min":
        for x, one in (atom.args, atom.args[::-1]):
            if one.constant == 1 and len(x.poly) == 1 and x.poly[0][1] == 1 and x.lo >= 0:
                return x.poly[0][0]
    return ()


def content_of(poly: Iterable[tuple[Monomial, int]]) -> int:
    """The greatest common divisor of coefficients."""
    out = 0
    for _, coefficient in poly:
        out = gcd(out, coefficient)
    return out or 1
