"""Element types: torch's, the IR's names for them, and torch's rules of promotion between them."""

from functools import cache
from typing import Any

import torch

from pydisc.ir.builder import Value
from pydisc.ir.types import FLOATS
from pydisc.shape import Dim, Real
from pydisc.support.errors import Unsupported

NAME_OF: dict[torch.dtype, str] = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
}
TORCH_OF: dict[str, torch.dtype] = {name: dtype for dtype, name in NAME_OF.items()}

Number = bool | int | float | Dim | Real
"""What stands for a scalar in a rule: a Python number, or one computed from sizes."""


def name_of(dtype: torch.dtype) -> str:
    """The IR's name of an element type; raises Unsupported if it has none."""
    found = NAME_OF.get(dtype)
    if found is None:
        raise Unsupported(str(dtype), "tensors of this element type are not compiled")
    return found


def default_float() -> str:
    """The name of torch's default element type."""
    return NAME_OF[torch.get_default_dtype()]


def category(dtype: str) -> int:
    """0 bool, 1 integer, 2 float."""
    return 2 if dtype in FLOATS else 0 if dtype == "i1" else 1


@cache
def promote(a: str, b: str) -> str:
    """The element type that holds both, as torch has it."""
    return NAME_OF[torch.promote_types(TORCH_OF[a], TORCH_OF[b])]


def dtype_of_number(x: Number) -> str:
    """What a scalar counts as in promotion."""
    if isinstance(x, bool):
        return "i1"
    return "i64" if isinstance(x, int | Dim) else default_float()


def result_dtype(*operands: Value | Number | Any) -> str:
    """torch.result_type: tensors before 0-d tensors before scalars, within one category."""
    best: list[str | None] = [None, None, None]
    for x in operands:
        if isinstance(x, Value):
            rank, dtype = (0 if x.shape else 1), x.dtype
        elif isinstance(x, bool | int | float | Dim | Real):
            rank, dtype = 2, dtype_of_number(x)
        else:
            continue
        known = best[rank]
        best[rank] = dtype if known is None or known == dtype else promote(known, dtype)
    result: str | None = None
    for dtype in best:
        if dtype is not None and (result is None or category(dtype) > category(result)):
            result = dtype
    assert result is not None
    return result


def float_dtype(dtype: str) -> str:
    """The type of a float function's result on this type."""
    return dtype if dtype in FLOATS else default_float()


def compute_dtype(dtype: str) -> str:
    """The type in which sums and transcendental functions of this float type are computed."""
    return "f32" if dtype in ("f16", "bf16") else dtype
