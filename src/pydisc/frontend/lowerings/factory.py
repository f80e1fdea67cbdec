"""Tensors made of nothing: ranges and constants."""

import math
from collections.abc import Sequence
from typing import Any

from pydisc.frontend.dtypes import Number, default_float, dtype_of_number, name_of
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value
from pydisc.shape import Dim, Size


def _dtype(dtype: Any, default: str) -> str:
    return default if dtype is None else name_of(dtype)


@lowering("aten.arange.default")
def arange(cx: Cx, end: Number, **options: Any) -> Value:
    """0, 1, ... below end."""
    return arange_step(cx, 0, end, 1, **options)


@lowering("aten.arange.start")
def arange_start(cx: Cx, start: Number, end: Number, **options: Any) -> Value:
    """start, start + 1, ... below end."""
    return arange_step(cx, start, end, 1, **options)


@lowering("aten.arange.start_step")
def arange_step(
    cx: Cx, start: Any, end: Any, step: Any = 1, *, dtype: Any = None, **_: Any
) -> Value:
    """start, start + step, ... before end."""
    whole = all(isinstance(n, int | Dim) for n in (start, end, step))
    target = _dtype(dtype, "i64" if whole else default_float())
    if not whole:
        if not all(isinstance(n, int | float) for n in (start, end, step)):
            return NotImplemented
        index = cx.iota((max(math.ceil((end - start) / step), 0),), 0, "i64")
        return cx.binary("add", cx.binary("multiply", index, step, target), start, target)
    if isinstance(step, Dim):
        step = step.guard_int()
    length = _length(cx, start, end, step)
    out = cx.iota((length,), 0, target if target != "i1" else "i64")
    if step != 1:
        out = cx.binary("multiply", out, step)
    if not (isinstance(start, int) and start == 0):
        plain = cx.iotas.get(out)
        out = cx.binary("add", out, start)
        if plain is not None:
            cx.iotas[out] = type(plain)(plain.axis, start)
    return cx.convert(out, target)


def _length(cx: Cx, start: Size, end: Size, step: int) -> Size:
    span = end - start if step > 0 else start - end  # pyright: ignore[reportOperatorIssue]
    size = abs(step)
    length = span if size == 1 else (span + (size - 1)) // size
    if isinstance(length, int):
        return max(length, 0)
    return length if cx.holds(length, "ge", 0) else 0


@lowering("aten.full.default")
def full(cx: Cx, shape: Sequence[Size], value: Number, *, dtype: Any = None, **_: Any) -> Value:
    """One number in a shape."""
    return cx.full(shape, value, _dtype(dtype, dtype_of_number(value)))


@lowering("aten.full_like.default")
def full_like(cx: Cx, x: Value, value: Number, *, dtype: Any = None, **_: Any) -> Value:
    """One number in the shape of x."""
    return cx.full(x.shape, value, _dtype(dtype, x.dtype))


@lowering("aten.new_full.default")
def new_full(
    cx: Cx, x: Value, shape: Sequence[Size], value: Number, *, dtype: Any = None, **_: Any
) -> Value:
    """One number in a shape, in the type of x."""
    return cx.full(shape, value, _dtype(dtype, x.dtype))


def _register(name: str, value: int) -> None:
    @lowering(f"aten.{name}.default")
    def plain(cx: Cx, shape: Sequence[Size], *, dtype: Any = None, **_: Any) -> Value:
        return cx.full(shape, value, _dtype(dtype, default_float()))

    @lowering(f"aten.{name}_like.default")
    def like(cx: Cx, x: Value, *, dtype: Any = None, **_: Any) -> Value:
        return cx.full(x.shape, value, _dtype(dtype, x.dtype))

    @lowering(f"aten.new_{name}.default")
    def new(cx: Cx, x: Value, shape: Sequence[Size], *, dtype: Any = None, **_: Any) -> Value:
        return cx.full(shape, value, _dtype(dtype, x.dtype))


_register("zeros", 0)
_register("ones", 1)
# What an empty tensor holds is not defined: zeros are as right as anything.
_register("empty", 0)


@lowering("aten.empty.memory_format")
def empty(cx: Cx, shape: Sequence[Size], *, dtype: Any = None, **_: Any) -> Value:
    """Undefined content: zeros."""
    return cx.full(shape, 0, _dtype(dtype, default_float()))


@lowering("aten.empty_strided.default")
def empty_strided(
    cx: Cx, shape: Sequence[Size], strides: Sequence[Size], *, dtype: Any = None, **_: Any
) -> Value:
    """Undefined content: zeros."""
    return cx.full(shape, 0, _dtype(dtype, default_float()))


@lowering("aten.scalar_tensor.default")
def scalar_tensor(cx: Cx, value: Number, *, dtype: Any = None, **_: Any) -> Value:
    """A number as a 0-d tensor."""
    return cx.scalar(value, _dtype(dtype, default_float()))


@lowering("aten.eye.default")
def eye(cx: Cx, n: Size, *, dtype: Any = None, **options: Any) -> Value:
    """The unit matrix."""
    return eye_m(cx, n, n, dtype=dtype)


@lowering("aten.eye.m")
def eye_m(cx: Cx, n: Size, m: Size, *, dtype: Any = None, **_: Any) -> Value:
    """Ones on the diagonal of a matrix."""
    same = cx.b.compare("EQ", cx.iota((n, m), 0), cx.iota((n, m), 1))
    return cx.convert(same, _dtype(dtype, default_float()))
