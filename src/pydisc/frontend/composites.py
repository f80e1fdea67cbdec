"""Ops whose result may be their argument or a view of it: decided on tensors, not on values."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pydisc.frontend import views
from pydisc.support.errors import Unsupported
from pydisc.support.source import current_source_line

Composite = Callable[..., Any]
_composites: dict[str, Composite] = {}
aten = torch.ops.aten


def _composite(*overloads: str) -> Callable[[Composite], Composite]:
    def register(fn: Composite) -> Composite:
        for overload in overloads:
            _composites[overload] = fn
        return fn

    return register


def composite_of(overload: str) -> Composite | None:
    """What builds an overload out of tensors; it may return NotImplemented."""
    return _composites.get(overload)


def _run(tracer: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    return tracer.dispatch(op, args, kwargs)


@_composite("aten.reshape.default")
def reshape(tracer: Any, x: Any, shape: Sequence[Any]) -> Any:
    """A view where strides allow it, else a copy: as in eager mode, for the sake of writes."""
    x = tracer.traced(x)
    value = tracer.value_of(x)
    target = tracer.cx.infer_shape(value.shape, tracer._convert(shape))
    if target == value.shape:
        return _run(tracer, aten.alias.default, x)
    if x._strides is None or views.reshape_without_copy(value.shape, x._strides, target):
        return _run(tracer, aten.view.default, x, target)
    out = _run(tracer, aten._unsafe_view.default, x, target)
    tracer.copied_reshape(out, x)
    return out


@_composite("aten.as_strided.default")
def as_strided(tracer: Any, x: Tensor, *_: Any, **__: Any) -> Any:
    """Left to the framework, which sees every tensor without gaps."""
    if tracer.traced(x)._strides is not None:
        raise Unsupported("as_strided", "the tensor is not contiguous")
    return NotImplemented


@_composite("aten.flatten.using_ints")
def flatten(tracer: Any, x: Tensor, start: int = 0, end: int = -1) -> Any:
    """Neighbouring dims as one."""
    value = tracer.value_of(x)
    if not value.shape:
        return reshape(tracer, x, [1])
    first, last = tracer.cx.axis(value, start), tracer.cx.axis(value, end)
    if first == last:
        return x
    together = tracer.cx.product(value.shape[first : last + 1])
    return reshape(tracer, x, [*value.shape[:first], together, *value.shape[last + 1 :]])


@_composite("aten.unflatten.int")
def unflatten(tracer: Any, x: Tensor, dim: int, sizes: Sequence[Any]) -> Any:
    """One dim as several."""
    value = tracer.value_of(x)
    axis = tracer.cx.axis(value, dim)
    parts = tracer.cx.infer_shape((value.shape[axis],), tracer._convert(sizes))
    return _run(
        tracer, aten.view.default, x, [*value.shape[:axis], *parts, *value.shape[axis + 1 :]]
    )


@_composite("aten.view_as.default")
def view_as(tracer: Any, x: Tensor, other: Tensor) -> Any:
    """In the shape of another."""
    return _run(tracer, aten.view.default, x, tracer.value_of(other).shape)


@_composite("aten.reshape_as.default")
def reshape_as(tracer: Any, x: Tensor, other: Tensor) -> Any:
    """In the shape of another."""
    return reshape(tracer, x, tracer.value_of(other).shape)


@_composite("aten.expand_as.default")
def expand_as(tracer: Any, x: Tensor, other: Tensor) -> Any:
    """Repeated to the shape of another."""
    return _run(tracer, aten.expand.default, x, tracer.value_of(other).shape)


@_composite("aten.contiguous.default")
def contiguous(tracer: Any, x: Any, **_: Any) -> Any:
    """Itself, or a copy without gaps."""
    x = tracer.traced(x)
    return x if x._strides is None else _run(tracer, aten.clone.default, x)


def _to(tracer: Any, x: Tensor, dtype: Any, device: Any, copy: bool) -> Any:
    if dtype is None:
        dtype = x.dtype
    if device is not None and torch.device(device).type != x.device.type:
        raise Unsupported(
            f"moving a tensor to {device}",
            "a compiled program runs on one device",
            where=current_source_line(),
        )
    if dtype is x.dtype and not copy:
        return x
    return _run(tracer, aten._to_copy.default, x, dtype=dtype)


@_composite("aten.to.dtype")
def to_dtype(
    tracer: Any,
    x: Tensor,
    dtype: Any,
    non_blocking: bool = False,
    copy: bool = False,
    *_: Any,
    **__: Any,
) -> Any:
    """Element type conversion; itself if there is nothing to do."""
    return _to(tracer, x, dtype, None, copy)


@_composite("aten.to.dtype_layout")
def to_dtype_layout(
    tracer: Any, x: Tensor, *, dtype: Any = None, device: Any = None, copy: bool = False, **_: Any
) -> Any:
    """Element type conversion; itself if there is nothing to do."""
    return _to(tracer, x, dtype, device, copy)


@_composite("aten.to.device")
def to_device(
    tracer: Any,
    x: Tensor,
    device: Any,
    dtype: Any,
    non_blocking: bool = False,
    copy: bool = False,
    *_: Any,
    **__: Any,
) -> Any:
    """Element type conversion; itself if there is nothing to do."""
    return _to(tracer, x, dtype, device, copy)


@_composite("aten.to.other")
def to_other(
    tracer: Any,
    x: Tensor,
    other: Tensor,
    non_blocking: bool = False,
    copy: bool = False,
    *_: Any,
    **__: Any,
) -> Any:
    """In the element type of another."""
    return _to(tracer, x, other.dtype, other.device, copy)


@_composite("aten.type_as.default")
def type_as(tracer: Any, x: Tensor, other: Tensor) -> Any:
    """In the element type of another."""
    return _to(tracer, x, other.dtype, other.device, False)


@_composite("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")
def dropout(tracer: Any, x: Tensor, p: float, train: bool) -> Any:
    """Nothing, in evaluation mode."""
    return x if not train or p == 0 else NotImplemented


@_composite("aten.dropout_.default")
def dropout_(tracer: Any, x: Tensor, p: float, train: bool) -> Any:
    """Nothing, in evaluation mode."""
    return x if not train or p == 0 else NotImplemented


@_composite("aten.lift_fresh.default")
def lift_fresh(tracer: Any, x: Tensor) -> Any:
    """A tensor that Python just made of numbers: one number is a constant of the program."""
    if type(x) is torch.Tensor and x.numel() == 1 and tracer.is_supported(x):
        value = tracer.cx.constant(x.item(), tracer.dtype_name(x))
        return tracer.wrap(tracer.cx.reshape(value, x.shape), x.device)
    return tracer.traced(x)


@_composite("aten._local_scalar_dense.default", "aten.item.default")
def item(tracer: Any, x: Tensor) -> Any:
    """The number in a tensor, if the trace knows it."""
    known = tracer.cx.scalars.get(tracer.value_of(x))
    return NotImplemented if known is None else known


@_composite("aten.is_nonzero.default")
def is_nonzero(tracer: Any, x: Tensor) -> Any:
    """Whether the number in a tensor is not 0, if the trace knows it."""
    known = tracer.cx.scalars.get(tracer.value_of(x))
    return NotImplemented if known is None else bool(known)


@_composite(
    *("aten._assert_async.default", "aten._assert_async.msg"),
    *("aten._assert_tensor_metadata.default", "aten._assert_scalar.default"),
)
def assert_async(tracer: Any, *_: Any, **__: Any) -> None:
    """Checks of the data are not compiled."""
