"""Weights of a loaded program follow what happens to the tensors."""

import ctypes

import pytest
import torch

from handmade import load
from pydisc.ir.builder import Builder, Value
from pydisc.runtime.loaded_program import LoadedProgram
from pydisc.runtime.tensor_layout import tensor_layout


def linear(weight: torch.Tensor, bias: torch.Tensor) -> LoadedProgram:
    """x @ weight (packed) + bias (as it is)."""

    def body(b: Builder, x: Value, w: Value, c: Value) -> list[Value]:
        y = b.dot_general(x, w, contract=([1], [0]))
        return [b.binary("multiply", b.unary("tanh", y), b.broadcast(c, y.shape, [1]))]

    return load([(("m", weight.shape[0]), "f32")], body, [weight, bias])


def check(program: LoadedProgram, weight: torch.Tensor, bias: torch.Tensor) -> None:
    x = torch.randn(5, weight.shape[0])
    with torch.no_grad():
        reference = torch.tanh(x @ weight) * bias
        torch.testing.assert_close(program([x])[0], reference, rtol=1e-4, atol=1e-4)


@pytest.fixture
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.nn.Parameter(torch.randn(12, 20)), torch.nn.Parameter(torch.randn(20))


def test_a_weight_is_packed_once(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    program = linear(*pair)
    for _ in range(3):
        check(program, *pair)
    assert program.table.packs == 1
    assert program.table.packed_bytes >= pair[0].nbytes


def test_an_update_in_place_is_seen(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    program = linear(*pair)
    check(program, *pair)
    with torch.no_grad():
        pair[0].mul_(0.5)
    check(program, *pair)
    assert program.table.packs == 2
    with torch.no_grad():
        pair[1].add_(1.0)
    check(program, *pair)
    assert program.table.packs == 2  # only what changed


def test_a_step_of_an_optimizer_is_seen(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    program = linear(*pair)
    check(program, *pair)
    optimizer = torch.optim.SGD(pair, lr=0.1)
    for parameter in pair:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    check(program, *pair)


def test_replaced_data_is_seen(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    program = linear(*pair)
    check(program, *pair)
    pair[0].data = torch.randn(12, 20)
    check(program, *pair)
    pair[1].data = torch.randn(20)
    check(program, *pair)


def test_data_that_is_another_part_of_the_same_storage_is_seen() -> None:
    flat = torch.randn(2, 12 * 20)
    weight, bias = torch.nn.Parameter(flat[0].view(12, 20)), torch.nn.Parameter(torch.randn(20))
    program = linear(weight, bias)
    check(program, weight, bias)
    weight.data = flat[1].view(12, 20)
    check(program, weight, bias)


def test_weights_that_are_not_contiguous(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    weight = torch.randn(20, 12).t()
    bias = torch.randn(40)[::2]
    program = linear(weight, bias)
    check(program, weight, bias)
    weight.mul_(2.0)
    bias.mul_(3.0)
    check(program, weight, bias)


def test_inference_tensors() -> None:
    with torch.inference_mode():
        weight, bias = torch.randn(12, 20), torch.randn(20)
    program = linear(weight, bias)
    for _ in range(2):
        check(program, weight, bias)
    assert program.table.packs == 1


def test_without_the_layout_of_tensors(
    pair: tuple[torch.Tensor, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the fields of a tensor cannot be found, Python asks; the answers are the same."""
    monkeypatch.setattr("pydisc.runtime.weights.tensor_layout", lambda: None)
    program = linear(*pair)
    check(program, *pair)
    with torch.no_grad():
        pair[0].mul_(0.5)
    check(program, *pair)
    pair[1].data = torch.randn(20)
    check(program, *pair)
    assert program.table.packs == 2


def test_the_layout_of_tensors_is_found() -> None:
    """Without it every call asks Python about every weight, which is slow but right."""
    layout = tensor_layout()
    assert layout is not None
    tensor = torch.zeros(100)[17:]
    start = ctypes.c_int64.from_address(tensor._cdata + layout.start).value
    assert start == tensor.storage_offset()
