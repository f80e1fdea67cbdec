"""The tensor that stands for a value of the program while user code runs."""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from pydisc.ir.builder import Value


class TracedTensor(Tensor):
    """A tensor without data: sizes and strides are symbolic, `_value` is its content in the IR.

    A view also knows its base, so that writes go through it (see `views`).
    """

    _tracer: Any
    _value: Value
    _strides: tuple[Any, ...] | None
    """None for row-major without gaps."""
    _writes: int
    """Raised by each write to it."""
    _view: Any
    """How it was made, if it is a view."""
    _is_argument: bool
    """Whether it is an input or weight of the program: then its real strides may be others."""

    @staticmethod
    def __new__(
        cls: Any,
        tracer: Any,
        value: Value,
        sizes: list[Any],
        strides: list[Any],
        dtype: torch.dtype,
        device: torch.device,
    ) -> Any:
        """Made by `Tracer.wrap` only."""
        # Else torch computes one from all sizes and strides, at four times the cost.
        out = Tensor._make_wrapper_subclass(
            cls, sizes, strides=strides, dtype=dtype, device=device, storage_size=0
        )
        out._tracer = tracer
        out._value = value
        out._strides = None
        out._writes = 0
        out._view = None
        out._is_argument = False
        return out

    def __init__(self, *_: Any) -> None:
        """Nothing: `__new__` did it."""

    # Functions of torch reach `__torch_dispatch__` without a detour through Python.
    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore

    @classmethod
    def __torch_dispatch__(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Only where the tracer's mode is off, inside of torch's own Python."""
        for arg in pytree.tree_leaves((args, kwargs)):
            if isinstance(arg, TracedTensor):
                return arg._tracer.dispatch(func, args, kwargs or {})
        return NotImplemented

    def contiguous(self, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
        """Through dispatch in any case: torch's own answers for an argument without asking."""
        op = torch.ops.aten.contiguous.default
        return self._tracer.dispatch(op, (self,), {"memory_format": memory_format})

    def __repr__(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Shape and type: there are no elements to show."""
        return f"TracedTensor({list(self._value.shape)}, {self.dtype})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refused: there is nothing to save."""
        raise TypeError("a tensor of a program under trace cannot be pickled or copied deeply")
