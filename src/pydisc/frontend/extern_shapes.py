"""Sizes of the results of ops that are left to the framework, where we know the rule ourselves.

torch's own meta kernels know all of them, but those of some ops import `symbolic_shapes` and sympy
with it: a second or more at the first such op of a process, which is many times the trace.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pydisc.frontend.lowerings.context import LoweringContext, Shape
from pydisc.ir.builder import Value
from pydisc.shape import Size

ShapeRule = Callable[..., Shape]
"""(cx, *args, **kwargs) -> shape of the one result, which has the type of the first argument."""


def convolution(
    cx: LoweringContext,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: int,
) -> Shape:
    """[B, C, ...] by [O, C / groups, ...], or by [C, O / groups, ...] if transposed."""
    n = len(weight.shape) - 2
    into = weight.shape[0] if transposed else weight.shape[1] * groups
    out = weight.shape[1] * groups if transposed else weight.shape[0]
    cx.require_equal(x.shape[1], into, "convolution: the channels")
    spatial: list[Size] = []
    for i in range(n):
        step, edge, spread, more = (
            values[i if len(values) > 1 else 0]
            for values in (stride, padding, dilation, output_padding)
        )
        size, reach = x.shape[2 + i], spread * (weight.shape[2 + i] - 1)
        if transposed:
            whole = (size - 1) * step - 2 * edge + reach + more + 1
        else:
            room = size + 2 * edge - reach - 1
            cx.require_at_least(room, 0, "convolution: the kernel is larger than the input")
            whole = room // step + 1
        cx.require_at_least(whole, 0, "convolution: the size of the result")
        spatial.append(whole)
    return (x.shape[0], out, *spatial)


_RULES: dict[str, ShapeRule] = {"aten.convolution.default": convolution}


def shape_rule_of(overload: str) -> ShapeRule | None:
    """The rule of an overload."""
    return _RULES.get(overload)
