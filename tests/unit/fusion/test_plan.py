"""What is fused, and what is not and why."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from handmade import Body, Spec, handmade, load
from pydisc.fusion.plan import plan_fusion
from pydisc.ir.builder import Builder, Value


@dataclass(frozen=True)
class Kernel:
    """A region, by the names of its ops."""

    kind: str
    ops: tuple[str, ...]
    inputs: int
    outputs: int


def kernels(
    inputs: Sequence[Spec], body: Body, weights: Sequence[torch.Tensor] = ()
) -> tuple[list[Kernel], set[str]]:
    """The kernels of a module in order, and the reasons why neighbours were not fused."""
    with handmade(inputs, body, weights) as made:
        graph = made.graph()
        plan = plan_fusion(graph)
        found = [
            Kernel(
                r.kind,
                tuple(graph.nodes[i].name for i in sorted(r.nodes)),
                len({t for p in r.programs for t in p.inputs}),
                len(r.outputs),
            )
            for r in plan.regions
        ]
        return found, {n.reason for n in plan.not_fused}


def full(b: Builder, value: float, like: Value) -> Value:
    return b.broadcast(b.constant(value, like.dtype), like.shape, [])


def rows(b: Builder, x: Value, like: Value) -> Value:
    return b.broadcast(x, like.shape, [0])


def normalize(b: Builder, x: Value) -> Value:
    centred = b.binary("subtract", x, rows(b, b.reduce("add", x, [1]), x))
    square = b.reduce("add", b.binary("multiply", centred, centred), [1])
    return b.binary("multiply", centred, rows(b, b.unary("rsqrt", square), x))


def softmax(b: Builder, x: Value) -> Value:
    e = b.unary("exponential", b.binary("subtract", x, rows(b, b.reduce("maximum", x, [1]), x)))
    return b.binary("divide", e, rows(b, b.reduce("add", e, [1]), x))


def gelu(b: Builder, x: Value) -> Value:
    e = b.elementwise("erf", b.binary("multiply", x, full(b, math.sqrt(0.5), x)))
    return b.binary("multiply", x, b.binary("add", e, full(b, 1.0, x)))


MATRIX: Spec = (("m", "n"), "f32")


def test_layer_norm_and_softmax_are_one_kernel() -> None:
    found, reasons = kernels([MATRIX], lambda b, x: [softmax(b, normalize(b, x))])
    assert [k.kind for k in found] == ["row"]
    assert found[0].ops.count("reduce") == 4
    assert (found[0].inputs, found[0].outputs) == (1, 1)
    assert not reasons


def test_the_epilogue_takes_bias_activation_and_residual() -> None:
    weight, bias = torch.randn(8, 8), torch.randn(8)

    def body(b: Builder, x: Value, w: Value, c: Value) -> list[Value]:
        y = b.dot_general(x, w, contract=([1], [0]))
        y = gelu(b, b.binary("add", y, b.broadcast(c, y.shape, [1])))
        return [b.binary("add", y, x)]

    found, reasons = kernels([(("m", 8), "f32")], body, [weight, bias])
    assert [k.kind for k in found] == ["dot"]
    assert {"dot_general", "add", "elementwise", "multiply"} <= set(found[0].ops)
    assert not reasons


def test_what_follows_a_dot_by_rows_is_a_kernel_of_its_own() -> None:
    def body(b: Builder, x: Value, w: Value) -> list[Value]:
        return [softmax(b, b.dot_general(x, w, contract=([1], [0])))]

    found, reasons = kernels([(("m", 8), "f32")], body, [torch.randn(8, 16)])
    assert [k.kind for k in found] == ["dot", "row"]
    assert "reduce is not element-wise" in reasons


def test_a_value_that_is_returned_too_becomes_one_more_output() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        y = b.unary("tanh", x)
        return [y, softmax(b, y)]

    found, _ = kernels([MATRIX], body)
    assert [(k.kind, k.outputs) for k in found] == [("row", 2)]


def test_reductions_over_different_axes_are_different_kernels() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        y = b.binary("subtract", x, rows(b, b.reduce("add", x, [1]), x))
        return [b.binary("subtract", y, b.broadcast(b.reduce("add", y, [0]), y.shape, [1]))]

    found, reasons = kernels([MATRIX], body)
    assert [k.kind for k in found] == ["row", "row"]
    assert "reductions over different shapes or axes" in reasons


def test_a_cycle_is_refused() -> None:
    """What a dot reads cannot be computed in the kernel that the dot feeds."""

    def body(b: Builder, x: Value, w: Value) -> list[Value]:
        shared = b.unary("tanh", x)
        y = b.dot_general(shared, w, contract=([1], [0]))
        z = b.binary("multiply", y, y)
        top = rows(b, b.reduce("maximum", z, [1]), z)
        return [b.binary("add", b.binary("subtract", z, top), shared)]

    found, reasons = kernels([(("m", 8), "f32")], body, [torch.randn(8, 8)])
    assert [k.kind for k in found] == ["loop", "dot", "row"]
    assert found[0].ops == ("tanh",)
    assert reasons & {
        "a cycle: the other consumer feeds this kernel",
        "an operand of a dot must be in memory",
    }


def test_an_output_that_is_read_transposed_is_stored_so() -> None:

    def body(b: Builder, x: Value) -> list[Value]:
        return [b.transpose(b.unary("tanh", b.unary("negate", x)), [1, 0, 2])]

    found, _ = kernels([(("b", "s", 8), "f32")], body)
    assert [(k.ops, k.outputs) for k in found] == [(("negate", "tanh"), 1)]
    program = load([(("b", "s", 8), "f32")], body)
    for b, s in ((0, 3), (1, 1), (3, 7)):
        x = torch.randn(b, s, 8)
        torch.testing.assert_close(program([x])[0], torch.tanh(-x).transpose(0, 1))


def test_a_view_that_no_address_expresses_is_materialised() -> None:
    """A dot reads rows with unit steps only: the strided slice is copied first."""

    def body(b: Builder, x: Value, w: Value) -> list[Value]:
        return [b.dot_general(b.slice(x, [0, 0], x.shape, [1, 2]), w, contract=([1], [0]))]

    found, _ = kernels([(("m", 16), "f32")], body, [torch.randn(8, 8)])
    assert [k.kind for k in found] == ["loop", "dot"]
    assert found[0].ops == ()
    program = load([(("m", 16), "f32")], body, [weight := torch.randn(8, 8)])
    for m in (0, 1, 7, 33):
        x = torch.randn(m, 16)
        torch.testing.assert_close(program([x])[0], x[:, ::2] @ weight, rtol=1e-4, atol=1e-4)


def test_dead_ops_get_no_kernel() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        b.unary("tanh", b.reduce("add", x, [1]))
        return [b.unary("negate", x)]

    found, _ = kernels([MATRIX], body)
    assert [k.ops for k in found] == [("negate",)]


def test_negative_padding_crops() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        return [b.pad(x, b.constant(7.0, "f32"), [-1, 2], [1, -3])]

    program = load([(("m", 9), "f32")], body)
    for m in (1, 2, 33):
        x = torch.randn(m, 9)
        reference = torch.nn.functional.pad(x, (2, -3, -1, 1), value=7.0)
        assert torch.equal(program([x])[0], reference)


def test_a_reduction_read_transposed_is_its_own_kernel() -> None:
    """Square shapes: the row's result is read along the other axis."""

    def body(b: Builder, x: Value) -> list[Value]:
        return [b.binary("add", x, b.broadcast(b.reduce("add", x, [1]), x.shape, [1]))]

    found, _ = kernels([(("n", "n"), "f32")], body)
    assert [k.kind for k in found] == ["row", "loop"]
    program = load([(("n", "n"), "f32")], body)
    for n in (0, 1, 5, 33):
        x = torch.randn(n, n)
        torch.testing.assert_close(program([x])[0], x + x.sum(1)[None], rtol=1e-4, atol=1e-4)


