"""Facts about sizes, written as the function `@shape_constraint_graph`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch_mlir.ir import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    Block,
    DenseI64ArrayAttr,
    FlatSymbolRefAttr,
    FunctionType,
    IndexType,
    InsertionPoint,
    IntegerAttr,
    IntegerType,
    Operation,
    StringAttr,
    TypeAttr,
    Value,
)

from pydisc.ir.dialects import (
    DimOp,
    TiePredicateAffineEqOp,
    TiePredicateDivisibleOp,
    TiePredicateEqOp,
    TiePredicateGroupMulEqOp,
    TiePredicateLtOp,
    TiePredicateMulEqOp,
)
from pydisc.ir.verify_shapes import GRAPH
from pydisc.shape.cond import Cond
from pydisc.shape.dim import Dim, Monomial, Size, unwrap
from pydisc.shape.interval import INF

if TYPE_CHECKING:
    from pydisc.shape.constraint_ir import SymbolTable


class GraphWriter:
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
            facts = sorted(self.cx.facts.learnt, key=_divisor_first)
            for products, run in itertools.groupby(facts, lambda c: _products(c) is not None):
                if products:
                    self._write_products([_products(cond) for cond in run])
                else:
                    others += [str(cond) for cond in run if not self._write_fact(cond)]
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
        TiePredicateEqOp(self._value(left), self._value(right))
        return True

    def _write_products(self, pairs: Sequence[Any]) -> None:
        """Equal products that were learnt one after the other, such as those of a reshape."""
        sides = [[self._value(f) for pair in pairs for f in pair[side]] for side in (0, 1)]
        if len(pairs) == 1:
            TiePredicateMulEqOp(*sides)
            return
        op = TiePredicateGroupMulEqOp(*sides)
        for side, name in enumerate(("lhs_groups", "rhs_groups")):
            op.attributes[name] = DenseI64ArrayAttr.get([len(pair[side]) for pair in pairs])

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


def _products(cond: Cond) -> tuple[list[Size], list[Size]] | None:
    """The factors on both sides, if a condition says that two products are equal."""
    if cond.kind != "eq" or _divisor(cond.args[0]) is not None:
        return None
    left, right = (_factors(side) for side in _sides(cond.args[0]))
    return (left, right) if left and right and len(left) + len(right) > 2 else None


def _factors(size: Size) -> list[Size]:
    """The factors of a product; none if it is a sum or a constant."""
    if isinstance(size, int) or len(size.poly) != 1:
        return []
    ((atoms, coefficient),) = size.terms
    factors: list[Size] = [size.cx.from_atom(a) for a in atoms]
    return [coefficient, *factors] if coefficient != 1 else factors
