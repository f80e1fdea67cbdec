"""Reading attributes of StableHLO ops into plain Python values."""

from torch_mlir.ir import (
    DenseElementsAttr,
    DenseI64ArrayAttr,
    IntegerAttr,
    Operation,
    StringAttr,
)


def ints(op: Operation, name: str) -> list[int]:
    """A dense i64 array attribute."""
    return list(DenseI64ArrayAttr(op.attributes[name]))


def integer(op: Operation, name: str) -> int:
    """An integer attribute."""
    return IntegerAttr(op.attributes[name]).value


def string(op: Operation, name: str) -> str:
    """A string attribute."""
    return StringAttr(op.attributes[name]).value


def splat(op: Operation) -> bool | int | float:
    """The one value of a splat `stablehlo.constant`."""
    value = DenseElementsAttr(op.attributes["value"]).get_splat_value()
    return value.value
