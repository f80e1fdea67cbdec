"""Operators of the framework by name, and calls of them from argument templates."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch

from pydisc.artifact.extern_args import decode
from pydisc.artifact.view_step import ViewStep
from pydisc.runtime.dtypes import named_constant


@cache
def operator(target: str) -> Any:
    """`aten.add.Tensor` to the operator."""
    found: Any = torch.ops
    for part in target.split("."):
        found = getattr(found, part)
    return found


def call_operator(
    target: str, template: str, tensors: Sequence[torch.Tensor], env: Mapping[str, int]
) -> Any:
    """Call an operator; `env` holds the values of the symbols in the template."""
    args, kwargs = decode(template, tensors, env, named_constant)
    return operator(target)(*args, **kwargs)


def apply_views(
    base: torch.Tensor, steps: Sequence[ViewStep], env: Mapping[str, int]
) -> torch.Tensor:
    """The view of a tensor that these steps make in turn."""
    for step in steps:
        result = call_operator(step.target, step.template, [base], env)
        base = result if step.index is None else result[step.index]
    return base
