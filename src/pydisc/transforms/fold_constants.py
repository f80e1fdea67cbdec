"""Element-wise ops on splat constants become splat constants."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir.ir import (
    BoolAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    Module,
    Operation,
    RankedTensorType,
    Value,
)

from pydisc.ir import dense
from pydisc.ir.passes import Pass, PassContext
from pydisc.ir.rewriter import Rewriter, defining_op, main_ops
from pydisc.ir.types import FLOATS, dtype_of, element_type

_FLOAT: dict[str, Callable[..., float]] = {
    "stablehlo.add": lambda x, y: x + y,
    "stablehlo.subtract": lambda x, y: x - y,
    "stablehlo.multiply": lambda x, y: x * y,
    "stablehlo.negate": lambda x: -x,
    "stablehlo.sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
}
_INTEGER: dict[str, Callable[..., int]] = {
    "stablehlo.add": lambda x, y: x + y,
    "stablehlo.subtract": lambda x, y: x - y,
    "stablehlo.multiply": lambda x, y: x * y,
    "stablehlo.negate": lambda x: -x,
}


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Compute element-wise ops whose operands are all rank-0 constants.

    Before: multiply(constant 2.0, constant 0.5)    After: constant 1.0
    Needs: rank-0 splat constants of f64, i64, i32 or i1 (f32 results would need f32 rounding).
    Keeps: shape facts.  Stops: each step removes an op.
    """

    name: ClassVar[str] = "fold-constants"

    def run(self, m: Module, cx: PassContext) -> bool:
        """Fold in program order, so that chains fold in one run."""
        rw = Rewriter(m)
        for op in main_ops(m):
            fold_op(op, rw)
        return rw.changes > 0


def fold_op(op: Operation, rw: Rewriter) -> bool:
    """Replace one op by a constant if its operands are."""
    if len(op.results) != 1 or not op.operands or not op.name.startswith("stablehlo."):
        return False
    values = [scalar_constant(v) for v in op.operands]
    if any(v is None for v in values):
        return False
    dtype = dtype_of(op.result.type)
    if op.name == "stablehlo.convert":
        folded = _convert(values[0], dtype)
    elif dtype == "f64" and op.name in _FLOAT:
        folded = _FLOAT[op.name](*values)
    elif dtype in ("i64", "i32") and op.name in _INTEGER:
        folded = _INTEGER[op.name](*values)
        if not -(2 ** (int(dtype[1:]) - 1)) <= folded < 2 ** (int(dtype[1:]) - 1):
            return False
    else:
        return False
    if folded is None:
        return False
    made = splat_constant(op, rw, folded, dtype)
    rw.replace(op, [made])
    return True


def _convert(value: bool | int | float | None, dtype: str) -> bool | int | float | None:
    if dtype in ("f64", "f32"):
        return float(value)  # type: ignore[arg-type]
    if dtype == "i1":
        return bool(value)
    if isinstance(value, int) and dtype in ("i64", "i32") and abs(value) < 2**31:
        return int(value)
    return None


def scalar_constant(value: Value) -> bool | int | float | None:
    """The value of a rank-0 constant, or None."""
    op = defining_op(value)
    if op is None or op.name != "stablehlo.constant" or RankedTensorType(value.type).rank:
        return None
    return dense.splat(op)


def splat_constant(op: Operation, rw: Rewriter, value: bool | int | float, dtype: str) -> Value:
    """A rank-0 constant in front of an op."""
    kind = RankedTensorType.get([], element_type(dtype))
    if dtype in FLOATS:
        attribute = FloatAttr.get(element_type(dtype), float(value))
    elif dtype == "i1":
        attribute = BoolAttr.get(bool(value))
    else:
        attribute = IntegerAttr.get(element_type(dtype), int(value))
    made = rw.create(
        "stablehlo.constant",
        [],
        [kind],
        {"value": DenseElementsAttr.get_splat(kind, attribute)},
        before=op,
    )
    return made.result
