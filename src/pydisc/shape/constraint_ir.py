"""The Shape Constraint IR: symbols and facts, written into a module and read back.

Specification: docs/spec/shape_constraint_ir.md.
"""

from collections.abc import Callable, Iterator, Sequence

from torch_mlir.ir import (
    AffineAddExpr,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineFloorDivExpr,
    AffineMap,
    AffineMapAttr,
    AffineModExpr,
    AffineMulExpr,
    ArrayAttr,
    Attribute,
    Block,
    FlatSymbolRefAttr,
    FunctionType,
    IndexType,
    InsertionPoint,
    IntegerAttr,
    IntegerType,
    Module,
    Operation,
    StringAttr,
    TypeAttr,
    Value,
)

from pydisc.ir.dialects import (
    DimOp,
    SymbolicDimOp,
    TiePredicateAffineEqOp,
    TiePredicateDivisibleOp,
    TiePredicateEqOp,
    TiePredicateLtOp,
    TiePredicateMulEqOp,
)
from pydisc.shape.cond import Cond
from pydisc.shape.context import ShapeContext
from pydisc.shape.dim import Dim, Monomial, Size, unwrap
from pydisc.shape.expression import parse_cond, parse_dim
from pydisc.shape.interval import INF
from pydisc.shape.questions import product
from pydisc.support.errors import InternalError

GRAPH = "shape_constraint_graph"
"""The function that holds the facts."""
_I64_MAX = 2**63 - 1


class SymbolTable:
    """Names of symbolic sizes in a module: symbols have their own, derived sizes get D0, D1, ..."""

    def __init__(self, cx: ShapeContext) -> None:
        self.cx = cx
        self._names: dict[Dim, str] = {}
        self._derived: dict[str, Dim] = {}

    def name_of(self, dim: Dim) -> str:
        """The symbol that stands for a Dim in types; made up at the first call, and kept."""
        atom = dim.atom
        if atom is not None and atom.kind == "sym":
            return atom.name
        found = self._names.get(dim)
        if found is None:
            number = len(self._derived)
            while (found := f"D{number}") in self._derived or found in self.cx.symbols:
                number += 1
            self._bind(found, dim)
        return found

    def _bind(self, name: str, dim: Dim) -> None:
        self._names.setdefault(dim, name)
        self._derived[name] = dim

    def dim_of(self, name: str) -> Dim:
        """The Dim of a symbol of the module. Raises KeyError if there is none."""
        found = self._derived.get(name)
        return self.cx.symbols[name] if found is None else found

    def __contains__(self, name: str) -> bool:
        return name in self._derived or name in self.cx.symbols

    def __iter__(self) -> Iterator[str]:
        """Names: the symbols, then the derived sizes."""
        yield from self.cx.symbols
        yield from self._derived

    @property
    def derived(self) -> dict[str, Dim]:
        """The derived sizes by name."""
        return dict(self._derived)

    # -- writing -----------------------------------------------------------------------------------
    def write(self, module: Module) -> None:
        """Put the symbols and facts at the top of a module, in place of those it has."""
        for op in list(module.body.operations):
            if op.operation.name == "disc_shape.symbolic_dim" or _is_graph(op.operation):
                op.operation.erase()
        with module.context, module.operation.location, InsertionPoint.at_block_begin(module.body):
            anchor = SymbolicDimOp(StringAttr.get(""))
        with module.context, module.operation.location:
            _GraphWriter(self, InsertionPoint(anchor.operation)).write()
            with InsertionPoint(anchor.operation):
                for name in self:
                    self._write_symbol(name)
            anchor.operation.erase()
            _move_graph_after_symbols(module)

    def _write_symbol(self, name: str) -> None:
        dim = self.dim_of(name)
        i64 = IntegerType.get_signless(64)
        op = SymbolicDimOp(StringAttr.get(name))
        if dim.lo != -INF:
            op.attributes["min"] = IntegerAttr.get(i64, min(int(dim.lo), _I64_MAX))
        if dim.hi <= _I64_MAX:
            op.attributes["max"] = IntegerAttr.get(i64, int(dim.hi))
        if name in self._derived:
            op.attributes["expr"] = StringAttr.get(str(dim))
            return
        divisor = self.cx.facts.divisors.get(name)
        if divisor is not None:
            op.attributes["divisor"] = IntegerAttr.get(i64, divisor)
        op.attributes["likely_values"] = ArrayAttr.get([IntegerAttr.get(i64, dim.hint)])

    # -- reading -----------------------------------------------------------------------------------
    @classmethod
    def read(cls, module: Module) -> "SymbolTable":
        """The table of a module, in a fresh ShapeContext that has learnt the module's facts."""
        table = cls(ShapeContext())
        ops = [op.operation for op in module.body.operations]
        symbols = [op for op in ops if op.name == "disc_shape.symbolic_dim"]
        for op in symbols:
            if "expr" not in op.attributes:
                table._read_symbol(op)
        for op in symbols:
            if "expr" in op.attributes:
                text = StringAttr(op.attributes["expr"]).value
                size = parse_dim(table.cx, text)
                table._bind(StringAttr(op.attributes["sym_name"]).value, table.cx.dim(size))
        for op in symbols:
            divisor = int(_integer(op, "divisor", 1))
            if divisor != 1:
                dim = table.dim_of(StringAttr(op.attributes["sym_name"]).value)
                _learn(dim.mod(divisor).eq(0))
        for op in ops:
            if _is_graph(op):
                _GraphReader(table).read(op)
        return table

    def _read_symbol(self, op: Operation) -> None:
        low = _integer(op, "min", 0)
        high = _integer(op, "max", INF)
        hint = min(max(low, 2), high)
        if "likely_values" in op.attributes:
            values = ArrayAttr(op.attributes["likely_values"])
            if len(values):
                hint = min(max(IntegerAttr(values[0]).value, low), high)
        self.cx.symbol(StringAttr(op.attributes["sym_name"]).value, int(hint), int(low), high)


