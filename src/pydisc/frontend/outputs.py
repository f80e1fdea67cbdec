"""What the traced function returned, taken apart into leaves and described."""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from pydisc.frontend.traced_tensor import TracedTensor
from pydisc.support.errors import Unsupported

_LEAVES = (
    *(Tensor, torch.SymInt, torch.SymFloat, torch.SymBool),
    *(int, float, bool, str, bytes, type(None), torch.dtype, torch.device),
)


def register_known_containers(tree: Any) -> None:
    """Teach pytree the key-value caches of transformers that occur in a tree."""
    for leaf in pytree.tree_leaves(tree):
        kind = type(leaf)
        if _is_dynamic_cache(kind) and kind not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(
                kind,
                _flatten_cache,
                _unflatten_cache,
                serialized_type_name=f"{kind.__module__}.{kind.__name__}",
                flatten_with_keys_fn=_flatten_cache_with_keys,
            )


def _is_dynamic_cache(kind: type) -> bool:
    return kind.__name__ == "DynamicCache" and kind.__module__.startswith("transformers.")


def _flatten_cache(cache: Any) -> tuple[list[Any], Any]:
    """Keys and values of each layer, which must be plain; the context is how to make it anew."""
    for layer in cache.layers:
        if type(layer).__name__ != "DynamicLayer":
            raise Unsupported(
                f"a cache layer of type {type(layer).__name__}", "only DynamicLayer is known"
            )
    filled = [layer.is_initialized for layer in cache.layers]
    tensors = [
        t for layer in cache.layers if layer.is_initialized for t in (layer.keys, layer.values)
    ]
    return tensors, (type(cache), tuple(filled), tuple(type(layer) for layer in cache.layers))


def _flatten_cache_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], Any]:
    tensors, context = _flatten_cache(cache)
    filled = [i for i, is_filled in enumerate(context[1]) if is_filled]
    keys = [pytree.GetAttrKey(f"layers[{i}].{name}") for i in filled for name in ("keys", "values")]
    return list(zip(keys, tensors, strict=True)), context


def _unflatten_cache(values: Any, context: Any) -> Any:
    kind, filled, layer_types = context
    cache = kind()
    tensors = iter(values)
    layers = []
    for layer_type, is_filled in zip(layer_types, filled, strict=True):
        layer = layer_type()
        if is_filled:
            layer.keys, layer.values = next(tensors), next(tensors)
            layer.is_initialized = True
            if isinstance(layer.keys, Tensor):
                layer.dtype, layer.device = layer.keys.dtype, layer.keys.device
        layers.append(layer)
    if layers:
        cache.layers = layers
    return cache


def flatten_result(result: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Leaves and structure of a result; Unsupported if a leaf is an object that hides tensors."""
    register_known_containers(result)
    leaves, spec = pytree.tree_flatten(result)
    for leaf in leaves:
        if not isinstance(leaf, _LEAVES) and _hides_tensor(leaf, 3):
            raise Unsupported(
                f"returning an object of type {type(leaf).__name__}",
                "it holds tensors, and pytree does not know how to take it apart",
                "return a tuple or a dict, or register the class with torch.utils._pytree",
            )
    return leaves, spec


def _hides_tensor(value: Any, depth: int) -> bool:
    if isinstance(value, TracedTensor):
        return True
    if depth == 0:
        return False
    if isinstance(value, dict):
        inner: Any = value.values()
    elif isinstance(value, list | tuple | set):
        inner = value
    else:
        inner = getattr(value, "__dict__", {}).values()
    return any(_hides_tensor(v, depth - 1) for v in inner)
