"""Size arithmetic in generated code: the value of a Dim from the values of its symbols."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydisc.codegen.common.assembly_text import Text, Val
from pydisc.codegen.host.reals import emit_real, emit_rounding
from pydisc.shape import Atom, Cond, Dim, Real
from pydisc.support.errors import Unsupported

Size = int | Dim
_ROUNDINGS = frozenset({"floor", "ceil", "trunc", "round"})


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
        if atom.kind in _ROUNDINGS:
            return emit_rounding(t, atom.kind, self.real(atom.args[0]))
        args = [self.size(a) for a in atom.args]
        match atom.kind:
            case "floordiv":
                return self._floordiv(*args)
            case "max":
                return t.maximum(*args)
            case "min":
                return t.minimum(*args)
            case _:
                raise Unsupported(f"a size with {atom.kind}", "there is no code for it")

    def real(self, real: Real) -> Val:
        """The value of a symbolic float, as f64."""
        found = self.known.get(real)
        if found is None:
            found = self.known[real] = self._real(real)
        return found

    def _real(self, real: Real) -> Val:
        if real.kind == "const":
            return self.t.const(real.args[0], "f64")
        if real.kind == "ite":
            condition, x, y = real.args
            return self.t.select(self.condition(condition), self.real(x), self.real(y))
        if real.kind == "float":
            return emit_real(self.t, "float", [self.size(real.args[0])])
        return emit_real(self.t, real.kind, [self.real(a) for a in real.args])

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
            case "eq_real" | "lt_real" | "le_real":
                x, y = (self.real(a) for a in cond.args)
                return t.compare(cond.kind.removesuffix("_real"), x, y)
            case _:
                raise Unsupported(f"a condition with {cond.kind}", "there is no code for it")
