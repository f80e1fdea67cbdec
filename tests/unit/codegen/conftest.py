"""Compiling and calling generated CPU code from tests."""

import ctypes
from collections.abc import Callable

import pytest
import torch

from pydisc.codegen.common.assembly_text import Text
from pydisc.codegen.cpu.jit import compile_to_object
from pydisc.runtime.object_code import ObjectCode


def load(t: Text) -> ObjectCode:
    """Compile a text and load it."""
    return ObjectCode(compile_to_object(t.module()))


def c_function(code: ObjectCode, name: str, args: tuple[tuple[str, str], ...]) -> Callable:
    """A public function without results, by the argument list it was emitted with."""
    types = [ctypes.c_int64 if type_ == "i64" else ctypes.c_void_p for _, type_ in args]
    function = ctypes.CFUNCTYPE(None, *types)(code.address(name))

    def call(*values: object) -> None:
        function(*[v.data_ptr() if isinstance(v, torch.Tensor) else v for v in values])

    call.code = code  # type: ignore[attr-defined]
    return call


def aligned(count: int, fill: float = 7.0) -> torch.Tensor:
    """A f32 tensor at an address divisible by 64."""
    x = torch.full((count + 16,), fill)
    offset = -x.data_ptr() // 4 % 16
    return x[offset : offset + count]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
