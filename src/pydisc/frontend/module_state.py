"""Putting a module back to how it was before its forward ran under the tracer."""

from operator import is_
from typing import Any

import torch
from torch import nn

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

    def restore(
        self, leaks_matter: bool = True
    ) -> dict[tuple[int, str], tuple[torch.Tensor, TracedTensor]]:
        """Undo every change; return the buffers that were assigned: (old, new) by place.

        Raises Unsupported if a tensor of the trace was kept in another attribute: what the next
        call would read there is lost (unless the trace failed and its result does not matter).
        """
        assigned: dict[tuple[int, str], tuple[torch.Tensor, TracedTensor]] = {}
        leaks: list[str] = []
        for number, (name, attributes, before, contents) in enumerate(self._saved):
            if _unchanged(attributes, before) and all(
                _unchanged(attributes[k], v) for k, v in contents.items()
            ):
                continue
            for key, value in list(attributes.items()):
                if key not in before:
                    leaks += _leaks(name, key, value)
                    del attributes[key]
            for key, value in before.items():
                if attributes.get(key) is not value:
                    leaks += _leaks(name, key, attributes.get(key))
                    attributes[key] = value
                if key in contents and not _same(value, contents[key]):
                    found = _changed(value, contents[key])
                    if key == "_buffers":
                        for entry in list(found):
                            pair = contents[key].get(entry), found[entry]
                            if isinstance(pair[0], torch.Tensor) and isinstance(
                                pair[1], TracedTensor
                            ):
                                assigned[number, entry] = pair  # pyright: ignore
                                del found[entry]
                    for entry, new in found.items():
                        leaks += _leaks(name, key if key not in _TABLES else str(entry), new)
                    _refill(value, contents[key])
        torch.set_rng_state(self._random)
        if leaks and leaks_matter:
            raise Unsupported(
                f"attribute {leaks[0]}",
                "the forward keeps a tensor in it, which a compiled program does not do",
                "return the tensor, or register it as a buffer",
            )
        return assigned


def _unchanged(now: Any, before: Any) -> bool:
    """The usual case, quickly: the same objects in the same order."""
    if len(now) != len(before):
        return False
    if isinstance(now, dict):
        return all(map(is_, now, before)) and all(map(is_, now.values(), before.values()))
    return all(map(is_, now, before)) if isinstance(now, list) else now == before


def _same(a: Any, b: Any) -> bool:
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(k in b and v is b[k] for k, v in a.items())
    if isinstance(a, list):
        return all(x is y for x, y in zip(a, b, strict=True))
    return a == b


def _changed(now: Any, before: Any) -> dict[Any, Any]:
    if isinstance(now, dict):
        return {k: v for k, v in now.items() if v is not before.get(k)}
    if isinstance(now, set):
        return dict.fromkeys(now - before)
    return dict(enumerate(now))


def _refill(target: Any, content: Any) -> None:
    target.clear()
    if isinstance(target, list):
        target.extend(content)
    else:
        target.update(content)


def _leaks(module: str, attribute: str, value: Any) -> list[str]:
    leaves = torch.utils._pytree.tree_leaves(value)
    if any(isinstance(leaf, TracedTensor) for leaf in leaves):
        return [f"{module}.{attribute}" if module else attribute]
    return []
