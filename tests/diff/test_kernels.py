"""Kernels against PyTorch over a grid of sizes, each from one compile."""

import math
from collections.abc import Sequence

import pytest
import torch

from handmade import load
from pydisc.ir.builder import Builder, Value
from pydisc.runtime.dtypes import TORCH_DTYPE

SIZES = (0, 1, 2, 7, 8, 31, 32, 33, 127, 1024)
BATCHES = (0, 1, 3)


def splat(b: Builder, value: float, like: Value) -> Value:
    return b.broadcast(b.constant(value, like.dtype), like.shape, [])


def rows(b: Builder, x: Value, like: Value) -> Value:
    return b.broadcast(x, like.shape, list(range(len(like.shape) - 1)))


def layer_norm(b: Builder, x: Value) -> Value:
    n = x.shape[-1]
    axis = len(x.shape) - 1
    mean = b.reduce("add", x, [axis])
    mean = b.binary("multiply", mean, splat(b, 1 / n, mean))
    centred = b.binary("subtract", x, rows(b, mean, x))
    variance = b.reduce("add", b.binary("multiply", centred, centred), [axis])
    variance = b.binary("multiply", variance, splat(b, 1 / n, variance))
    scale = b.unary("rsqrt", b.binary("add", variance, splat(b, 1e-5, variance)))
    return b.binary("multiply", centred, rows(b, scale, x))


def softmax(b: Builder, x: Value) -> Value:
    axis = len(x.shape) - 1
    top = b.reduce("maximum", x, [axis])
    e = b.unary("exponential", b.binary("subtract", x, rows(b, top, x)))
    return b.binary("divide", e, rows(b, b.reduce("add", e, [axis]), x))


def gelu(b: Builder, x: Value) -> Value:
    e = b.elementwise("erf", b.binary("multiply", x, splat(b, math.sqrt(0.5), x)))
    half = b.binary("multiply", x, splat(b, 0.5, x))
    return b.binary("multiply", half, b.binary("add", e, splat(b, 1.0, x)))


def close(result: torch.Tensor, reference: torch.Tensor, scale: float = 1.0) -> None:
    torch.testing.assert_close(
        result.double(), reference.double(), rtol=2e-5 * scale, atol=2e-5 * scale
    )


def test_layer_norm() -> None:
    program = load([(("b", "s", 48), "f32")], lambda b, x: [layer_norm(b, x)])
    for batch in BATCHES:
        for size in SIZES:
            x = torch.randn(batch, size, 48)
            close(program([x])[0], torch.nn.functional.layer_norm(x.double(), (48,)))


def test_softmax_over_a_dynamic_row() -> None:
    program = load([(("b", "s"), "f32")], lambda b, x: [softmax(b, x)])
    for batch in BATCHES:
        for size in SIZES:
            x = torch.randn(batch, size) * 4
            close(program([x])[0], torch.softmax(x.double(), -1))


def test_linear_bias_gelu() -> None:
    weight, bias = torch.randn(96, 48), torch.randn(96)

    def body(b: Builder, x: Value, w: Value, c: Value) -> Sequence[Value]:
        y = b.dot_general(x, w, contract=([2], [1]))
        return [gelu(b, b.binary("add", y, b.broadcast(c, y.shape, [2])))]

    program = load([(("b", "s", 48), "f32")], body, [weight, bias])
    for batch in BATCHES:
        for size in SIZES:
            x = torch.randn(batch, size, 48)
            y = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
            close(program([x])[0], torch.nn.functional.gelu(y), 4)


@pytest.mark.parametrize("n", [1, 5, 16, 33, 100])
@pytest.mark.parametrize("k", [1, 3, 64, 517])
def test_dot_with_ragged_sizes(n: int, k: int) -> None:
    weight, bias = torch.randn(k, n), torch.randn(n)

    def body(b: Builder, x: Value, w: Value, c: Value) -> Sequence[Value]:
        y = b.dot_general(x, w, contract=([1], [0]))
        return [b.binary("add", y, b.broadcast(c, y.shape, [1]))]

    program = load([(("m", k), "f32")], body, [weight, bias])
    for m in (0, 1, 2, 5, 6, 7, 13, 127):
        x = torch.randn(m, k)
        close(program([x])[0], x.double() @ weight.double() + bias.double(), 10)


def test_product_of_two_dynamic_matrices() -> None:
    program = load(
        [(("m", "k"), "f32"), (("k", "n"), "f32")],
        lambda b, x, y: [b.dot_general(x, y, contract=([1], [0]))],
    )
    for m in (0, 1, 7, 33):
        for k in (0, 1, 31, 128):
            for n in (0, 1, 2, 17, 64):
                x, y = torch.randn(m, k), torch.randn(k, n)
                close(program([x, y])[0], x.double() @ y.double(), 10)


