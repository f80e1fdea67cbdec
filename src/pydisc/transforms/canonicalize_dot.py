"""The operands of a dot get their dims in an order that the CPU kernels read."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir.ir import Attribute, DenseI64ArrayAttr, Module, Operation, Value

from pydisc.ir.passes import Pass, PassContext
from pydisc.ir.rewriter import Rewriter, main_ops
from pydisc.ir.types import dtype_of, shape_of, tensor_type


@dataclass(frozen=True)
class CanonicalizeDot(Pass):
    """Transpose the left operand to [batch, free, contracting].

    The right one becomes [batch, contracting, free] if its contracting dims or its free dims are
    no neighbours.

    Before: dot_general(x: [k, m], y), contracting [0] x [..]    After: on transpose(x): [m, k]
    Needs: nothing.  Keeps: shape facts.  Stops: a dot in this form is left alone.
    """

    name: ClassVar[str] = "canonicalize-dot"

    def run(self, m: Module, cx: PassContext) -> bool:
        """Rewrite every dot once."""
        rw = Rewriter(m)
        for op in main_ops(m):
            if op.name == "stablehlo.dot_general":
                bring_into_form(op, rw)
        return rw.changes > 0


def dot_dims(op: Operation) -> dict[str, list[int]]:
    """The four lists of dimension numbers of a dot_general."""
    text = str(op.attributes["dot_dimension_numbers"])
    found: dict[str, list[int]] = {}
    for side in ("lhs", "rhs"):
        for kind in ("batching", "contracting"):
            key = f"{side}_{kind}_dimensions"
            inside = text.split(key, 1)[1].split("[", 1)[1].split("]", 1)[0] if key in text else ""
            found[f"{side}_{kind}"] = [int(t) for t in inside.split(",") if t.strip()]
    return found


def dot_attribute(dims: dict[str, list[int]]) -> Attribute:
    """The attribute of dimension numbers."""
    return Attribute.parse(
        f"#stablehlo.dot<lhs_batching_dimensions = {dims['lhs_batching']}, "
        f"rhs_batching_dimensions = {dims['rhs_batching']}, "
        f"lhs_contracting_dimensions = {dims['lhs_contracting']}, "
        f"rhs_contracting_dimensions = {dims['rhs_contracting']}>"
    )


def bring_into_form(op: Operation, rw: Rewriter) -> bool:
    """Insert the transposes that an operand needs."""
    dims = dot_dims(op)
    lhs, rhs = op.operands
    left, right = _left_order(lhs, dims), _right_order(rhs, dims)
    if left == sorted(left) and right == sorted(right):
        return False
    operands = [_transposed(op, rw, lhs, left), _transposed(op, rw, rhs, right)]
    for side, order in (("lhs", left), ("rhs", right)):
        for kind in ("batching", "contracting"):
            dims[f"{side}_{kind}"] = [order.index(d) for d in dims[f"{side}_{kind}"]]
    attributes = {"dot_dimension_numbers": dot_attribute(dims)}
    made = rw.create(op.name, operands, [op.result.type], attributes, before=op)
    rw.replace(op, [made.result])
    return True


def _left_order(lhs: Value, dims: dict[str, list[int]]) -> list[int]:
    batch, contracting = dims["lhs_batching"], dims["lhs_contracting"]
    return [*batch, *_free(lhs, batch + contracting), *contracting]


def _right_order(rhs: Value, dims: dict[str, list[int]]) -> list[int]:
    """As it is where contracting dims are neighbours and free dims are: each group one stride."""
    batch, contracting = dims["rhs_batching"], dims["rhs_contracting"]
    free = _free(rhs, batch + contracting)
    as_it_is = _free(rhs, batch)
    if as_it_is in ([*contracting, *free], [*free, *contracting]):
        return list(range(len(shape_of(rhs.type))))
    return [*batch, *contracting, *free]


def _free(value: Value, taken: list[int]) -> list[int]:
    return [i for i in range(len(shape_of(value.type))) if i not in taken]


def _transposed(op: Operation, rw: Rewriter, value: Value, order: list[int]) -> Value:
    if order == sorted(order):
        return value
    shape = shape_of(value.type)
    kind = tensor_type(tuple(shape[i] for i in order), dtype_of(value.type))
    attributes = {"permutation": DenseI64ArrayAttr.get(order)}
    return rw.create("stablehlo.transpose", [value], [kind], attributes, before=op).result