def _integer(op: Operation, name: str, default: float) -> float:
    return IntegerAttr(op.attributes[name]).value if name in op.attributes else default


def _is_graph(op: Operation) -> bool:
    return op.name == "func.func" and StringAttr(op.attributes["sym_name"]).value == GRAPH


def _move_graph_after_symbols(module: Module) -> None:
    """The writer makes the graph first, because it names the sizes that facts are about."""
    ops = [op.operation for op in module.body.operations]
    graph = next(op for op in ops if _is_graph(op))
    symbols = [op for op in ops if op.name == "disc_shape.symbolic_dim"]
    if symbols:
        graph.move_after(symbols[-1])


class _GraphWriter:
    """Writes `@shape_constraint_graph`."""

    def __init__(self, table: SymbolTable, at: InsertionPoint) -> None:
        self.table = table
        self.cx = table.cx
        self.at = at
        self.values: dict[Size, Value] = {}

    def write(self) -> None:
        kind = FunctionType.get([], [])
        attributes: dict[str, Attribute] = {
            "sym_name": StringAttr.get(GRAPH),
            "sym_visibility": StringAttr.get("private"),
            "function_type": TypeAttr.get(kind),
        }
        graph = Operation.create("func.func", attributes=attributes, regions=1, ip=self.at)
        block = Block.create_at_start(graph.regions[0], [])
        others: list[str] = []
        with InsertionPoint(block):
            for cond in sorted(self.cx.facts.learnt, key=_divisor_first):
                if not self._write_fact(cond):
                    others.append(str(cond))
            for dim in self.table.derived.values():
                self._write_affine(dim)
            Operation.create("func.return")
        if others:
            texts = ArrayAttr.get([StringAttr.get(t) for t in others])
            graph.attributes["disc_shape.facts"] = texts

    def _value(self, size: Size) -> Value:
        found = self.values.get(size)
        if found is None:
            if isinstance(size, int):
                index = IndexType.get()
                attributes: dict[str, Attribute] = {"value": IntegerAttr.get(index, size)}
                found = Operation.create(
                    "arith.constant", results=[index], attributes=attributes
                ).result
            else:
                found = DimOp(FlatSymbolRefAttr.get(self.table.name_of(size))).res
            self.values[size] = found
        return found

    def _write_fact(self, cond: Cond) -> bool:
        """Whether a tie (or a symbol's range) says it; everything else is kept as text."""
        if cond.kind == "not" and cond.args[0].kind == "eq":
            dim = cond.args[0].args[0]
            return dim.lo > 0 or dim.hi < 0
        if cond.kind not in ("eq", "ge"):
            return False
        dim: Dim = cond.args[0]
        if cond.kind == "ge":
            if _is_range(dim):
                return True
            left, right = _sides(dim)
            TiePredicateLtOp(self._value(right), self._value(left + 1))
            return True
        divisor = _divisor(dim)
        if divisor is not None:
            op = TiePredicateDivisibleOp(self._value(divisor[0]))
            i64 = IntegerType.get_signless(64)
            op.attributes["divisor"] = IntegerAttr.get(i64, divisor[1])
            return True
        left, right = _sides(dim)
        factors = _factors(left), _factors(right)
        if factors[0] and factors[1] and len(factors[0]) + len(factors[1]) > 2:
            TiePredicateMulEqOp(*([self._value(f) for f in side] for side in factors))
        else:
            TiePredicateEqOp(self._value(left), self._value(right))
        return True

    def _write_affine(self, dim: Dim) -> None:
        """value == map(symbols), for a derived size that is linear in its symbols."""
        atoms = [m[0] for m, _ in dim.terms if m]
        if any(len(m) > 1 for m, _ in dim.terms) or any(a.kind != "sym" for a in atoms):
            return
        total: AffineExpr = AffineConstantExpr.get(0)
        for atoms_of_term, coefficient in dim.terms:
            part: AffineExpr = AffineConstantExpr.get(coefficient)
            if atoms_of_term:
                part = AffineExpr.get_mul(AffineDimExpr.get(atoms.index(atoms_of_term[0])), part)
            total = AffineExpr.get_add(total, part)
        args = [self._value(self.cx.symbols[a.name]) for a in atoms]
        op = TiePredicateAffineEqOp(self._value(dim), args)
        op.attributes["map"] = AffineMapAttr.get(AffineMap.get(len(atoms), 0, [total]))


