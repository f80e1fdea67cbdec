"""Noticing that a module got another parameter or buffer under a name that a program uses.

PyTorch calls global hooks whenever a parameter or buffer is registered, which assigning an
attribute does. They only count; a compiled model looks again when the count has moved.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.modules import module as nn_module

REGISTRATIONS = [0]
"""How many parameters and buffers were registered in this process."""


def _count(*_: Any) -> None:
    REGISTRATIONS[0] += 1


nn_module.register_module_parameter_registration_hook(_count)
nn_module.register_module_buffer_registration_hook(_count)


class WeightSources:
    """Where the weights of a program live in a module."""

    def __init__(
        self, module: torch.nn.Module | None, names: Sequence[str], tensors: Sequence[torch.Tensor]
    ) -> None:
        self._places: list[tuple[dict[str, Any], str] | None] = []
        self._tensors = list(tensors)
        for name, tensor in zip(names, tensors, strict=True):
            self._places.append(_place(module, name, tensor))

    def replaced(self) -> dict[int, torch.Tensor | None]:
        """Weights that are another tensor now, by number; None where there is none any more."""
        found: dict[int, torch.Tensor | None] = {}
        for number, place in enumerate(self._places):
            if place is not None and place[0].get(place[1]) is not self._tensors[number]:
                found[number] = place[0].get(place[1])
        return found

    def accept(self, number: int, tensor: torch.Tensor) -> bool:
        """Take a replacement if it has the old one's shape, dtype and device."""
        old = self._tensors[number]
        if (tensor.shape, tensor.dtype, tensor.device) != (old.shape, old.dtype, old.device):
            return False
        self._tensors[number] = tensor
        return True


def _place(
    module: torch.nn.Module | None, name: str, tensor: torch.Tensor
) -> tuple[dict[str, Any], str] | None:
    """The dictionary of a submodule that holds a tensor under the last part of a name."""
    if module is None:
        return None
    path, _, last = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        return None
    for found in (owner._parameters, owner._buffers):
        if found.get(last) is tensor:
            return found, last
    return None
