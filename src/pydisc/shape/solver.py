"""What is known of sizes: decides conditions from ranges and from facts learnt so far.

All answers are proofs. `None` means "not known", never "probably not". The methods, cheap first:

- intervals of the polynomial;
- reduction by the equalities learnt (s0 == 8*s1, b*s == t, ...);
- a factor that is never negative taken out of all terms;
- the polynomial written about the lower bounds of its symbols: all coefficients non-negative;
- a learnt inequality subtracted;
- the defining inequalities of `//`, `max`, `min` and `ite` put in.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from pydisc.shape.cond import Cond
from pydisc.shape.dim import Atom, Dim, Monomial, leading_key
from pydisc.shape.division import common_monomial, divide_by_monomial, without
from pydisc.shape.interval import INF

if TYPE_CHECKING:
    from pydisc.shape.context import ShapeContext

_DEPTH = 3
_REDUCTIONS = 32
_EXPANDED_TERMS = 64


class _Rule(NamedTuple):
    """An equality `zero == 0`, used by cancelling the monomial `lead` against it."""

    lead: Monomial
    coefficient: int
    zero: Dim


class Facts:
    """The facts of a context, and the decisions that follow from them."""

    def __init__(self, cx: ShapeContext) -> None:
        self.cx = cx
        self.learnt: list[Cond] = []
        """Every condition learnt, in order."""
        self.version = 0
        """Raised by every fact; decisions that were open are taken again."""
        self.divisors: dict[str, int] = {}
        """Symbols known to be multiples of a constant."""
        self._holds: dict[Cond, bool] = {}
        self._rules: list[_Rule] = []
        self._nonneg: list[Dim] = []
        self._nonzero: list[Dim] = []

    # -- learning ---------------------------------------------------------------------------------
    def learn(self, cond: Cond) -> None:
        """Take a condition for true."""
        if cond.kind == "and":
            for part in cond.args:
                self.learn(part)
            return
        if cond.kind == "const" or self._holds.get(cond):
            return
        self.learnt.append(cond)
        self._holds[cond] = True
        self._holds[cond.sym_not()] = False
        match cond.kind:
            case "eq":
                self._learn_zero(cond.args[0])
            case "ge":
                self._learn_nonneg(cond.args[0])
            case "not" if cond.args[0].kind == "eq":
                self._nonzero.append(cond.args[0].args[0])
        self._step_off_zero()
        self.version += 1
        self.cx.quotients.clear()

    def _learn_nonneg(self, dim: Dim) -> None:
        parts = [(m, c) for m, c in dim.poly if m]
        constant = sum(c for m, c in dim.poly if not m)
        if len(parts) == 1:
            (monomial, coefficient) = parts[0]
            atoms = [self.cx.atoms[i] for i in monomial]
            if len(atoms) == 1:
                if coefficient > 0:
                    self._narrow(atoms[0], lo=-(constant // coefficient))
                else:
                    self._narrow(atoms[0], hi=constant // -coefficient)
                return
            if coefficient > 0 and constant < 0 and all(a.lo >= 0 for a in atoms):
                for atom in atoms:
                    self._narrow(atom, lo=1)
        self._nonneg.append(dim)

    def _learn_zero(self, dim: Dim) -> None:
        dim = self.reduce(dim)
        parts = [(m, c) for m, c in dim.poly if m]
        if not parts:
            return
        if len(parts) == 1 and len(parts[0][0]) == 1:
            value, rest = divmod(-(dim.poly[0][1] if len(dim.poly) == 2 else 0), parts[0][1])
            if not rest:
                self._narrow(self.cx.atoms[parts[0][0][0]], lo=value, hi=value)
        self._learn_divisor(dim)
        lead, coefficient = self._lead(parts)
        self._rules.append(_Rule(lead, coefficient, dim))

    def _lead(self, parts: list[tuple[Monomial, int]]) -> tuple[Monomial, int]:
        """What to eliminate: a symbol of its own with coefficient 1, else the leading monomial."""
        for monomial, coefficient in reversed(parts):
            if len(monomial) == 1 and abs(coefficient) == 1:
                index = monomial[0]
                is_symbol = self.cx.atoms[index].kind == "sym"
                if is_symbol and sum(index in m for m, _ in parts) == 1:
                    return monomial, coefficient
        return max(parts, key=lambda term: leading_key(term[0]))

    def _learn_divisor(self, dim: Dim) -> None:
        """s - n * (s // n) == 0 says that n divides s."""
        if len(dim.poly) != 2 or any(len(m) != 1 for m, _ in dim.poly):
            return
        for (m1, c1), (m2, c2) in (dim.poly, dim.poly[::-1]):
            symbol, quotient = self.cx.atoms[m1[0]], self.cx.atoms[m2[0]]
            if symbol.kind == "sym" and quotient.kind == "floordiv" and abs(c1) == 1:
                over, under = quotient.args
                if over.atom is symbol and under.constant == -c2 * c1:
                    old = self.divisors.get(symbol.name, 1)
                    self.divisors[symbol.name] = old * under.constant // gcd(old, under.constant)

    def _narrow(self, atom: Atom, lo: float = -INF, hi: float = INF) -> None:
        low, high = atom.declared
        narrowed = max(low, lo), min(high, hi)
        if narrowed != atom.declared:
            atom.declared = narrowed  # pyright: ignore[reportAttributeAccessIssue]
            self.cx.version += 1

    def _step_off_zero(self) -> None:
        """x != 0 and x >= 0 is x >= 1."""
        moved = True
        while moved:
            moved = False
            for dim in list(self._nonzero):
                if dim.lo == 0 or dim.hi == 0:
                    self._nonzero.remove(dim)
                    self._learn_nonneg(dim.sub(1) if dim.lo == 0 else dim.neg().sub(1))
                    moved = True

    # -- deciding ---------------------------------------------------------------------------------
    def decide(self, cond: Cond) -> bool | None:
        """Whether a condition holds always (True), never (False), or it is not known."""
        found = self._holds.get(cond)
        if found is not None:
            return found
        match cond.kind:
            case "const":
                return cond.args[0]
            case "eq":
                return self.is_zero(cond.args[0])
            case "ge":
                if self.is_nonneg(cond.args[0]):
                    return True
                return False if self.is_nonneg(cond.args[0].neg().sub(1)) else None
            case "not":
                inner = cond.args[0].decide()
                return None if inner is None else not inner
            case "and" | "or":
                decisive = cond.kind == "or"
                answers = [a.decide() for a in cond.args]
                if decisive in answers:
                    return decisive
                if None not in answers:
                    return not decisive
                return decisive if self._settle_together(cond) else None
        return _decide_real(cond)

    def _settle_together(self, cond: Cond) -> bool:
        """Whether two inequalities leave nothing between them (or), or nothing in common (and)."""
        a, b = cond.args
        if a.kind != "ge" or b.kind != "ge":
            return False
        total = a.args[0].add(b.args[0])  # a >= 0 fails where -a - 1 >= 0
        return self.is_nonneg(total.add(1) if cond.kind == "or" else total.neg().sub(1))

    def is_zero(self, dim: Dim) -> bool | None:
        """Whether dim == 0 always, never, or it is not known."""
        if dim.constant is not None:
            return dim.constant == 0
        if dim.lo > 0 or dim.hi < 0:
            return False
        if dim.lo == 0 == dim.hi:
            return True
        dim = self.reduce(dim)
        if dim.constant is not None:
            return dim.constant == 0
        step = 0
        constant = 0
        for monomial, coefficient in dim.poly:
            if monomial:
                step = gcd(step, coefficient)
            else:
                constant = coefficient
        if constant % step:
            return False
        if self.is_nonneg(dim.sub(1)) or self.is_nonneg(dim.neg().sub(1)):
            return False
        if not self._nonneg and all(self.cx.atoms[i].kind == "sym" for m, _ in dim.poly for i in m):
            return None  # a polynomial that is not 0, and nothing that binds its symbols
        return True if self.is_nonneg(dim) and self.is_nonneg(dim.neg()) else None

    def is_nonneg(self, dim: Dim) -> bool:
        """Whether dim >= 0 is known."""
        if dim.constant is not None or dim.lo >= 0:
            return dim.lo >= 0
        if dim.hi < 0:
            return False
        return self._prove(self.reduce(dim), _DEPTH)

    def _prove(self, dim: Dim, depth: int) -> bool:
        if dim.lo >= 0:
            return True
        if dim.hi < 0:
            return False
        common = tuple(i for i in common_monomial(dim) if self.cx.atoms[i].lo >= 0)
        if common and self._prove(divide_by_monomial(dim, common), depth):
            return True
        if self._least_about_bounds(dim) >= 0:
            return True
        if any(dim.sub(fact).lo >= 0 for fact in self._nonneg):
            return True
        return depth > 0 and self._prove_by_atoms(dim, depth - 1)

    def _least_about_bounds(self, dim: Dim) -> float:
        """A lower bound: each atom is its bound plus something that is not negative."""
        if all(len(m) < 2 for m, _ in dim.poly):
            return dim.lo
        expanded: dict[Monomial, int] = {}
        for monomial, coefficient in dim.poly:
            parts: dict[Monomial, int] = {(): coefficient}
            for index in monomial:
                low = self.cx.atoms[index].lo
                if low == -INF or len(parts) > _EXPANDED_TERMS:
                    return -INF
                grown: dict[Monomial, int] = {}
                for m, c in parts.items():
                    key = tuple(sorted((*m, index)))
                    grown[key] = grown.get(key, 0) + c
                    grown[m] = grown.get(m, 0) + c * int(low)
                parts = grown
            for m, c in parts.items():
                expanded[m] = expanded.get(m, 0) + c
        constant = expanded.pop((), 0)
        return constant if all(c >= 0 for c in expanded.values()) else -INF

    # -- what atoms imply -------------------------------------------------------------------------
    def _prove_by_atoms(self, dim: Dim, depth: int) -> bool:
        seen: set[int] = set()
        for monomial, _ in dim.poly:
            for index in monomial:
                atom = self.cx.atoms[index]
                if index in seen or atom.kind not in ("floordiv", "max", "min", "ite"):
                    continue
                seen.add(index)
                if atom.kind == "floordiv":
                    if self._prove_by_quotient(dim, atom, depth):
                        return True
                elif self._prove_by_cases(dim, atom, depth):
                    return True
        return False

    def _signs(self, dim: Dim, atom: Atom) -> list[int] | None:
        """Signs of what the atom is multiplied by, term by term; None if unknown or not linear."""
        signs: list[int] = []
        for monomial, coefficient in dim.poly:
            rest = without(monomial, (atom.index,))
            if rest is not None:
                if atom.index in rest or any(self.cx.atoms[i].lo < 0 for i in rest):
                    return None
                signs.append(1 if coefficient > 0 else -1)
        return signs

    def _substitute(self, dim: Dim, atom: Atom, up: Dim, down: Dim, scale: Dim) -> Dim:
        """scale * dim; for scale * atom, positive terms get `down` and negative ones `up`."""
        out = self.cx.node(0)
        for monomial, coefficient in dim.poly:
            rest = without(monomial, (atom.index,))
            factor = scale if rest is None else down if coefficient > 0 else up
            left = self.cx.from_terms({monomial if rest is None else rest: coefficient})
            out = out.add(left.mul(factor))
        return out

    def _prove_by_quotient(self, dim: Dim, atom: Atom, depth: int) -> bool:
        """a - b + 1 <= b * (a // b) <= a, for b >= 1."""
        over, under = atom.args
        if under.lo < 1 or self._signs(dim, atom) is None:
            return False
        scaled = self._substitute(dim, atom, over, over.sub(under).add(1), under)
        return self._prove(self.reduce(scaled), depth)

    def _prove_by_cases(self, dim: Dim, atom: Atom, depth: int) -> bool:
        """The atom is one of its two arguments; a max (min) is at least (at most) either."""
        one = self.cx.node(1)
        cases = [self._substitute(dim, atom, x, x, one) for x in atom.args[-2:]]
        signs = self._signs(dim, atom)
        easy = {"max": 1, "min": -1}.get(atom.kind)
        either = signs is not None and easy is not None and all(s == easy for s in signs)
        proofs = (self._prove(self.reduce(case), depth) for case in cases)
        if either:
            return any(proofs)
        if any(atom.index in m for case in cases for m, _ in case.poly):
            return False
        if easy is None:
            return all(proofs)
        return all(
            self._prove_where(case, x.sub(y) if atom.kind == "max" else y.sub(x), depth)
            for case, (x, y) in zip(cases, (atom.args, atom.args[::-1]), strict=True)
        )

    def _prove_where(self, dim: Dim, assumed: Dim, depth: int) -> bool:
        """Whether dim >= 0 wherever `assumed` >= 0."""
        self._nonneg.append(assumed)
        try:
            return self._prove(self.reduce(dim), depth)
        finally:
            self._nonneg.pop()

    # -- equalities -------------------------------------------------------------------------------
    def reduce(self, dim: Dim) -> Dim:
        """The same value with the learnt equalities put in."""
        if not self._rules:
            return dim
        for _ in range(_REDUCTIONS):
            smaller = self._reduce_once(dim)
            if smaller is None:
                break
            dim = smaller
        return dim

    def _reduce_once(self, dim: Dim) -> Dim | None:
        for rule in self._rules:
            for monomial, coefficient in dim.poly:
                part = without(monomial, rule.lead)
                if part is not None and coefficient % rule.coefficient == 0:
                    times = self.cx.from_terms({part: coefficient // rule.coefficient})
                    return dim.sub(times.mul(rule.zero))
        return None


def _decide_real(cond: Cond) -> bool | None:
    a, b = cond.args
    if a.kind == "const" and b.kind == "const":
        return cond.hint
    (a_low, a_high), (b_low, b_high) = a.range, b.range
    match cond.kind:
        case "eq_real":
            return False if a_high < b_low or b_high < a_low else None
        case "lt_real":
            return True if a_high < b_low else False if a_low >= b_high else None
        case _:
            return True if a_high <= b_low else False if a_low > b_high else None
