"""The import name of BladeDISC, kept for scripts that use it; everything here is pydisc."""

from typing import Any

import torch

import pydisc
from pydisc import torch_backend as torch_backend

__all__ = ["optimize"]


def optimize(
    original_model: torch.nn.Module,
    allow_tracing: bool = True,
    model_inputs: tuple[Any, ...] | torch.Tensor | None = None,
) -> Any:
    """Compile ahead of the first call, as `pydisc.optimize` does.

    `allow_tracing` is accepted for the sake of old scripts: pydisc always traces.
    """
    if model_inputs is None:
        return pydisc.compile(original_model)
    inputs = (model_inputs,) if isinstance(model_inputs, torch.Tensor) else model_inputs
    return pydisc.optimize(original_model, inputs)
