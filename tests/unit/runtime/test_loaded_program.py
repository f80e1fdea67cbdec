"""Calls of a loaded program: from many threads, with every size, with what it refuses."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from handmade import load
from pydisc.ir.builder import Builder, Value
from pydisc.runtime.dtypes import named_constant
from pydisc.runtime.loaded_program import CheckFailed, LoadedProgram


def network(b: Builder, x: Value, w: Value, v: Value) -> list[Value]:
    """Two products with a row kernel between them: arena, scratch and packed weights in use."""
    y = b.dot_general(x, w, contract=([1], [0]))
    top = b.reduce("maximum", y, [1])
    y = b.unary("tanh", b.binary("subtract", y, b.broadcast(top, y.shape, [0])))
    z = b.dot_general(y, v, contract=([1], [0]))
    gram = b.dot_general(z, z, contract=([1], [1]))
    return [gram, top]


def reference(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
    y = x.double() @ w.double()
    top = y.amax(1)
    z = torch.tanh(y - top[:, None]) @ v.double()
    return [z @ z.T, top]


@pytest.fixture(scope="module")
def weights() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(16, 24) / 4, torch.randn(24, 40) / 5]


@pytest.fixture(scope="module")
def program(weights: list[torch.Tensor]) -> LoadedProgram:
    return load([(("m", 16), "f32")], network, weights)


def test_many_threads_call_one_program(program: LoadedProgram, weights: list[torch.Tensor]) -> None:
    threads, calls = 8, 50

    def work(number: int) -> int:
        generator = torch.Generator().manual_seed(number)
        right = 0
        for call in range(calls):
            m = (number * 31 + call * 17) % 90 + 1
            x = torch.randn(m, 16, generator=generator)
            for result, wanted in zip(program([x]), reference(x, *weights), strict=True):
                torch.testing.assert_close(result.double(), wanted, rtol=1e-3, atol=1e-4)
            right += 1
        return right

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(work, range(threads))) == threads * calls


def test_outputs_are_the_callers_own(program: LoadedProgram) -> None:
    x = torch.randn(7, 16)
    first = program([x])[0]
    kept = first.clone()
    program([torch.randn(7, 16)])
    assert torch.equal(first, kept)


def test_a_size_that_must_be_another_is_refused_before_anything_runs() -> None:
    def body(b: Builder, x: Value, y: Value) -> list[Value]:
        return [b.binary("add", x, y)]

    program = load([(("m", 4), "f32"), (("m", 4), "f32")], body)
    with pytest.raises(CheckFailed) as failed:
        program([torch.zeros(3, 4), torch.zeros(5, 4)])
    assert (failed.value.check.kind, failed.value.check.input) == ("size", 1)
    assert torch.equal(program([torch.ones(3, 4), torch.ones(3, 4)])[0], torch.full((3, 4), 2.0))


def test_an_operator_that_the_framework_runs_gets_its_arguments() -> None:
    """Also a dtype, which the template names."""

    def body(b: Builder, x: Value) -> list[Value]:
        y = b.unary("negate", x)
        template = '{"args": [{"t": 0}, 1], "kwargs": {"dtype": {"dtype": "float64"}}}'
        (z,) = b.extern("aten.cumsum.default", [y], template, [(x.shape, "f64")], "a test")
        return [b.binary("add", z, z)]

    program = load([(("m", "n"), "f32")], body)
    for shape in ((0, 3), (1, 1), (5, 7)):
        x = torch.randn(shape)
        torch.testing.assert_close(program([x])[0], 2 * torch.cumsum(-x, 1, dtype=torch.float64))


def test_named_constants() -> None:
    assert named_constant("memory_format", "channels_last") is torch.channels_last
    assert named_constant("layout", "strided") is torch.strided
