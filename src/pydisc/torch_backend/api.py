"""The functions that users call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pydisc.torch_backend.compiled import CompiledModel


def compile(model: Callable[..., Any]) -> CompiledModel:
    """Compile a model (or a function of tensors) at its first call, once for every shape.

    Every dim of every tensor argument is symbolic; no size is special, 0 and 1 included. Another
    Python branch of the model on a size is traced when a call first takes it. Assumes the model's
    Python state, apart from its parameters and buffers, does not change between calls.
    """
    if not callable(model):
        raise ValueError(f"model: expected a module or a function, got {type(model).__name__}")
    return CompiledModel(model)


def optimize(
    model: Callable[..., Any],
    example_inputs: Sequence[Any] | Mapping[str, Any] | torch.Tensor,
) -> CompiledModel:
    """Compile a model now, from example inputs of any sizes, as one whole graph.

    `example_inputs`: positional arguments (a sequence or one tensor) or named ones (a mapping).
    Raises Unsupported if the model cannot be compiled, instead of running it in eager mode.
    """
    compiled = compile(model)
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(example_inputs, torch.Tensor):
        args = (example_inputs,)
    elif isinstance(example_inputs, Mapping):
        kwargs = dict(example_inputs)
    else:
        args = tuple(example_inputs)
    with torch.no_grad():
        compiled.precompile(*args, **kwargs)
    return compiled
