"""The left operand of a dot gets its contracting dims last, where the CPU kernels read them."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir.ir import Attribute, DenseI64ArrayAttr, Module, Operation

from pydisc.ir.passes import Pass, PassContext
from pydisc.ir.rewriter import Rewriter, main_ops
from pydisc.ir.types import dtype_of, shape_of, tensor_type


@dataclass(frozen=True)
class CanonicalizeDot(Pass):
    """Transpose the left operand to [batch, free, contracting].

    Before: dot_general(x: [k, m], y), contracting [0] x [..]    After: on transpose(x): [m, k]
    Needs: nothing.  Keeps: shape facts.  Stops: a dot in this form is left alone.
    """

    name: ClassVar[str] = "canonicalize-dot"

    def run(self, m: Module, cx: PassContext) -> bool:
        """Rewrite every dot once."""
        rw = Rewriter(m)
        for op in main_ops(m):
            if op.name == "stablehlo.dot_general":
                move_contracting_last(op, rw)
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


def move_contracting_last(op: Operation, rw: Rewriter) -> bool:
    """Insert the transpose if the order is another."""
    dims = dot_dims(op)
    lhs = op.operands[0]
    shape = shape_of(lhs.type)
    batch, contracting = dims["lhs_batching"], dims["lhs_contracting"]
    free = [i for i in range(len(shape)) if i not in batch + contracting]
    order = [*batch, *free, *contracting]
    if order == list(range(len(shape))):
        return False
    kind = tensor_type(tuple(shape[i] for i in order), dtype_of(lhs.type))
    attributes = {"permutation": DenseI64ArrayAttr.get(order)}
    moved = rw.create("stablehlo.transpose", [lhs], [kind], attributes, before=op).result
    dims["lhs_batching"] = list(range(len(batch)))
    first = len(batch) + len(free)
    dims["lhs_contracting"] = list(range(first, first + len(contracting)))
    attributes = {"dot_dimension_numbers": dot_attribute(dims)}
    made = rw.create(op.name, [moved, op.operands[1]], [op.result.type], attributes, before=op)
    rw.replace(op, [made.result])
    return True
