"""What the leaves of a call are called: the parameter, and the path below it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pydisc.frontend.outputs import register_known_containers


def argument_names(fn: Callable[..., Any], in_spec: pytree.TreeSpec) -> dict[int, str]:
    """A name for each leaf of (args, kwargs): `input_ids`, `batch['ids']`, `args[2]`."""
    tree = pytree.tree_unflatten(range(in_spec.num_leaves), in_spec)
    try:
        paths = pytree.tree_leaves_with_path(tree)
    except ValueError:  # a container registered without names for its parts
        return {i: f"args[{i}]" for i in range(in_spec.num_leaves)}
    names = _positional_names(fn)
    found: dict[int, str] = {}
    for path, leaf in paths:
        top, key, rest = cast(Any, path[0]), cast(Any, path[1]), path[2:]
        if top.idx == 1:
            base = str(key.key)
        else:
            base = names[key.idx] if key.idx < len(names) else f"args[{key.idx}]"
        found[leaf] = base + pytree.keystr(rest)
    return found


def tensor_shapes(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of a call, by name."""
    register_known_containers((args, kwargs))
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    names = argument_names(fn, spec)
    return {names[i]: tuple(x.shape) for i, x in enumerate(leaves) if isinstance(x, Tensor)}


def _positional_names(fn: Callable[..., Any]) -> list[str]:
    target = fn.forward if isinstance(fn, nn.Module) else fn
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds]