def _divisor_first(cond: Cond) -> float:
    """Divisors of symbols come first, as they do in reading."""
    found = _divisor(cond.args[0]) if cond.kind == "eq" else None
    atom = None if found is None else found[0].atom
    return INF if atom is None or atom.kind != "sym" else atom.index


def _sides(dim: Dim) -> tuple[Size, Size]:
    """(a, b), both with coefficients that are not negative, so that dim is a - b."""
    cx = dim.cx
    return (
        unwrap(cx.from_terms({m: c for m, c in dim.poly if c > 0})),
        unwrap(cx.from_terms({m: -c for m, c in dim.poly if c < 0})),
    )


def _is_range(dim: Dim) -> bool:
    """Whether dim >= 0 only bounds one symbol: its min and max say so."""
    parts: list[tuple[Monomial, int]] = [(m, c) for m, c in dim.poly if m]
    return len(parts) == 1 and len(parts[0][0]) == 1 and dim.cx.atoms[parts[0][0][0]].kind == "sym"


def _divisor(dim: Dim) -> tuple[Dim, int] | None:
    """(x, n) if dim == 0 says that n divides x: n * (x // n) - x, up to sign."""
    for (atom,), coefficient in [t for t in dim.terms if len(t[0]) == 1]:
        if atom.kind == "floordiv" and atom.args[1].constant == abs(coefficient):
            multiple = dim.cx.from_atom(atom).mul(coefficient)
            over = atom.args[0] if coefficient < 0 else atom.args[0].neg()
            if dim.sub(multiple) is over:
                return atom.args[0], abs(coefficient)
    return None


