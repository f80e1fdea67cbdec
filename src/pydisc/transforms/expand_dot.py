"""Dots of element types without a matrix kernel become products and a sum."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir.ir import (
    Attribute,
    Block,
    DenseI64ArrayAttr,
    IndexType,
    InsertionPoint,
    IntegerAttr,
    Module,
    Operation,
    RankedTensorType,
    Value,
)

from pydisc.ir.passes import Pass, PassContext
from pydisc.ir.rewriter import Rewriter, main_ops
from pydisc.ir.types import dtype_of, element_type, shape_of, tensor_type
from pydisc.transforms.canonicalize_dot import dot_dims
from pydisc.transforms.fold_constants import splat_constant


@dataclass(frozen=True)
class ExpandDot(Pass):
    """Write a dot that is not of `kept` as reduce(multiply(broadcast(x), broadcast(y))).

    Before: dot_general(x: [m, k], y: [k, n]) in f64
    After:  reduce_add(multiply(broadcast x to [m, n, k], broadcast y to [m, n, k]), [2])
    Needs: nothing.  Keeps: shape facts.  Stops: no dot of another type is left.
    """

    name: ClassVar[str] = "expand-dot"
    kept: str = "f32"

    def run(self, m: Module, cx: PassContext) -> bool:
        """Rewrite every dot of another element type; it becomes one row kernel."""
        rw = Rewriter(m)
        for op in main_ops(m):
            if op.name == "stablehlo.dot_general" and dtype_of(op.result.type) != self.kept:
                expand(op, rw)
        return rw.changes > 0


def expand(op: Operation, rw: Rewriter) -> None:
    """Replace one dot."""
    dims = dot_dims(op)
    lhs, rhs = op.operands
    left, right = shape_of(lhs.type), shape_of(rhs.type)
    result = shape_of(op.result.type)
    dtype = dtype_of(op.result.type)
    batch = len(dims["lhs_batching"])
    left_free = _free(len(left), dims["lhs_batching"] + dims["lhs_contracting"])
    right_free = _free(len(right), dims["rhs_batching"] + dims["rhs_contracting"])
    full = (*result, *(left[i] for i in dims["lhs_contracting"]))
    first_k = len(result)

    def places(
        rank: int, batching: list[int], free: list[int], start: int, inner: list[int]
    ) -> list[int]:
        at = [0] * rank
        for position, dim in enumerate(batching):
            at[dim] = position
        for position, dim in enumerate(free):
            at[dim] = start + position
        for position, dim in enumerate(inner):
            at[dim] = first_k + position
        return at

    left_at = places(len(left), dims["lhs_batching"], left_free, batch, dims["lhs_contracting"])
    start = batch + len(left_free)
    right_at = places(len(right), dims["rhs_batching"], right_free, start, dims["rhs_contracting"])
    kind = tensor_type(full, dtype)
    factors = [
        _broadcast(op, rw, value, at, full, kind) for value, at in ((lhs, left_at), (rhs, right_at))
    ]
    product = rw.create("stablehlo.multiply", factors, [kind], before=op).result
    axes = list(range(first_k, len(full)))
    total = _sum(op, rw, product, axes, dtype)
    rw.replace(op, [total])


def _free(rank: int, taken: list[int]) -> list[int]:
    return [i for i in range(rank) if i not in taken]


def _broadcast(
    op: Operation,
    rw: Rewriter,
    value: Value,
    at: Sequence[int],
    full: tuple[int | str, ...],
    kind: RankedTensorType,
) -> Value:
    attributes: dict[str, Attribute] = {"broadcast_dimensions": DenseI64ArrayAttr.get(list(at))}
    if all(isinstance(s, int) for s in full):
        name = "stablehlo.broadcast_in_dim"
        return rw.create(name, [value], [kind], attributes, before=op).result
    shape = _shape_operand(op, rw, full)
    name = "stablehlo.dynamic_broadcast_in_dim"
    return rw.create(name, [value, shape], [kind], attributes, before=op).result


def _shape_operand(op: Operation, rw: Rewriter, shape: tuple[int | str, ...]) -> Value:
    index = IndexType.get()
    sizes = []
    for size in shape:
        if isinstance(size, int):
            attributes: dict[str, Attribute] = {"value": IntegerAttr.get(index, size)}
            made = rw.create("arith.constant", [], [index], attributes, before=op)
        else:
            attributes = {"symbol": Attribute.parse(f"@{size}")}
            made = rw.create("disc_shape.dim", [], [index], attributes, before=op)
        sizes.append(made.result)
    kind = RankedTensorType.get([len(shape)], index)
    return rw.create("tensor.from_elements", sizes, [kind], before=op).result


def _sum(op: Operation, rw: Rewriter, product: Value, axes: list[int], dtype: str) -> Value:
    zero = splat_constant(op, rw, False if dtype == "i1" else 0, dtype)
    made = Operation.create(
        "stablehlo.reduce",
        results=[op.result.type],
        operands=[product, zero],
        attributes={"dimensions": DenseI64ArrayAttr.get(axes)},
        regions=1,
        loc=op.location,
        ip=InsertionPoint(op),
    )
    scalar = RankedTensorType.get([], element_type(dtype))
    block = Block.create_at_start(made.regions[0], [scalar, scalar])
    with InsertionPoint(block):
        body = Operation.create("stablehlo.add", results=[scalar], operands=list(block.arguments))
        Operation.create("stablehlo.return", operands=[body.result])
    return made.result
