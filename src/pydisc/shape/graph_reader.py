"""The facts of `@shape_constraint_graph`, learnt by a context."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from torch_mlir.ir import (
    AffineAddExpr,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineFloorDivExpr,
    AffineMapAttr,
    AffineModExpr,
    AffineMulExpr,
    ArrayAttr,
    DenseI64ArrayAttr,
    FlatSymbolRefAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    Value,
)

from pydisc.ir.dialects import (
    TiePredicateAffineEqOp,
    TiePredicateDivisibleOp,
    TiePredicateEqOp,
    TiePredicateGroupMulEqOp,
    TiePredicateLtOp,
    TiePredicateMulEqOp,
)
from pydisc.ir.verify_shapes import GRAPH
from pydisc.shape.cond import Cond
from pydisc.shape.context import ShapeContext
from pydisc.shape.dim import Dim
from pydisc.shape.expression import parse_cond
from pydisc.shape.questions import product
from pydisc.support.errors import InternalError

if TYPE_CHECKING:
    from pydisc.shape.constraint_ir import SymbolTable


class GraphReader:
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
                learn(parse_cond(self.cx, StringAttr(text).value))

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
                for fact in self._facts(op):
                    learn(fact)
            case _:
                raise InternalError(f"{op.name} has no meaning in @{GRAPH}")

    def _facts(self, op: Operation) -> Iterator[Cond]:
        view = op.opview
        match view:
            case TiePredicateEqOp():
                yield self.sizes[view.lhs].eq(self.sizes[view.rhs])
            case TiePredicateLtOp():
                yield self.sizes[view.lhs].lt(self.sizes[view.rhs])
            case TiePredicateDivisibleOp():
                divisor = IntegerAttr(op.attributes["divisor"]).value
                yield self.sizes[view.value].mod(divisor).eq(0)
            case TiePredicateMulEqOp():
                yield self._equal_products(view.lhs, view.rhs)
            case TiePredicateGroupMulEqOp():
                groups = (
                    _cut(values, DenseI64ArrayAttr(op.attributes[name]))
                    for values, name in ((view.lhs, "lhs_groups"), (view.rhs, "rhs_groups"))
                )
                for left, right in zip(*groups, strict=True):
                    yield self._equal_products(left, right)
            case TiePredicateAffineEqOp():
                (expr,) = AffineMapAttr(op.attributes["map"]).value.results
                args = [self.sizes[v] for v in view.args]
                yield self.sizes[view.value].eq(_affine_value(self.cx, expr, args))
            case _:
                raise InternalError(f"{op.name} has no meaning in @{GRAPH}")

    def _equal_products(self, left: Iterable[Value], right: Iterable[Value]) -> Cond:
        whole, other = (product([self.sizes[v] for v in side]) for side in (left, right))
        return self.cx.dim(whole).eq(other)


def _cut(values: Iterable[Value], lengths: Iterable[int]) -> list[list[Value]]:
    """Values in runs of the given lengths."""
    rest = iter(values)
    return [list(itertools.islice(rest, length)) for length in lengths]


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


def learn(cond: Cond) -> None:
    """Learn a fact of the module; one that is known already adds nothing."""
    cond.cx.assume(cond)