def test_attention_reads_heads_in_place() -> None:
    """Heads are split and merged by reshape and transpose; no kernel copies for it."""
    heads, depth = 4, 16
    weight = torch.randn(32, heads * depth)

    def split(b: Builder, x: Value) -> Value:
        return b.transpose(b.reshape(x, (*x.shape[:2], heads, depth)), [0, 2, 1, 3])

    def body(b: Builder, q: Value, k: Value, v: Value, w: Value) -> Sequence[Value]:
        qh, kh, vh = (split(b, x) for x in (q, k, v))
        s = b.dot_general(qh, kh, batch=([0, 1], [0, 1]), contract=([3], [3]))
        a = softmax(b, b.binary("multiply", s, splat(b, 1 / math.sqrt(depth), s)))
        o = b.dot_general(a, vh, batch=([0, 1], [0, 1]), contract=([3], [2]))
        o = b.reshape(b.transpose(o, [0, 2, 1, 3]), (*q.shape[:2], heads * depth))
        return [b.dot_general(o, w, contract=([2], [1]))]

    inputs = [(("b", "s", 64), "f32"), (("b", "t", 64), "f32"), (("b", "t", 64), "f32")]
    program = load(inputs, body, [weight])
    assert len(program.program.steps) == 1
    for batch in BATCHES:
        for s, t in ((1, 1), (7, 3), (33, 127), (8, 32), (0, 5)):
            q, k, v = (
                torch.randn(batch, s, 64),
                torch.randn(batch, t, 64),
                torch.randn(batch, t, 64),
            )
            q4, k4, v4 = (
                x.double().view(batch, x.shape[1], heads, depth).transpose(1, 2) for x in (q, k, v)
            )
            a = torch.softmax(q4 @ k4.transpose(2, 3) / math.sqrt(depth), -1)
            reference = (a @ v4).transpose(1, 2).reshape(batch, s, 64) @ weight.double().T
            close(program([q, k, v])[0], reference, 10)


@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("kind", ["add", "maximum", "minimum"])
def test_reductions_over_any_axes(axes: list[int], kind: str) -> None:
    program = load([(("b", "s", "t"), "f32")], lambda b, x: [b.reduce(kind, x, axes)])
    function = {"add": torch.sum, "maximum": torch.amax, "minimum": torch.amin}[kind]
    for shape in ((1, 1, 1), (3, 7, 33), (2, 127, 8), (5, 1, 31)):
        x = torch.randn(shape)
        close(program([x])[0], function(x.double(), axes), 10)


def test_reduction_of_nothing_is_neutral() -> None:
    program = load([(("b", "s"), "f32")], lambda b, x: [b.reduce("add", x, [1])])
    assert program([torch.empty(3, 0)])[0].tolist() == [0.0, 0.0, 0.0]


def test_several_reductions_and_outputs_in_one_kernel() -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        total = b.reduce("add", x, [1])
        top = b.reduce("maximum", x, [1])
        return [total, top, b.binary("subtract", x, rows(b, b.binary("add", total, top), x))]

    program = load([(("b", "s"), "f32")], body)
    for size in SIZES[1:]:
        x = torch.randn(3, size)
        total, top, rest = program([x])
        close(total, x.double().sum(1), 10)
        assert torch.equal(top, x.amax(1))
        close(rest, x.double() - (x.double().sum(1) + x.double().amax(1))[:, None], 10)


def test_take_and_concatenate() -> None:
    table = torch.randn(100, 48)

    def body(b: Builder, index: Value, t: Value) -> Sequence[Value]:
        ones = b.broadcast(b.constant(1.0, "f32"), (*index.shape, 48), [])
        return [b.concatenate([b.take(t, index), ones], 1)]

    program = load([(("b", "s"), "i64")], body, [table])
    for batch in BATCHES:
        for size in SIZES:
            index = torch.randint(0, 100, (batch, size))
            reference = torch.cat([table[index], torch.ones(batch, size, 48)], 1)
            assert torch.equal(program([index])[0], reference)
    for bad in (100, -1):
        with pytest.raises(IndexError):
            program([torch.tensor([[bad]])])
    assert torch.equal(program([torch.tensor([[3]])])[0][0, 0], table[3])


def test_transposes_pads_slices() -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        t = b.transpose(x, [1, 0])
        padded = b.pad(x, b.constant(7.0, "f32"), [1, 0], [0, 2])
        return [t, padded, b.slice(x, [0, 1], [x.shape[0], 5], [1, 2])]

    program = load([(("b", 6), "f32")], body)
    for size in SIZES:
        x = torch.randn(size, 6)
        t, padded, part = program([x])
        assert torch.equal(t, x.T)
        assert torch.equal(padded, torch.nn.functional.pad(x, (0, 2, 1, 0), value=7.0))
        assert torch.equal(part, x[:, 1:5:2])


@pytest.mark.parametrize("dtype", ["f64", "i64", "i32", "ui8", "i1"])
def test_dtypes_through_convert_and_compare(dtype: str) -> None:
    torch_dtype = TORCH_DTYPE[dtype]

    def body(b: Builder, x: Value) -> Sequence[Value]:
        f = b.convert(x, "f32")
        big = b.compare("GT", f, splat(b, 1.0, f))
        return [f, big, b.select(big, f, b.unary("negate", f)), b.reduce("or", big, [1])]

    program = load([(("b", "s"), dtype)], body)
    for size in SIZES:
        x = torch.randint(0, 4, (3, size)).to(torch_dtype)
        f, big, chosen, some = program([x])
        assert torch.equal(f, x.float())
        assert torch.equal(big, x.float() > 1)
        assert torch.equal(chosen, torch.where(x.float() > 1, x.float(), -x.float()))
        assert torch.equal(some, (x.float() > 1).any(1))
