"""Scaled dot-product attention, written out so that fusion can take it together."""

import math
from typing import Any

from pydisc.frontend.dtypes import compute_dtype
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.linalg import batched_dot
from pydisc.frontend.lowerings.reduce import softmax_along
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value
from pydisc.shape import Dim


@lowering("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    cx: Cx,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Value:
    """softmax(scale * q k^T + mask) v; a row that may attend to nothing gives 0."""
    if dropout_p > 0.0 or min(len(x.shape) for x in (q, k, v)) < 2:
        return NotImplemented
    if enable_gqa:
        k, v = (_repeat_heads(cx, x, q.shape[-3]) for x in (k, v))
    cx.require_equal(q.shape[-1], k.shape[-1], "attention: the sizes of a head")
    cx.require_equal(k.shape[-2], v.shape[-2], "attention: the numbers of keys and values")
    lead = cx.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (cx.broadcast(x, (*lead, *x.shape[-2:])) for x in (q, k, v))
    scores = cx.convert(batched_dot(cx, q, k, -1, -1), compute_dtype(q.dtype))
    scores = cx.binary("multiply", scores, _scale(cx, q, scale, scores.dtype), scores.dtype)
    if is_causal:
        scores = cx.select(_lower_triangle(cx, scores.shape), scores, -math.inf)
    if mask is not None:
        scores = _masked(cx, scores, mask)
    weights = softmax_along(cx, scores, len(scores.shape) - 1, total=mask is not None)
    return batched_dot(cx, cx.convert(weights, v.dtype), v, -1, -2)


def _scale(cx: Cx, q: Value, scale: Any, dtype: str) -> Any:
    """The number that scores are multiplied with."""
    if scale is not None:
        return scale
    width = q.shape[-1]
    if isinstance(width, Dim):
        return cx.unary("rsqrt", cx.scalar(width, dtype))
    return 1.0 / math.sqrt(width) if width else 1.0


def _repeat_heads(cx: Cx, x: Value, heads: Any) -> Value:
    """Each head of x repeated until there are as many as q has."""
    mine = x.shape[-3]
    if mine is heads or mine == heads:
        return x
    times = cx.quotient(heads, mine)
    axis = len(x.shape) - 3
    wide = (*x.shape[: axis + 1], times, *x.shape[axis + 1 :])
    dims = [i for i in range(len(wide)) if i != axis + 1]
    return cx.reshape(cx.broadcast(x, wide, dims), (*x.shape[:axis], heads, *x.shape[axis + 1 :]))


def _lower_triangle(cx: Cx, shape: tuple[Any, ...]) -> Value:
    """Key index <= query index, aligned at the upper left."""
    key = ("lower triangle", shape[-2:])
    found = cx.memo.get(key)
    if found is None:
        rows, columns = (cx.iota(shape[-2:], axis) for axis in (0, 1))
        found = cx.memo[key] = cx.b.compare("GE", rows, columns)
    return cx.broadcast(found, shape)


def _masked(cx: Cx, scores: Value, mask: Value) -> Value:
    """A bool mask keeps a score or makes it -inf; any other is added."""
    if mask.dtype == "i1":
        known = cx.scalars.get(mask)
        if known is True:
            return scores
        return cx.select(mask, scores, -math.inf)
    return cx.binary("add", scores, cx.convert(mask, scores.dtype))