def test_a_returned_view_that_its_own_kernel_reads_makes_no_cycle() -> None:
    """As in max(0, keepdim=True): the maximum is returned reshaped, and read for the index."""

    def body(b: Builder, x: Value) -> list[Value]:
        top = b.reshape(b.reduce("maximum", x, [1]), (x.shape[0], 1))
        equal = b.binary("subtract", x, b.broadcast(top, x.shape, [0, 1]))
        return [top, b.reduce("add", equal, [1])]

    program = load([MATRIX], body)
    for n, m in ((3, 5), (1, 1), (33, 2)):
        x = torch.randn(n, m)
        top = x.amax(1, keepdim=True)
        torch.testing.assert_close(program([x]), [top, (x - top).sum(1)], rtol=1e-4, atol=1e-4)


def test_a_view_forced_into_memory_is_not_read_by_what_it_comes_from() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        y = b.unary("tanh", x)
        turned = b.reshape(b.transpose(b.reshape(y, (x.shape[0], 2, 3)), [0, 2, 1]), x.shape)
        return [b.binary("add", y, turned)]

    program = load([(("n", 6), "f32")], body)
    x = torch.randn(5, 6)
    y = x.tanh()
    wanted = y + y.reshape(5, 2, 3).transpose(1, 2).reshape(5, 6)
    torch.testing.assert_close(program([x])[0], wanted, rtol=1e-5, atol=1e-6)


def test_dots_of_several_free_and_contracted_dims() -> None:
    """The bias tells the free dims apart, so that they are not one stride in its kernel."""

    def body(b: Builder, x: Value, w: Value, bias: Value) -> list[Value]:
        y = b.dot_general(x, w, contract=([1, 2], [0, 1]))
        return [b.binary("add", y, b.broadcast(bias, y.shape, [1]))]

    inputs: list[Spec] = [(("n", 3, 4), "f32"), ((3, 4, 5, 2), "f32"), ((5,), "f32")]
    program = load(inputs, body)
    x, w, bias = torch.randn(7, 3, 4), torch.randn(3, 4, 5, 2), torch.randn(5)
    wanted = torch.einsum("nab,aboc->noc", x, w) + bias[:, None]
    torch.testing.assert_close(program([x, w, bias])[0], wanted, rtol=1e-4, atol=1e-4)
