"""Element type names and PyTorch's dtypes; other constants of PyTorch by name."""

from typing import Any

import torch

TORCH_DTYPE: dict[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i1": torch.bool,
}


def named_constant(kind: str, name: str) -> Any:
    """A dtype, device, layout or memory format, as argument templates name them.

    >>> named_constant("dtype", "float32"), named_constant("device", "cpu")
    (torch.float32, device(type='cpu'))
    """
    return torch.device(name) if kind == "device" else getattr(torch, name)
