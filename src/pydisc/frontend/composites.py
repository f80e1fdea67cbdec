"""Ops whose result may be their argument or a view of it: decided on tensors, not on values."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pydisc.frontend import views
from pydisc.shape import size_hint
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


def _as_eager_has_it(view: Any, overload: str, *args: Any) -> Any:
    """A view that eager mode makes by another op, which copies where strides ask for it."""
    view._view.replay = overload, args
    return view


@_composite("aten.reshape.default")
def reshape(tracer: Any, x: Any, shape: Sequence[Any]) -> Any:
    """A view where strides allow it, else a copy: as in eager mode, for the sake of writes."""
    x = tracer.traced(x)
    value = tracer.value_of(x)
    target = tracer.cx.infer_shape(value.shape, tracer._convert(shape))
    if target == value.shape:
        return _as_eager_has_it(_run(tracer, aten.alias.default, x), "aten.reshape.default", target)
    if x._strides is None or views.reshape_without_copy(value.shape, x._strides, target):
        out = _run(tracer, aten.view.default, x, target)
        return _as_eager_has_it(out, "aten.reshape.default", target)
    out = _run(tracer, aten._unsafe_view.default, x, target)
    tracer.copied_reshape(out, x)
    return out


@_composite("aten.as_strided.default")
def as_strided(tracer: Any, x: Any, *_: Any, **__: Any) -> Any:
    """Left to the framework, which sees every tensor without gaps."""
    x = tracer.traced(x)
    if x._strides is not None:
        raise Unsupported("as_strided", "the tensor is not contiguous")
    tracer.require_dense(x)
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
def contiguous(tracer: Any, x: Any, *, memory_format: Any = torch.contiguous_format) -> Any:
    """Itself, or a copy without gaps."""
    x = tracer.traced(x)
    if x._strides is not None or memory_format is not torch.contiguous_format:
        return _run(tracer, aten.clone.default, x)
    if not views.root_of(x)._is_argument:
        return x
    return _as_eager_has_it(_run(tracer, aten.alias.default, x), "aten.contiguous.default")


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


@_composite("aten.addmv.default")
def addmv(
    tracer: Any, c: Tensor, x: Tensor, y: Tensor, *, beta: float = 1, alpha: float = 1
) -> Any:
    """beta * c + alpha * x @ y, for empty results too."""
    out = _run(tracer, aten.mv.default, x, y)
    if alpha != 1:
        out = _run(tracer, aten.mul.Tensor, out, alpha)
    return out if beta == 0 else _run(tracer, aten.add.Tensor, out, c, alpha=beta)


@_composite("aten.tensordot.default")
def tensordot(tracer: Any, x: Tensor, y: Tensor, dims_x: Any, dims_y: Any) -> Any:
    """Sums of products over pairs of dims, as one matrix product."""
    cx = tracer.cx
    left, right = tracer.value_of(x), tracer.value_of(y)
    inner_x = [cx.axis(left, d) for d in dims_x]
    inner_y = [cx.axis(right, d) for d in dims_y]
    for i, j in zip(inner_x, inner_y, strict=True):
        if size_hint(left.shape[i]) != size_hint(right.shape[j]):
            return NotImplemented  # a dim of size 1 is repeated, or it is an error
        cx.require_equal(left.shape[i], right.shape[j], "tensordot: contracted dims")
    outer_x = [i for i in range(len(left.shape)) if i not in inner_x]
    outer_y = [i for i in range(len(right.shape)) if i not in inner_y]
    rows, columns = [left.shape[i] for i in outer_x], [right.shape[i] for i in outer_y]
    inner = cx.product(left.shape[i] for i in inner_x)
    matrix_x = _run(tracer, aten.permute.default, x, [*outer_x, *inner_x])
    matrix_y = _run(tracer, aten.permute.default, y, [*inner_y, *outer_y])
    out = _run(
        tracer,
        aten.mm.default,
        reshape(tracer, matrix_x, [cx.product(rows), inner]),
        reshape(tracer, matrix_y, [inner, cx.product(columns)]),
    )
    return _run(tracer, aten.view.default, out, [*rows, *columns])


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
    return tracer.wrap(tracer.value_of(x), x.device)


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
