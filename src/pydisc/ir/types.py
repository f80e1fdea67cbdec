"""Tensor types with symbols: `tensor<?x4xf32, [@S0, 4]>`; a static type has no encoding."""

from typing import Any, Protocol

from torch_mlir.ir import (
    ArrayAttr,
    Attribute,
    F16Type,
    F32Type,
    F64Type,
    FlatSymbolRefAttr,
    IntegerAttr,
    IntegerType,
    RankedTensorType,
    ShapedType,
    Type,
)
from torch_mlir.ir import BF16Type as _BF16

DTYPE_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ui8": 1, "i1": 1,
}  # fmt: skip
"""Bytes of one element in memory, by element type name; `i1` is one byte, as in PyTorch."""

FLOATS = frozenset({"f64", "f32", "f16", "bf16"})


class SizeNamer(Protocol):
    """What gives a dynamic size its symbol name (the symbol table of the shape room)."""

    def name_of(self, dim: Any) -> str: ...


def element_type(dtype: str) -> Type:
    """The MLIR element type of a dtype name."""
    match dtype:
        case "f32":
            return F32Type.get()
        case "f64":
            return F64Type.get()
        case "f16":
            return F16Type.get()
        case "bf16":
            return _BF16.get()
        case _ if dtype.startswith("ui"):
            return IntegerType.get_unsigned(int(dtype[2:]))
        case _:
            return IntegerType.get_signless(int(dtype[1:]))


def tensor_type(shape: tuple[int | str, ...], dtype: str) -> RankedTensorType:
    """A ranked tensor type; a `str` in the shape is the symbol of a dynamic dim."""
    dims = [ShapedType.get_dynamic_size() if isinstance(s, str) else s for s in shape]
    encoding: Attribute | None = None
    if any(isinstance(s, str) for s in shape):
        i64 = IntegerType.get_signless(64)
        encoding = ArrayAttr.get(
            [
                FlatSymbolRefAttr.get(s) if isinstance(s, str) else IntegerAttr.get(i64, s)
                for s in shape
            ]
        )
    return RankedTensorType.get(dims, element_type(dtype), encoding)


def shape_of(tensor: Type) -> tuple[int | str, ...]:
    """The shape of a tensor type: ints, and symbol names for dynamic dims.

    Raises ValueError if a dynamic dim carries no symbol.
    """
    ranked = RankedTensorType(tensor)
    if ranked.has_static_shape:
        return tuple(ranked.shape)
    if ranked.encoding is None:
        raise ValueError(f"dynamic type without symbols: {tensor}")
    names = ArrayAttr(ranked.encoding)
    return tuple(
        FlatSymbolRefAttr(names[i]).value if ranked.is_dynamic_dim(i) else ranked.get_dim_size(i)
        for i in range(ranked.rank)
    )


def dtype_of(tensor: Type) -> str:
    """The dtype name of a tensor type."""
    return str(RankedTensorType(tensor).element_type)
