"""Results share memory with arguments and with each other as in eager mode; so do writes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import pydisc
from pydisc.support import knobs


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad(), knobs.scope(on_error="raise"):
        yield


def same_memory(x: Tensor, y: Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def gaps(*shape: int) -> Tensor:
    """A tensor that is not contiguous."""
    return torch.randn(*reversed(shape)).permute(*reversed(range(len(shape))))


# -- results ---------------------------------------------------------------------------------------
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda x: x.t(),
    "slice": lambda x: x[1:, :2],
    "select": lambda x: x[:, -1],
    "part": lambda x: x.chunk(2, 1)[1],
    "chain": lambda x: x.view(x.shape[0], 2, 2).transpose(0, 1)[1].detach(),
    "by_size": lambda x: x.view(-1)[: x.shape[0]],
    "framework": lambda x: x.unfold(1, 2, 2),
    "itself": lambda x: x,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_an_argument_is_one(name: str) -> None:
    fn = VIEWS[name]
    compiled = pydisc.compile(fn)
    for rows in (5, 2, 8):
        x = torch.randn(rows, 4)
        ours, eager = compiled(x), fn(x)
        assert same_memory(ours, x)
        assert ours.stride() == eager.stride()
        assert ours.storage_offset() == eager.storage_offset()
        assert torch.equal(ours, eager)
    report = compiled.report()
    assert (report.compiles, report.eager_calls, report.fallbacks) == (1, 0, ())


def test_a_view_of_an_argument_with_gaps() -> None:
    fn: Any = lambda x: (x.t(), x[1:], x.contiguous(), x.reshape(-1))  # noqa: E731
    compiled = pydisc.compile(fn)
    for x in (torch.randn(3, 4), gaps(3, 4), torch.randn(6, 8)[::2, ::2]):
        for ours, eager in zip(compiled(x), fn(x), strict=True):
            assert torch.equal(ours, eager)
            assert ours.stride() == eager.stride()
            assert same_memory(ours, x) == same_memory(eager, x)
    assert compiled.report().eager_calls == 0


def test_contiguous_of_a_contiguous_argument_is_that_argument() -> None:
    x = torch.randn(3, 4)
    assert pydisc.compile(lambda x: x.contiguous())(x) is x


def test_channels_last_is_a_copy() -> None:
    x = torch.randn(1, 2, 3, 4)
    result = pydisc.compile(lambda x: x.contiguous(memory_format=torch.channels_last))(x)
    assert torch.equal(result, x)
    assert not same_memory(result, x)


def test_results_that_are_views_of_each_other_share_memory() -> None:
    def fn(x: Tensor) -> Any:
        y = x * 2
        return y, y[1:], y.view(-1), y, y.clone(), x * 2

    whole, part, flat, again, copy, equal = pydisc.compile(fn)(torch.ones(3, 2))
    assert again is whole
    assert same_memory(part, whole)
    assert same_memory(flat, whole)
    assert not same_memory(copy, whole)
    assert not same_memory(equal, whole)
    assert not same_memory(equal, copy)


def test_sizes_are_results_without_another_trace() -> None:
    fn: Any = lambda x: (x + 1, x.shape[0], x.numel() // 3, int(x.shape[0] * 0.5))  # noqa: E731
    compiled = pydisc.compile(fn)
    for rows in (3, 1, 0, 8):
        x = torch.randn(rows, 2)
        assert compiled(x)[1:3] == fn(x)[1:3]
    assert compiled.report().compiles <= 4  # int() of a float fixes it


def test_a_tensor_that_the_function_makes_is_new_at_each_call() -> None:
    compiled = pydisc.compile(lambda x: torch.tensor([1.0, 2.0]))
    x = torch.ones(1)
    compiled(x).add_(5)
    assert compiled(x).tolist() == [1, 2]


# -- writes ----------------------------------------------------------------------------------------
def test_a_written_argument_with_gaps() -> None:
    def fn(x: Tensor) -> Tensor:
        x[:, 1:] += 1
        return x[:, 0]

    compiled = pydisc.compile(fn)
    for x in (torch.randn(3, 4), gaps(3, 4), torch.randn(6, 8)[::2, ::2]):
        y = x.clone()
        assert torch.equal(compiled(x), fn(y))
        assert torch.equal(x, y)
    assert compiled.report().eager_calls == 0


@pytest.mark.parametrize("copy", [lambda x: x.contiguous(), lambda x: x.reshape(-1)])
def test_a_write_to_what_may_be_a_copy(copy: Callable[[Tensor], Tensor]) -> None:
    fn: Any = lambda x: copy(x).add_(1) * 1  # noqa: E731
    compiled = pydisc.compile(fn)
    for x in (torch.randn(3, 4), gaps(3, 4)):
        y = x.clone(memory_format=torch.preserve_format)
        assert torch.equal(compiled(x), fn(y))
        assert torch.equal(x, y)
    report = compiled.report()
    assert report.eager_calls == 1
    assert "argument x is not contiguous" in report.fallbacks[0].reason


def write_both(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    y.mul_(2)
    return x + y


def test_arguments_that_share_memory_get_eagers_answer_and_are_counted() -> None:
    compiled = pydisc.compile(write_both)

    def check(pick: Callable[[Tensor], tuple[Tensor, Tensor]], eager_calls: int) -> None:
        ours, eager = torch.arange(8.0), torch.arange(8.0)
        assert torch.equal(compiled(*pick(ours)), write_both(*pick(eager)))
        assert torch.equal(ours, eager)
        assert compiled.report().eager_calls == eager_calls

    check(lambda b: (b[:4], b[4:]), 0)
    check(lambda b: (b[:4], b[:4]), 1)
    check(lambda b: (b[:4], b[2:6]), 2)
    check(lambda b: (b[4:], b[:4]), 2)


def test_an_argument_that_shares_memory_with_a_written_buffer() -> None:
    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.total += 1
            return x * 2

    model = Sum()
    compiled = pydisc.compile(model)
    assert compiled(torch.ones(4)).tolist() == [2] * 4
    assert compiled.report().eager_calls == 0
    assert compiled(model.total).tolist() == [4] * 4
    assert model.total.tolist() == [2] * 4
    assert compiled.report().eager_calls == 1


def test_an_argument_whose_elements_share_memory_is_eagers_error() -> None:
    compiled = pydisc.compile(lambda x: x.add_(1))
    compiled(torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match="single memory location"):
        compiled(torch.zeros(1, 2).expand(3, 2))


# -- bad calls -------------------------------------------------------------------------------------
def test_a_fault_of_the_compiler_runs_the_model_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from pydisc.torch_backend import variant

    def broken(*args: Any) -> Any:
        raise pydisc.InternalError("broken on purpose")

    monkeypatch.setattr(variant, "compile_capture", broken)
    x = torch.zeros(3)
    with knobs.scope(on_error="eager", repro=str(tmp_path)):
        pydisc.compile(lambda x: x.add_(1))(x)
    assert x.tolist() == [1] * 3


def test_a_wrong_device_is_named_at_the_first_call() -> None:
    model = torch.nn.Linear(2, 2).eval()
    compiled = pydisc.compile(model)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"argument input: on device meta, .* cpu"):
            compiled(torch.zeros(1, 2, device="meta"))
        compiled(torch.zeros(1, 2))


def test_an_error_of_the_models_own_code_is_the_users() -> None:
    def fn(x: Tensor) -> Tensor:
        if x.dim() == 1:
            raise KeyError("no batch")
        return x + 1

    compiled = pydisc.compile(fn)
    with pytest.raises(KeyError, match="no batch"):
        compiled(torch.ones(3))
    compiled(torch.ones(2, 3))
    assert compiled.report().eager_calls == 0


def test_what_cannot_be_traced_leaves_the_traces_that_are_there() -> None:
    def fn(x: Tensor) -> Tensor:
        if x.shape[0] > 4 and x.sum() > 0:
            return x - 1
        return x + 1

    compiled = pydisc.compile(fn)
    for rows in (2, 8, 3):
        x = torch.ones(rows)
        assert torch.equal(compiled(x), fn(x))
    report = compiled.report()
    assert (report.compiles, report.calls, report.eager_calls) == (1, 2, 0)
