"""Our dialects: `disc_shape` (what is known of sizes) and `disc` (kernels, calls, fallbacks).

Specification: docs/spec/shape_constraint_ir.md and docs/spec/disc_dialect.md.
"""

# pyright: reportInvalidTypeForm=false
# (operand and result types are values to the bindings)

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir.dialects import ext
from torch_mlir.dialects.ext import Operand, Pure, Result, result
from torch_mlir.ir import FlatSymbolRefAttr, IndexType, StringAttr


class DiscShape(ext.Dialect, name="disc_shape"):
    """Sizes: the symbols of a module and the facts that hold between them."""


class SymbolicDimOp(DiscShape.Operation, name="symbolic_dim"):
    """A named size.

    Discardable attributes: min, max, divisor, likely_values, name (where the user has it), expr (of
    a derived size).
    """

    sym_name: StringAttr


class DimOp(DiscShape.Operation, name="dim", traits=[Pure]):
    """The run-time value of a symbol."""

    symbol: FlatSymbolRefAttr
    res: Result[IndexType] = result(default_factory=lambda: IndexType.get())


class TiePredicateEqOp(DiscShape.Operation, name="tie_predicate_eq"):
    """lhs == rhs."""

    lhs: Operand[IndexType]
    rhs: Operand[IndexType]


class TiePredicateLtOp(DiscShape.Operation, name="tie_predicate_lt"):
    """lhs < rhs."""

    lhs: Operand[IndexType]
    rhs: Operand[IndexType]


class TiePredicateDivisibleOp(DiscShape.Operation, name="tie_predicate_divisible"):
    """`value` is a multiple of the discardable i64 attribute `divisor`."""

    value: Operand[IndexType]


class TiePredicateMulEqOp(DiscShape.Operation, name="tie_predicate_mul_eq"):
    """product(lhs) == product(rhs)."""

    lhs: Sequence[Operand[IndexType]]
    rhs: Sequence[Operand[IndexType]]


class TiePredicateGroupMulEqOp(DiscShape.Operation, name="tie_predicate_group_mul_eq"):
    """product(group i of lhs) == product(group i of rhs), for every i.

    The discardable attributes `lhs_groups` and `rhs_groups` (arrays of i64) are their lengths.
    """

    lhs: Sequence[Operand[IndexType]]
    rhs: Sequence[Operand[IndexType]]


class TiePredicateAffineEqOp(DiscShape.Operation, name="tie_predicate_affine_eq"):
    """value == map(args): `map` is a discardable affine-map attribute over the symbols `args`."""

    value: Operand[IndexType]
    args: Sequence[Operand[IndexType]]


@dataclass(frozen=True)
class DiscOp:
    """What the verifier demands of an op of the `disc` dialect."""

    attributes: tuple[str, ...]
    regions: int = 0
    results: bool | None = True
    """Whether there are results; None: there may be."""


DISC_OPS = {
    # An element-wise function that StableHLO lacks (`fn`: erf, ...); one shape throughout.
    "disc.elementwise": DiscOp(("fn",)),
    # Running values along an `axis`: out[i] = fn(out[i - 1], x[i]); `fn` is add, multiply,
    # maximum or minimum.
    "disc.scan": DiscOp(("fn", "axis")),
    # An operator that the framework runs: `target` names the overload, `args` is the argument
    # template (artifact/extern_args.py), `reason` says why it is not compiled.
    "disc.extern": DiscOp(("target", "args", "reason"), results=None),
    # One kernel. `kind` is loop, row, scan, dot, concatenate or pad; the body ends in `disc.yield`.
    "disc.fusion": DiscOp(("kind",), regions=1),
    # The results of a fusion body.
    "disc.yield": DiscOp((), results=False),
}
"""The `disc` dialect. Its ops take operands of several types in one list, which a dialect defined
from Python cannot say (one constraint, one type), so they are unregistered ops of this table and
ir/verify.py checks them."""
