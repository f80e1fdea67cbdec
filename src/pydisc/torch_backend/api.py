"""The functions that users call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pydisc.shape import DeclaredDims, DimExpression
from pydisc.torch_backend.compiled import CompiledModel

Dims = Mapping[str, Mapping[int, DimExpression | int]]
"""By name of a tensor argument and number of its dim: a `pydisc.Dim`, an expression, an int."""


def compile(model: Callable[..., Any], *, dims: Dims | None = None) -> CompiledModel:
    """Compile a model (or a function of tensors) at its first call, once for every shape.

    Every dim of every tensor argument is symbolic; no size is special, 0 and 1 included. Another
    Python branch of the model on a size is traced when a call first takes it. Assumes the model's
    Python state, apart from its parameters and buffers, does not change between calls.

    `dims` says what is known of sizes, and the code relies on it: ranges and divisors
    (`{"input_ids": {0: Dim("batch", max=64), 1: Dim("seq", max=512, multiple_of=8)}}`), relations
    (`seq + past`), static sizes (`{"image": {1: 3}}`). A call outside is a ValueError that names
    the argument and the dim. An argument inside a structure goes by its path: `batch['ids']`.
    """
    if not callable(model):
        raise ValueError(f"model: expected a module or a function, got {type(model).__name__}")
    return CompiledModel(model, DeclaredDims(dims) if dims else None)


def optimize(
    model: Callable[..., Any],
    example_inputs: Sequence[Any] | Mapping[str, Any] | torch.Tensor,
    *,
    dims: Dims | None = None,
) -> CompiledModel:
    """Compile a model now, from example inputs of any sizes, as one whole graph.

    `example_inputs`: positional arguments (a sequence or one tensor) or named ones (a mapping).
    `dims`: as for `compile`.
    Raises Unsupported if the model cannot be compiled, instead of running it in eager mode.
    """
    compiled = compile(model, dims=dims)
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
