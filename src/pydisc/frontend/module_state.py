"""Putting a module back to how it was before its forward ran under the tracer."""

from operator import is_
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pydisc.frontend.traced_tensor import TracedTensor
from pydisc.support.errors import Unsupported

_TABLES = ("_parameters", "_buffers", "_modules")
_CONTAINERS = (list, dict, set)


class ModuleState:
    """A snapshot of every attribute of a module tree, and of the random number generator.

    Containers in attributes are copied one level deep.
    """

    def __init__(self, module: nn.Module | None) -> None:
        self._module = module
        self._modules = list(module.named_modules()) if module is not None else []
        self._saved: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = []
        for name, sub in self._modules:
            attributes = sub.__dict__
            contents = {k: type(v)(v) for k, v in attributes.items() if type(v) in _CONTAINERS}
            self._saved.append((name, attributes, dict(attributes), contents))
        self._random = torch.get_rng_state()

    def restore(self, leaks_matter: bool = True) -> list[tuple[torch.Tensor, TracedTensor]]:
        """Undo every change; return the buffers that were assigned, as (old, new).

        Raises Unsupported if a tensor of the trace was kept in another attribute: what the next
        call would read there is lost (unless the trace failed and its result does not matter).
        """
        assigned: list[tuple[torch.Tensor, TracedTensor]] = []
        leaks: list[str] = []
        for name, attributes, before, contents in self._saved:
            if _unchanged(attributes, before) and all(
                _unchanged(attributes[k], v) for k, v in contents.items()
            ):
                continue
            leaks += _restore_attributes(name, attributes, before)
            for key, content in contents.items():
                buffers = assigned if key == "_buffers" else None
                leaks += _restore_container(name, key, before[key], content, buffers)
        torch.set_rng_state(self._random)
        if leaks and leaks_matter:
            raise Unsupported(
                f"attribute {leaks[0]}",
                "the forward keeps a tensor in it, which a compiled program does not do",
                "return the tensor, or register it as a buffer",
            )
        return assigned


def _restore_attributes(name: str, now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Put attributes back; return those in which a tensor of the trace was left."""
    leaks: list[str] = []
    for key, value in list(now.items()):
        if key not in before:
            leaks += _leaks(name, key, value)
            del now[key]
    for key, value in before.items():
        if now.get(key) is not value:
            leaks += _leaks(name, key, now.get(key))
            now[key] = value
    return leaks


def _restore_container(
    name: str,
    key: str,
    now: Any,
    before: Any,
    buffers: list[tuple[torch.Tensor, TracedTensor]] | None,
) -> list[str]:
    """Put a container's content back. A buffer that was assigned is no leak but a mutation."""
    if _unchanged(now, before):
        return []
    leaks: list[str] = []
    for entry, new in _changed(now, before).items():
        old = before.get(entry) if buffers is not None else None
        if buffers is not None and isinstance(old, torch.Tensor) and isinstance(new, TracedTensor):
            buffers.append((old, new))
        else:
            leaks += _leaks(name, str(entry) if key in _TABLES else key, new)
    now.clear()
    if isinstance(now, list):
        now.extend(before)
    else:
        now.update(before)
    return leaks


def _unchanged(now: Any, before: Any) -> bool:
    """The usual case, quickly: the same objects in the same order."""
    if len(now) != len(before):
        return False
    if not now:
        return True
    if isinstance(now, dict):
        return all(map(is_, now, before)) and all(map(is_, now.values(), before.values()))
    return all(map(is_, now, before)) if isinstance(now, list) else now == before


def _changed(now: Any, before: Any) -> dict[Any, Any]:
    if isinstance(now, dict):
        return {k: v for k, v in now.items() if v is not before.get(k)}
    if isinstance(now, set):
        return dict.fromkeys(now - before)
    return dict(enumerate(now))


def _leaks(module: str, attribute: str, value: Any) -> list[str]:
    leaves = pytree.tree_leaves(value)
    if any(isinstance(leaf, TracedTensor) for leaf in leaves):
        return [f"{module}.{attribute}" if module else attribute]
    return []