def _factors(size: Size) -> list[Size]:
    """The factors of a product; none if it is a sum or a constant."""
    if isinstance(size, int) or len(size.poly) != 1:
        return []
    ((atoms, coefficient),) = size.terms
    factors: list[Size] = [size.cx.from_atom(a) for a in atoms]
    return [coefficient, *factors] if coefficient != 1 else factors


class _GraphReader:
    """Learns the facts of `@shape_constraint_graph`."""

    def __init__(self, table: SymbolTable) -> None:
        self.table = table
        self.cx = table.cx
        self.sizes: dict[Value, Dim] = {}

    def read(self, graph: Operation) -> None:
        for op in graph.regions[0].blocks[0].operations:
            self._read(op.operation)
        if "disc_shape.facts" in graph.attributes:
            for text in ArrayAttr(graph.attributes["disc_shape.facts"]):
                _learn(parse_cond(self.cx, StringAttr(text).value))

    def _read(self, op: Operation) -> None:
        match op.name:
            case "arith.constant":
                self.sizes[op.result] = self.cx.node(IntegerAttr(op.attributes["value"]).value)
            case "disc_shape.dim":
                name = FlatSymbolRefAttr(op.attributes["symbol"]).value
                self.sizes[op.result] = self.table.dim_of(name)
            case "func.return":
                pass
            case _ if op.name.startswith("disc_shape.tie_predicate_"):
                _learn(self._fact(op))
            case _:
                raise InternalError(f"{op.name} has no meaning in @{GRAPH}")

    def _fact(self, op: Operation) -> Cond:
        view = op.opview
        match view:
            case TiePredicateEqOp():
                return self.sizes[view.lhs].eq(self.sizes[view.rhs])
            case TiePredicateLtOp():
                return self.sizes[view.lhs].lt(self.sizes[view.rhs])
            case TiePredicateDivisibleOp():
                divisor = IntegerAttr(op.attributes["divisor"]).value
                return self.sizes[view.value].mod(divisor).eq(0)
            case TiePredicateMulEqOp():
                left = product([self.sizes[v] for v in view.lhs])
                right = product([self.sizes[v] for v in view.rhs])
                return self.cx.dim(left).eq(right)
            case TiePredicateAffineEqOp():
                (expr,) = AffineMapAttr(op.attributes["map"]).value.results
                args = [self.sizes[v] for v in view.args]
                return self.sizes[view.value].eq(_affine_value(self.cx, expr, args))
        raise InternalError(f"{op.name} has no meaning in @{GRAPH}")


_AFFINE: list[tuple[type[AffineExpr], Callable[[Dim, Dim], Dim]]] = [
    (AffineAddExpr, Dim.add),
    (AffineMulExpr, Dim.mul),
    (AffineFloorDivExpr, Dim.floordiv),
    (AffineModExpr, Dim.mod),
]


def _affine_value(cx: ShapeContext, expr: AffineExpr, args: Sequence[Dim]) -> Dim:
    if isinstance(expr, AffineConstantExpr):
        return cx.node(expr.value)
    if isinstance(expr, AffineDimExpr):
        return args[expr.position]
    for kind, apply in _AFFINE:
        if isinstance(expr, kind):
            return apply(_affine_value(cx, expr.lhs, args), _affine_value(cx, expr.rhs, args))
    raise InternalError(f"affine expression {expr} is not supported in @{GRAPH}")


def _learn(cond: Cond) -> None:
    """Learn a fact of the module; one that is known already adds nothing."""
    cond.cx.assume(cond)
