"""Views: what strides they have, and how a write to one becomes a new value of its base."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydisc.artifact.extern_args import encode
from pydisc.artifact.view_step import ViewStep
from pydisc.frontend.lowerings import layout
from pydisc.frontend.lowerings.context import LoweringContext
from pydisc.frontend.traced_tensor import TracedTensor
from pydisc.ir.builder import Value
from pydisc.shape import Dim, prove_eq
from pydisc.support.errors import Unsupported

Shape = tuple[Any, ...]
Strides = tuple[Any, ...] | None
"""None for row-major without gaps."""


@dataclass(slots=True)
class View:
    """How a view is made: `rule(cx, base, *args, **kwargs)`, of which element `index` if many."""

    base: Any
    overload: str
    rule: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    index: int | None
    base_version: int
    replay: tuple[str, Sequence[Any]] | None = None
    """(overload, arguments) of what eager mode runs on a real tensor, where that is another op:
    what is a view of a tensor without gaps may be a copy of one with gaps."""

    def step(self) -> ViewStep:
        """The view of a real tensor."""
        overload, args, kwargs = self.overload, self.args, self.kwargs
        if self.replay is not None:
            (overload, args), kwargs = self.replay, {}
        try:
            return ViewStep(overload, encode(({"t": 0}, *args), kwargs, _as_text), self.index)
        except TypeError as error:
            raise Unsupported(f"returning a view made by {overload}", str(error)) from None

    def read(self, cx: LoweringContext, base: Value) -> Value:
        """The view of a value of the base."""
        out = self.rule(cx, base, *self.args, **self.kwargs)
        return out if self.index is None else out[self.index]

    def write(self, cx: LoweringContext, base: Value, value: Value) -> Value:
        """The base after the view was set to a value."""
        scatter = _SCATTERS.get(self.overload)
        if scatter is None:
            raise Unsupported(
                f"writing through {self.overload}",
                "how the write changes the tensor behind the view is not known",
                "write to a slice of the tensor itself, or make a new tensor",
            )
        return scatter(cx, base, value, self)


def root_of(tensor: TracedTensor) -> TracedTensor:
    """What a view is a view of in the end."""
    while tensor._view is not None:
        tensor = tensor._view.base
    return tensor


def steps_of(tensor: TracedTensor) -> tuple[ViewStep, ...]:
    """How to make a view of the real tensor that its root stands for."""
    steps: list[ViewStep] = []
    while tensor._view is not None:
        steps.append(tensor._view.step())
        tensor = tensor._view.base
    return tuple(reversed(steps))


def _as_text(arg: Any) -> Any:
    return {"d": str(arg)} if isinstance(arg, Dim) else arg


# -- writing through ------------------------------------------------------------------------------
def _reshape_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    return cx.reshape(value, base.shape)


def _same(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    return value


def _transpose_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    return layout.transpose(cx, value, *view.args)


def _t_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    return layout.t(cx, value)


def _m_t_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    return layout.transpose(cx, value, -2, -1)


def _permute_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    order = [cx.axis(base, d) for d in view.args[0]]
    inverse = [0] * len(order)
    for i, axis in enumerate(order):
        inverse[axis] = i
    return cx.transpose(value, inverse)


def _slice_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    out = layout.slice_scatter(cx, base, value, *view.args, **view.kwargs)
    if out is NotImplemented:
        raise Unsupported("writing to a slice with a step", "only step 1 is compiled")
    return out


def _select_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    return layout.select_scatter(cx, base, value, *view.args, **view.kwargs)


def _part_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    """Of split, chunk: the parts that come before say where this one begins."""
    dim = view.kwargs.get("dim", view.args[1] if len(view.args) > 1 else 0)
    axis = cx.axis(base, dim)
    start: Any = 0
    for part in view.rule(cx, base, *view.args, **view.kwargs)[: view.index]:
        start = start + part.shape[axis]
    return layout.slice_scatter(cx, base, value, axis, start, start + value.shape[axis])


def _unbound_back(cx: LoweringContext, base: Value, value: Value, view: View) -> Value:
    dim = view.kwargs.get("dim", view.args[0] if view.args else 0)
    assert view.index is not None
    return layout.select_scatter(cx, base, value, dim, view.index)


_SCATTERS: dict[str, Callable[[LoweringContext, Value, Value, View], Value]] = {
    "aten.view.default": _reshape_back,
    "aten.unsqueeze.default": _reshape_back,
    "aten.squeeze.default": _reshape_back,
    "aten.squeeze.dim": _reshape_back,
    "aten.squeeze.dims": _reshape_back,
    "aten.detach.default": _same,
    "aten.alias.default": _same,
    "aten.transpose.int": _transpose_back,
    "aten.t.default": _t_back,
    "aten.mT.default": _m_t_back,
    "aten.permute.default": _permute_back,
    "aten.slice.Tensor": _slice_back,
    "aten.select.int": _select_back,
    "aten.split.Tensor": _part_back,
    "aten.split_with_sizes.default": _part_back,
    "aten.split.sizes": _part_back,
    "aten.chunk.default": _part_back,
    "aten.unbind.int": _unbound_back,
}


# -- strides --------------------------------------------------------------------------------------
def row_major(shape: Shape) -> Shape:
    """The strides of a shape without gaps, last dim fastest."""
    out: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        out.append(step)
        if not (isinstance(size, int) and size == 1):
            step = step * size
    return tuple(reversed(out))


def view_strides(
    overload: str, base_shape: Shape, base: Strides, args: Sequence[Any], out: Shape
) -> Strides:
    """The strides of a view."""
    if overload in _RESHAPES:
        if base is None:
            return None
        return reshaped(base_shape, base, out)
    rule = _STRIDES.get(overload)
    if rule is None:
        return None
    strides = rule(base_shape, base or row_major(base_shape), args, out)
    return None if strides == row_major(out) else strides


_RESHAPES = frozenset(
    ("aten.view.default", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
)


def _of_transpose(shape: Shape, strides: Shape, args: Sequence[Any], out: Shape) -> Shape:
    moved = list(strides)
    one, two = args[0] % len(shape), args[1] % len(shape)
    moved[one], moved[two] = moved[two], moved[one]
    return tuple(moved)


def _of_unsqueeze(shape: Shape, strides: Shape, args: Sequence[Any], out: Shape) -> Shape:
    axis = args[0] % len(out)
    step = strides[axis] * shape[axis] if axis < len(shape) else 1
    return (*strides[:axis], step, *strides[axis:])


def _of_expand(shape: Shape, strides: Shape, args: Sequence[Any], out: Shape) -> Shape:
    offset = len(out) - len(shape)
    kept = (
        0
        if isinstance(mine, int) and mine == 1 and not (isinstance(wide, int) and wide == 1)
        else step
        for mine, wide, step in zip(shape, out[offset:], strides, strict=True)
    )
    return (*(0 for _ in range(offset)), *kept)


def _of_slice(shape: Shape, strides: Shape, args: Sequence[Any], out: Shape) -> Shape:
    step = args[3] if len(args) > 3 else 1
    axis = (args[0] if args else 0) % len(shape)
    return tuple(s * step if i == axis else s for i, s in enumerate(strides))


def _of_select(shape: Shape, strides: Shape, args: Sequence[Any], out: Shape) -> Shape:
    axis = args[0] % len(shape)
    return (*strides[:axis], *strides[axis + 1 :])


def _keep(shape: Shape, strides: Shape, args: Sequence[Any], out: Shape) -> Shape:
    return strides


def _of_unbind(shape: Shape, strides: Shape, args: Sequence[Any], out: Shape) -> Shape:
    return _of_select(shape, strides, args or (0,), out)


_STRIDES: dict[str, Callable[[Shape, Shape, Sequence[Any], Shape], Shape]] = {
    "aten.transpose.int": _of_transpose,
    "aten.t.default": lambda shape, strides, args, out: tuple(reversed(strides)),
    "aten.mT.default": lambda shape, strides, args, out: (*strides[:-2], strides[-1], strides[-2]),
    "aten.permute.default": lambda shape, strides, args, out: tuple(strides[d] for d in args[0]),
    "aten.unsqueeze.default": _of_unsqueeze,
    "aten.expand.default": _of_expand,
    "aten.slice.Tensor": _of_slice,
    "aten.select.int": _of_select,
    "aten.unbind.int": _of_unbind,
    "aten.split.Tensor": _keep,
    "aten.split_with_sizes.default": _keep,
    "aten.split.sizes": _keep,
    "aten.chunk.default": _keep,
    "aten.detach.default": _keep,
    "aten.alias.default": _keep,
}


def reshaped(shape: Shape, strides: Shape, new: Shape) -> Strides:
    """The strides of a reshape that needs no copy; None also where it needs one."""
    found = reshape_without_copy(shape, strides, new)
    return None if found is None or found == row_major(new) else found


def reshape_without_copy(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides of the new shape over the same memory; None if there are none, or it is not known.

    Runs of old dims that lie without gaps are split among new dims, from the last one on.
    """
    old = [(s, t) for s, t in zip(shape, strides, strict=True) if not _is_one(s)]
    out: list[Any] = [1] * len(new)
    at = len(new) - 1
    while old:
        size, base = old.pop()
        run = size
        while old and prove_eq(old[-1][1], run * base):
            run = run * old.pop()[0]
        taken: Any = 1
        while at >= 0 and (_is_one(new[at]) or not prove_eq(taken, run)):
            out[at] = taken * base
            taken = taken * new[at]
            at -= 1
        if not prove_eq(taken, run):
            return None
    return tuple(out) if all(_is_one(s) for s in new[: at + 1]) else None


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1
