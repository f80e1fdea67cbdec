"""Why a call runs in eager mode whatever its trace, in the words of both APIs."""

from collections.abc import Hashable, Iterable

import torch

from pydisc.compiler.report import Fallback
from pydisc.support.log import warn_once

GRADIENTS = Fallback(
    "a call",
    "gradients are enabled, and an input or a parameter requires them; call it under "
    "torch.no_grad() or torch.inference_mode() to run compiled code",
    "",
)
"""Compiled code computes no gradients: its results would not require them, as eager's do."""


def needs_grad(tensors: Iterable[torch.Tensor], module: torch.nn.Module | None) -> bool:
    """Whether results in eager mode would require gradients, if those are enabled."""
    if any(t.requires_grad for t in tensors):
        return True
    return module is not None and any(p.requires_grad for p in module.parameters())


def device_of(module: torch.nn.Module) -> torch.device | None:
    """The one device that a module's tensors are on, None if there is not one."""
    devices = {t.device for t in (*module.parameters(), *module.buffers())}
    return devices.pop() if len(devices) == 1 else None


def warn_fallback(owner: Hashable, why: Fallback) -> None:
    """Say once for each owner that something runs in eager mode; about gradients once at all."""
    key = why if why is GRADIENTS else (owner, why)
    warn_once(key, f"{why.what} runs in eager mode: {why.reason}")
