"""Writing MLIR text: typed values, hoisted constants, nested loops and branches."""

from pydisc.codegen.common.arithmetic import Arithmetic
from pydisc.codegen.common.values import (
    BYTES,
    I64,
    PTR,
    Val,
    byte_size,
    element_of,
    lanes_of,
    memory_type,
    register_type,
    with_element,
)

__all__ = [
    "I64",
    "PTR",
    "Text",
    "Val",
    "byte_size",
    "element_of",
    "lanes_of",
    "memory_type",
    "register_type",
    "with_element",
]


class Text(Arithmetic):
    """The functions of one MLIR module, with everything that kernels are written with.

    `lanes` is the number of lanes of every vector: of 32-bit floats a full register, of other
    element types whatever LLVM makes of it.
    """

    def at(self, base: Val, index: Val | int, element: str = "f32") -> Val:
        """The address of an element: base + index * size of `element`."""
        if isinstance(index, int):
            if index == 0:
                return base
            return self.op(f"llvm.getelementptr {base}[{index}] : ({PTR}) -> {PTR}, {element}", PTR)
        return self.op(
            f"llvm.getelementptr {base}[{index}] : ({PTR}, {index.type}) -> {PTR}, {element}", PTR
        )

    def load(self, pointer: Val, type_: str, align: int = 0) -> Val:
        """Load a scalar, or a vector that need not be aligned unless `align` says so."""
        align = align or byte_size(element_of(type_)) if element_of(type_) in BYTES else 8
        return self.op(
            f"llvm.load {pointer} {{alignment = {align} : i64}} : {PTR} -> {type_}", type_
        )

    def store(self, value: Val, pointer: Val, align: int = 0) -> None:
        """Store a scalar or a vector."""
        align = align or byte_size(value.element) if value.element in BYTES else 8
        self.line(
            f"llvm.store {value}, {pointer} {{alignment = {align} : i64}} : {value.type}, {PTR}"
        )

    def load_masked(self, pointer: Val, mask: Val, type_: str, fill: Val | None = None) -> Val:
        """Load the lanes that the mask names and touch no other byte."""
        fill = fill or self.const(0, type_)
        align = byte_size(element_of(type_))
        return self.op(
            f"llvm.intr.masked.load {pointer}, {mask}, {fill} {{alignment = {align} : i32}} : "
            f"({PTR}, {mask.type}, {type_}) -> {type_}",
            type_,
        )

    def store_masked(self, value: Val, pointer: Val, mask: Val) -> None:
        """Store the lanes that the mask names and touch no other byte."""
        align = byte_size(value.element)
        self.line(
            f"llvm.intr.masked.store {value}, {pointer}, {mask} {{alignment = {align} : i32}} : "
            f"{value.type}, {mask.type} into {PTR}"
        )

    def load_lanes(self, pointer: Val, dtype: str, mask: Val | None = None) -> Val:
        """Load a vector of tensor elements; i1 comes as a vector of i1, bytes in memory."""
        type_ = self.vector(memory_type(dtype))
        loaded = self.load_masked(pointer, mask, type_) if mask else self.load(pointer, type_)
        return self.from_memory(loaded, dtype)

    def store_lanes(self, value: Val, pointer: Val, dtype: str, mask: Val | None = None) -> None:
        """Store a vector of tensor elements."""
        value = self.to_memory(value, dtype)
        if mask:
            self.store_masked(value, pointer, mask)
        else:
            self.store(value, pointer)

    def load_scalar(self, pointer: Val, dtype: str) -> Val:
        """Load one tensor element."""
        return self.from_memory(self.load(pointer, memory_type(dtype)), dtype)

    def store_scalar(self, value: Val, pointer: Val, dtype: str) -> None:
        """Store one tensor element."""
        self.store(self.to_memory(value, dtype), pointer)

    def from_memory(self, value: Val, dtype: str) -> Val:
        """What `load` gave, as arithmetic wants it."""
        if dtype == "bf16":
            return self.cast("bitcast", value, "bf16")
        return self.compare("ne", value, self.const(0, value.type)) if dtype == "i1" else value

    def to_memory(self, value: Val, dtype: str) -> Val:
        """An arithmetic value, as it lies in memory."""
        if dtype == "bf16":
            return self.cast("bitcast", value, "i16")
        return self.cast("extui", value, "i8") if dtype == "i1" else value

    def stack(self, count: int, element: str = "f32", align: int = 64) -> Val:
        """A buffer on the stack that lives as long as the function. Not inside a loop."""
        size = self.const(count)
        return self.op(
            f"llvm.alloca {size} x {element} {{alignment = {align} : i64}} : (i64) -> {PTR}", PTR
        )

    def prefetch(self, pointer: Val, locality: int = 3) -> None:
        """Ask for a cache line to be read; 3 = into every level, 0 = not to be kept."""
        self.line(
            f'"llvm.intr.prefetch"({pointer}) <{{cache = 1 : i32, hint = {locality} : i32, '
            f"rw = 0 : i32}}> : ({PTR}) -> ()"
        )
