"""Products of matrices and convolutions that are products of matrices."""

from collections.abc import Sequence
from typing import Any

from pydisc.frontend.dtypes import Number
from pydisc.frontend.lowerings.context import LoweringContext as Cx
from pydisc.frontend.lowerings.registry import lowering
from pydisc.ir.builder import Value
from pydisc.ir.types import FLOATS


@lowering("aten.linear.default")
def linear(cx: Cx, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x contracted along its last dim with dim 1 of the weight [n, k]: no transpose, no reshape."""
    if len(weight.shape) != 2 or not x.shape:
        return NotImplemented
    last = len(x.shape) - 1
    cx.require_equal(
        x.shape[last], weight.shape[1], "linear: the last dim of the input and the weight"
    )
    out = cx.b.dot_general(x, weight, contract=([last], [1]))
    return out if bias is None else cx.binary("add", out, bias)


@lowering("aten.mm.default")
def mm(cx: Cx, x: Value, y: Value) -> Value:
    """[m, k] by [k, n]."""
    cx.require_equal(x.shape[1], y.shape[0], "mm: the inner dims")
    return cx.b.dot_general(x, y, contract=([1], [0]))


def _blend(cx: Cx, c: Value, product: Value, beta: Number, alpha: Number) -> Value:
    """beta * c + alpha * product."""
    if alpha != 1:
        product = cx.binary("multiply", product, alpha, product.dtype)
    if beta == 0:
        return product
    if beta != 1:
        c = cx.binary("multiply", c, beta, c.dtype)
    return cx.binary("add", product, c)


@lowering("aten.addmm.default")
def addmm(cx: Cx, c: Value, x: Value, y: Value, *, beta: Number = 1, alpha: Number = 1) -> Value:
    """beta * c + alpha * x @ y."""
    return _blend(cx, c, mm(cx, x, y), beta, alpha)


@lowering("aten.bmm.default")
def bmm(cx: Cx, x: Value, y: Value) -> Value:
    """[b, m, k] by [b, k, n]."""
    cx.require_equal(x.shape[0], y.shape[0], "bmm: the batches")
    cx.require_equal(x.shape[2], y.shape[1], "bmm: the inner dims")
    return cx.b.dot_general(x, y, batch=([0], [0]), contract=([2], [1]))


@lowering("aten.baddbmm.default")
def baddbmm(cx: Cx, c: Value, x: Value, y: Value, *, beta: Number = 1, alpha: Number = 1) -> Value:
    """beta * c + alpha * x @ y, by batches."""
    return _blend(cx, c, bmm(cx, x, y), beta, alpha)


@lowering("aten.mv.default")
def mv(cx: Cx, x: Value, y: Value) -> Value:
    """[m, k] by [k]."""
    cx.require_equal(x.shape[1], y.shape[0], "mv: the inner dims")
    return cx.b.dot_general(x, y, contract=([1], [0]))


@lowering("aten.dot.default")
def dot(cx: Cx, x: Value, y: Value) -> Value:
    """[k] by [k]."""
    cx.require_equal(x.shape[0], y.shape[0], "dot: the sizes")
    return cx.b.dot_general(x, y, contract=([0], [0]))


@lowering("aten.matmul.default")
def matmul(cx: Cx, x: Value, y: Value) -> Value:
    """torch.matmul: vectors, matrices, and batches that broadcast."""
    if not x.shape or not y.shape:
        raise RuntimeError("both arguments to matmul need to be at least 1D")
    if len(y.shape) <= 2:
        inner = max(len(y.shape) - 2, 0)
        cx.require_equal(x.shape[-1], y.shape[inner], "matmul: the inner dims")
        return cx.b.dot_general(x, y, contract=([len(x.shape) - 1], [inner]))
    if len(x.shape) == 1:
        row = cx.reshape(x, (1, x.shape[0]))
        out = matmul(cx, row, y)
        return cx.reshape(out, (*out.shape[:-2], out.shape[-1]))
    cx.require_equal(x.shape[-1], y.shape[-2], "matmul: the inner dims")
    lead = cx.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return batched_dot(
        cx, cx.broadcast(x, (*lead, *x.shape[-2:])), cx.broadcast(y, (*lead, *y.shape[-2:])), -1, -2
    )


def batched_dot(cx: Cx, x: Value, y: Value, x_dim: int, y_dim: int) -> Value:
    """Contract one dim of each of two values whose leading dims are the same batches."""
    rank = len(x.shape)
    batch = list(range(rank - 2))
    return cx.b.dot_general(x, y, batch=(batch, batch), contract=([x_dim % rank], [y_dim % rank]))


# -- convolution ----------------------------------------------------------------------------------
@lowering("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    cx: Cx,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Value:
    """A convolution whose patches do not overlap; any other is left to the framework."""
    n = len(weight.shape) - 2
    stride, padding, dilation = (_expand(v, n) for v in (stride, padding, dilation))
    kernel = list(weight.shape[2:])
    plain = not any(padding) and all(d == 1 for d in dilation) and groups == 1
    if len(x.shape) != n + 2 or not plain or stride != kernel or x.dtype not in FLOATS:
        return NotImplemented
    return _patches_dot(cx, x, weight, bias, kernel)


@lowering("aten.convolution.default")
def convolution(
    cx: Cx,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    """A convolution whose patches do not overlap; any other is left to the framework."""
    if transposed or any(output_padding):
        return NotImplemented
    return conv(cx, x, weight, bias, stride, padding, dilation, groups)


def _expand(value: Sequence[int] | int, n: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * n if len(values) == 1 else values


def _patches_dot(cx: Cx, x: Value, weight: Value, bias: Value | None, kernel: list[Any]) -> Value:
    """Cut into patches, contract each with the kernels: [B, C, H, W] -> [B, O, H/h, W/w]."""
    n = len(kernel)
    cx.require_equal(x.shape[1], weight.shape[1], "convolution: the channels")
    batch, channels = x.shape[:2]
    grid = [x.shape[2 + i] // kernel[i] for i in range(n)]
    for i in range(n):
        x = cx.slice_axis(x, 2 + i, 0, grid[i] * kernel[i])
    split = [batch, channels]
    for size, step in zip(grid, kernel, strict=True):
        split += [size, step]
    order = [0, *(2 + 2 * i for i in range(n)), 1, *(3 + 2 * i for i in range(n))]
    patches = cx.transpose(cx.reshape(x, split), order)
    length = cx.product([channels, *kernel])
    rows = cx.reshape(patches, (batch, *grid, length))
    table = cx.reshape(weight, (weight.shape[0], length))
    out = cx.b.dot_general(rows, table, contract=([n + 1], [1]))
    if bias is not None:
        out = cx.binary("add", out, bias)
    return cx.transpose(out, [0, n + 1, *range(1, n + 1)])
