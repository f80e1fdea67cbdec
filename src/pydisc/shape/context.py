"""The home of the sizes of one program: its symbols, hash-consed nodes, facts and guards."""

from collections.abc import Callable, Iterable
from math import gcd
from typing import Any

from pydisc.shape.cond import Cond, Guard
from pydisc.shape.dim import Atom, Dim, Monomial, Poly, Size, unwrap
from pydisc.shape.division import common_monomial, divide_by_monomial
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
        return self.from_atom(atom)

    def from_terms(self, terms: dict[Monomial, int]) -> Dim:
        """The polynomial with these coefficients."""
        return self._intern(tuple(sorted((m, c) for m, c in terms.items() if c)))

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
        return self.cond("eq", (dim,))

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


def content_of(poly: Iterable[tuple[Monomial, int]]) -> int:
    """The greatest common divisor of coefficients."""
    out = 0
    for _, coefficient in poly:
        out = gcd(out, coefficient)
    return out or 1
