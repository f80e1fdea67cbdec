"""SSA values and their types, as text."""

import math
import struct
from dataclasses import dataclass

PTR = "!llvm.ptr"
I64 = "i64"

_MEMORY = {"i1": "i8", "ui8": "i8", "bf16": "i16"}  # LLVM moves bf16 vectors through f32
BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1}


@dataclass(frozen=True, slots=True)
class Val:
    """An SSA value: its name and its MLIR type."""

    name: str
    type: str

    def __str__(self) -> str:
        return self.name

    @property
    def element(self) -> str:
        """The element type of a vector, the type itself of a scalar."""
        return element_of(self.type)

    @property
    def is_float(self) -> bool:
        return self.element[0] in "fb"


def element_of(type_: str) -> str:
    """`vector<8xf32>` and `f32` give `f32`."""
    return type_[type_.index("x") + 1 : -1] if type_.startswith("vector<") else type_


def with_element(type_: str, element: str) -> str:
    """The type with the same lanes and another element."""
    if type_.startswith("vector<"):
        return f"{type_[: type_.index('x')]}x{element}>"
    return element


def lanes_of(type_: str) -> int:
    """Lanes of a vector type; 1 for a scalar."""
    return int(type_[7 : type_.index("x")]) if type_.startswith("vector<") else 1


def memory_type(dtype: str) -> str:
    """How one element of a tensor lies in memory: i1 tensors are bytes."""
    return _MEMORY.get(dtype, dtype)


def byte_size(dtype: str) -> int:
    """Bytes of one element in memory."""
    return BYTES[memory_type(dtype)]


def register_type(dtype: str) -> str:
    """The element type that arithmetic on this dtype uses: MLIR integers carry no sign."""
    return "i8" if dtype == "ui8" else dtype


_MANTISSA = {"f32": ("<f", 8), "f64": ("<d", 16)}


def literal(value: float | int | bool, element: str) -> str:
    """A scalar attribute: floats exactly, by their bits when not finite."""
    if element == "i1":
        return "true" if value else "false"
    if element[0] not in "fb":
        return str(int(value))
    value = float(value)
    if math.isfinite(value):
        return f"{value:.17e}"
    if element in _MANTISSA:
        code, digits = _MANTISSA[element]
        return f"0x{int.from_bytes(struct.pack(code, value), 'little'):0{digits}X}"
    bits = struct.unpack("<I", struct.pack("<f", value))[0] >> 16  # bf16: the top of an f32
    if element == "f16":
        bits = struct.unpack("<H", struct.pack("<e", value))[0]
    return f"0x{bits:04X}"
