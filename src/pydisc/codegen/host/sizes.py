"""Size arithmetic in generated code: the value of a Dim from the values of its symbols."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydisc.codegen.common.assembly_text import Text, Val
from pydisc.shape import Atom, Cond, Dim
from pydisc.support.errors import InternalError

Size = int | Dim


@dataclass
class SizeEmitter:
    """Emits i64 arithmetic; every size once. `symbols` gives the values of symbols by name."""

    t: Text
    symbols: Mapping[str, Val]
    known: dict[object, Val] = field(default_factory=dict)

    def size(self, size: Size) -> Val:
        """The value of a size."""
        if isinstance(size, int):
            return self.t.const(size)
        found = self.known.get(size)
        if found is None:
            found = self.known[size] = self._polynomial(size)
        return found

    def _polynomial(self, dim: Dim) -> Val:
        t = self.t
        total: Val | None = None
        for monomial, coefficient in dim.terms:
            term: Val | None = None
            for atom in monomial:
                value = self.atom(atom)
                term = value if term is None else t.mul(term, value)
            if term is None:
                term = t.const(coefficient)
            elif coefficient != 1:
                term = t.mul(term, t.const(coefficient))
            total = term if total is None else t.add(total, term)
        return total if total is not None else t.const(0)

    def atom(self, atom: Atom) -> Val:
        """The value of an atom of a polynomial."""
        found = self.known.get(atom)
        if found is None:
            found = self.known[atom] = self._atom(atom)
        return found

    def _atom(self, atom: Atom) -> Val:
        t = self.t
        if atom.kind == "sym":
            return self.symbols[atom.name]
        if atom.kind == "ite":
            condition, x, y = atom.args
            return t.select(self.condition(condition), self.size(x), self.size(y))
        args = [self.size(a) for a in atom.args]
        match atom.kind:
            case "floordiv":
                return self._floordiv(*args)
            case "max":
                return t.maximum(*args)
            case "min":
                return t.minimum(*args)
            case _:
                raise InternalError(f"no code for a size with {atom.kind}")

    def _floordiv(self, x: Val, y: Val) -> Val:
        """floor(x / y); 0 for y == 0, as `Dim.evaluate` has it."""
        t = self.t
        zero = t.const(0)
        bad = t.compare("eq", y, zero)
        y = t.select(bad, t.const(1), y)
        quotient = t.div(x, y)
        remainder = t.sub(x, t.mul(quotient, y))
        opposite = t.compare("lt", t.xor(x, y), zero)
        down = t.and_(opposite, t.compare("ne", remainder, zero))
        floor = t.sub(quotient, t.cast("extui", down, "i64"))
        return t.select(bad, zero, floor)

    def condition(self, cond: Cond) -> Val:
        """The value of a condition, as i1."""
        t = self.t
        match cond.kind:
            case "const":
                return t.const(bool(cond.args[0]), "i1")
            case "eq":
                return t.compare("eq", self.size(cond.args[0]), t.const(0))
            case "ge":
                return t.compare("ge", self.size(cond.args[0]), t.const(0))
            case "and":
                return t.and_(self.condition(cond.args[0]), self.condition(cond.args[1]))
            case "or":
                return t.or_(self.condition(cond.args[0]), self.condition(cond.args[1]))
            case "not":
                return t.xor(self.condition(cond.args[0]), t.const(True, "i1"))
            case _:
                raise InternalError(f"no code for a condition with {cond.kind}")
