"""Broadcasts, reshapes and transposes that do nothing, or that one op can do."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir.ir import DenseI64ArrayAttr, Module, Operation

from pydisc.ir import dense
from pydisc.ir.passes import Pass, PassContext
from pydisc.ir.rewriter import Rewriter, defining_op, main_ops
from pydisc.ir.types import shape_of

_BROADCAST = ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
_RESHAPE = ("stablehlo.reshape", "stablehlo.dynamic_reshape")


@dataclass(frozen=True)
class SimplifyLayout(Pass):
    """Remove layout ops that keep the type, and merge chains of one kind.

    Before: transpose(transpose(x, [1,0]), [1,0]); reshape(reshape(x)); broadcast(broadcast(x))
    After:  x;                                     reshape(x);          broadcast(x)
    Needs: symbols: two dims are equal if and only if their symbols are.  Keeps: shape facts.
    Stops: each step removes an op or shortens the chain under it.
    """

    name: ClassVar[str] = "simplify-layout"

    def run(self, m: Module, cx: PassContext) -> bool:
        """One walk: operands are simplified before their users."""
        rw = Rewriter(m)
        for op in main_ops(m):
            if op.name in _BROADCAST:
                _ = remove_identity(op, rw) or merge_broadcasts(op, rw)
            elif op.name in _RESHAPE:
                _ = remove_identity(op, rw) or merge_reshapes(op, rw)
            elif op.name == "stablehlo.transpose":
                merge_transposes(op, rw)
        return rw.changes > 0


def remove_identity(op: Operation, rw: Rewriter) -> bool:
    """op(x) with the type of x is x: nothing to broadcast, nothing to reshape."""
    source = op.operands[0]
    if source.type != op.result.type:
        return False
    if op.name in _BROADCAST:
        dims = dense.ints(op, "broadcast_dimensions")
        if dims != list(range(len(dims))):
            return False
    rw.replace(op, [source])
    return True


def merge_reshapes(op: Operation, rw: Rewriter) -> bool:
    """reshape(reshape(x)) is reshape(x), or x."""
    inner = defining_op(op.operands[0])
    if inner is None or inner.name not in _RESHAPE:
        return False
    source = inner.operands[0]
    if source.type == op.result.type:
        rw.replace(op, [source])
        return True
    static = all(isinstance(s, int) for s in (*shape_of(source.type), *shape_of(op.result.type)))
    if len(op.operands) == 1 and not static:
        return False
    made = rw.create(
        op.name, [source, *list(op.operands)[1:]], [op.result.type], _attributes(op), before=op
    )
    rw.replace(op, [made.result])
    return True


def merge_broadcasts(op: Operation, rw: Rewriter) -> bool:
    """broadcast(broadcast(x)): the dims of the inner one are looked up in the outer one."""
    inner = defining_op(op.operands[0])
    if inner is None or inner.name not in _BROADCAST:
        return False
    outer_dims = dense.ints(op, "broadcast_dimensions")
    dims = [outer_dims[d] for d in dense.ints(inner, "broadcast_dimensions")]
    source = inner.operands[0]
    attributes = {"broadcast_dimensions": DenseI64ArrayAttr.get(dims)}
    made = rw.create(
        op.name, [source, *list(op.operands)[1:]], [op.result.type], attributes, before=op
    )
    rw.replace(op, [made.result])
    return True


def merge_transposes(op: Operation, rw: Rewriter) -> bool:
    """Compose two permutations; the identity goes."""
    permutation = dense.ints(op, "permutation")
    source = op.operands[0]
    inner = defining_op(source)
    if inner is not None and inner.name == "stablehlo.transpose":
        below = dense.ints(inner, "permutation")
        permutation = [below[p] for p in permutation]
        source = inner.operands[0]
    elif permutation != sorted(permutation):
        return False
    if permutation == sorted(permutation):
        rw.replace(op, [source])
        return True
    attributes = {"permutation": DenseI64ArrayAttr.get(permutation)}
    made = rw.create(op.name, [source], [op.result.type], attributes, before=op)
    rw.replace(op, [made.result])
    return True


def _attributes(op: Operation) -> dict:
    return {name: op.attributes[name] for name in op.attributes}
