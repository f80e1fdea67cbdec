"""Capture beyond single ops: writes and views, module state, results, guards, what is refused."""

from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from tests.hlo_interpreter import declared_env, guards_hold, replay
from torch import Tensor, nn

from pydisc.frontend import Capture, capture
from pydisc.ir.context import open_context
from pydisc.support.errors import Unsupported


@pytest.fixture(autouse=True)
def _mlir() -> Generator[None]:
    with open_context():
        yield


def run(
    fn: Callable[..., Any], *args: Any, state: nn.Module | None = None, **kwargs: Any
) -> Capture:
    return capture(fn, args, kwargs, state=state)


def names(found: Capture) -> list[str]:
    """The names of @main's ops."""
    main = found.module.body.operations[-1].regions[0].blocks[0]
    return [op.operation.name.split(".", 1)[1] for op in main.operations]


# -- writes and views -----------------------------------------------------------------------------
def _write_slice(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:3] = 0
    return y


def _write_through_views(x: Tensor) -> Tensor:
    y = x.clone()
    y.transpose(0, 1)[2].mul_(3)
    y.view(-1)[0] = 7
    return y


def _stale_view(x: Tensor) -> Tensor:
    y = x.clone()
    head = y[:1]
    y.add_(1)
    return head * 2


def _view_of_view(x: Tensor) -> Tensor:
    y = x * 1
    one, two = y.chunk(2, dim=1)
    one[:, 0].fill_(5)
    two.copy_(one)
    return y + one.sum()


def _masked_fill_(x: Tensor) -> Tensor:
    y = x.clone()
    y.masked_fill_(y > 0, -1.0)
    y.unsqueeze(0).clamp_(max=0.5)
    return y.relu_()


def _reshape_of_transposed_copies(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    copied = y.t().reshape(-1)
    copied.zero_()
    aliased = y.reshape(-1)
    aliased[0] = 9
    return y, copied


def _unbind(x: Tensor) -> Tensor:
    y = x.clone()
    for i, column in enumerate(y.unbind(1)):
        column.add_(i)
    return y


def _in_place_dtype(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape, dtype=torch.int64)
    y += 3
    y[0] = 1
    return y


WRITES = [
    *(_write_slice, _write_through_views, _stale_view, _view_of_view, _masked_fill_),
    *(_reshape_of_transposed_copies, _unbind, _in_place_dtype),
]


@pytest.mark.parametrize("fn", WRITES)
def test_writes_and_views(fn: Callable[[Tensor], Any]) -> None:
    found = capture(fn, (torch.randn(3, 4),), {}, state=None, dynamic=[["b", 4]])
    for rows in (3, 1, 8):
        x = torch.randn(rows, 4)
        if guards_hold(found, {"b": rows}):
            torch.testing.assert_close(replay(found, [x]), fn(x.clone()))
    assert guards_hold(found, {"b": 8})


def test_a_reshape_that_is_a_view_at_size_1_is_guarded_once_written_to() -> None:
    found = capture(
        _reshape_of_transposed_copies, (torch.randn(3, 4),), {}, state=None, dynamic=[["b", 4]]
    )
    assert "b == 1" in [str(g.cond) for g in found.guards]
    with pytest.raises(Unsupported, match="share memory"):
        capture(_reshape_of_transposed_copies, (torch.randn(1, 4),), {}, state=None)


def test_a_write_to_an_input_is_a_mutation() -> None:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        x[0].add_(y)
        return x

    found = run(fn, torch.zeros(3, 2), torch.ones(2))
    assert [(m.kind, m.index) for m in found.mutations] == [("input", 0)]
    assert found.outputs[0].kind == "input"
    x = torch.zeros(3, 2)
    out = replay(found, [x, torch.ones(2)])
    assert out is x
    assert x.tolist() == [[1, 1], [0, 0], [0, 0]]


class Counter(nn.Module):
    calls: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.total = self.total + x.sum(0)
        return x * self.total


def test_buffers_that_change_are_mutations_and_put_back() -> None:
    model = Counter()
    found = run(model, torch.ones(3, 2), state=model)
    assert model.calls.item() == 0
    assert model.total.tolist() == [0, 0]
    assert type(model.total) is Tensor
    written = {found.weights[m.index].name for m in found.mutations}
    assert written == {"calls", "total"}
    assert torch.equal(replay(found, [torch.ones(5, 2)]), torch.full((5, 2), 5.0))
    assert model.calls.item() == 1
    assert model.total.tolist() == [5, 5]


class Leaky(nn.Module):
    def __init__(self, keep: str) -> None:
        super().__init__()
        self.keep = keep
        self.seen: list[Any] = []
        self.size: Any = 0

    def forward(self, x: Tensor) -> Tensor:
        self.size = x.shape[0]
        torch.rand(1)
        if self.keep == "list":
            self.seen.append(x)
        elif self.keep == "attribute":
            self.last = x
        return x + self.size


def test_state_is_put_back() -> None:
    model = Leaky("nothing")
    before = torch.get_rng_state()
    run(model, torch.ones(3), state=model)
    assert model.size == 0
    assert isinstance(model.size, int)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("keep", ["list", "attribute"])
def test_a_kept_tensor_is_refused(keep: str) -> None:
    model = Leaky(keep)
    with pytest.raises(Unsupported, match=r"seen|last"):
        run(model, torch.ones(3), state=model)
    assert model.seen == []
    assert not hasattr(model, "last")


def test_state_is_put_back_after_a_failure() -> None:
    class Failing(nn.Module):
        count = 0

        def forward(self, x: Tensor) -> Tensor:
            self.count = 1
            raise ValueError("user error")

    model = Failing()
    with pytest.raises(Unsupported, match="user error"):
        run(model, torch.ones(3), state=model)
    assert model.count == 0


# -- arguments and results ------------------------------------------------------------------------
def test_names_constants_and_weights() -> None:
    model = nn.Linear(4, 3)

    def fn(x: Tensor, scale: float, *, more: dict[str, Tensor]) -> Tensor:
        return model(x) * scale + more["bias"]

    found = run(fn, torch.randn(2, 4), 0.5, more={"bias": torch.randn(3)}, state=model)
    assert [i.name for i in found.inputs] == ["x", "more['bias']"]
    assert [str(i.shape) for i in found.inputs] == ["(S0, 4)", "(3,)"]
    assert found.constants == {1: 0.5}
    assert [w.name for w in found.weights] == ["weight", "bias"]
    assert found.weights[0].tensor is model.weight


def test_results_that_are_arguments_or_constants() -> None:
    weight = nn.Parameter(torch.randn(2))

    def fn(x: Tensor) -> dict[str, Any]:
        y = x + weight
        return {"x": x, "w": weight, "n": None, "k": 3, "y": [y, y], "size": x.shape[1]}

    found = run(fn, torch.randn(5, 2))
    assert [o.kind for o in found.outputs] == [
        "input", "weight", "constant", "constant", "result", "result", "constant",
    ]  # fmt: skip
    assert found.outputs[4].index == found.outputs[5].index == 0
    x = torch.randn(1, 2)
    out = replay(found, [x])
    assert out["x"] is x
    assert out["w"] is weight
    assert (out["n"], out["k"], out["size"]) == (None, 3, 2)
    assert torch.equal(out["y"][0], x + weight)


class Box:
    def __init__(self, content: Tensor) -> None:
        self.content = content


def test_a_result_that_hides_a_tensor_is_refused() -> None:
    with pytest.raises(Unsupported, match="Box"):
        run(lambda x: Box(x + 1), torch.ones(2))


def test_dynamic_says_which_sizes_vary() -> None:
    found = capture(
        torch.add, (torch.randn(2, 4), torch.randn(2, 4)), {}, state=None,
        dynamic=[["batch", 4], ["batch", 4]],
    )  # fmt: skip
    assert [str(i.shape) for i in found.inputs] == ["(batch, 4)", "(batch, 4)"]
    assert not found.input_equalities


def test_weights_as_args() -> None:
    weight = torch.randn(4, 3)
    found = capture(torch.mm, (torch.randn(2, 4), weight), {}, state=None, weights_as_args=[1])
    assert len(found.inputs) == 1
    assert found.weights[0].tensor is weight


# -- sizes ----------------------------------------------------------------------------------------
def test_sizes_that_must_agree_become_one_symbol() -> None:
    found = run(torch.add, torch.randn(2, 4), torch.randn(2, 4))
    assert [str(i.shape) for i in found.inputs] == ["(S0, S1)", "(S0, S1)"]
    assert {e.text for e in found.input_equalities} == {"S2 == S0", "S3 == S1"}
    assert not found.guards


def test_a_size_compared_with_a_constant_becomes_static() -> None:
    def fn(x: Tensor) -> Tensor:
        if x.shape[1] != 4:
            raise ValueError
        return x * 2

    found = run(fn, torch.randn(2, 4))
    assert str(found.inputs[0].shape) == "(S0, 4)"


def test_a_branch_on_a_size_is_a_guard_with_its_line() -> None:
    def fn(x: Tensor) -> Tensor:
        return x + 1 if x.shape[0] > 3 else x - 1

    found = run(fn, torch.zeros(5))
    (guard,) = found.guards
    assert (guard.kind, guard.where.function.rsplit(".", 1)[-1]) == ("branch", "fn")
    assert guards_hold(found, {"S0": 4})
    assert not guards_hold(found, {"S0": 3})


def test_a_specialised_size_is_reported() -> None:
    found = run(lambda x: sum(x[i] for i in range(x.shape[0])), torch.ones(3, 2))
    assert [g.kind for g in found.guards] == ["specialize"]
    assert declared_env(found, [torch.ones(3, 2)]) == {"S0": 3, "S1": 2}


# -- what is left to the framework, and what is refused -------------------------------------------
def test_an_op_without_a_rule_is_left_to_the_framework() -> None:
    def fn(x: Tensor) -> Tensor:
        values, _ = torch.sort(x + 1, dim=-1)
        return values * 2

    found = run(fn, torch.randn(3, 4))
    assert [e.target for e in found.externs] == ["aten.sort.default"]
    assert found.externs[0].where.function.rsplit(".", 1)[-1] == "fn"
    x = torch.randn(2, 7)
    torch.testing.assert_close(replay(found, [x]), fn(x))


def test_extern_with_sizes_in_its_arguments() -> None:
    def fn(x: Tensor) -> Tensor:
        return torch.topk(x, x.shape[1] // 2, dim=1)[0] + 1

    found = run(fn, torch.randn(3, 8))
    for width in (6, 9):
        x = torch.randn(2, width)
        torch.testing.assert_close(replay(found, [x]), fn(x))


def test_convolution_with_padding_is_left_to_the_framework() -> None:
    model = nn.Conv2d(3, 5, 3, padding=1)
    found = run(model, torch.randn(1, 3, 8, 8), state=model)
    assert len(found.externs) == 1
    x = torch.randn(2, 3, 5, 9)
    torch.testing.assert_close(replay(found, [x]), model(x))


def test_dropout_in_training_is_left_to_the_framework() -> None:
    model = nn.Dropout(0.5)
    assert len(run(model, torch.ones(4, 4), state=model).externs) == 1
    assert not run(model.eval(), torch.ones(4, 4), state=model).externs


def _item(x: Tensor) -> Tensor:
    return x * x.sum().item()


def _branch(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def _nonzero(x: Tensor) -> Tensor:
    return x[x > 0]


def _tolist(x: Tensor) -> list[float]:
    return x.tolist()


@pytest.mark.parametrize("fn", [_item, _branch, _nonzero, _tolist])
def test_data_dependence_is_refused_with_the_line(fn: Callable[[Tensor], Any]) -> None:
    with pytest.raises(Unsupported) as caught:
        run(fn, torch.randn(4))
    assert fn.__name__ in str(caught.value)
    assert "test_capture.py" in str(caught.value)


def test_complex_tensors_are_refused() -> None:
    with pytest.raises(Unsupported, match="complex64"):
        run(torch.abs, torch.zeros(2, dtype=torch.complex64))


def test_unused_ops_are_dropped() -> None:
    def fn(x: Tensor) -> Tensor:
        torch.softmax(x, 0)
        return x + 1

    assert "exponential" not in names(run(fn, torch.ones(3)))


def test_linear_is_one_product_and_a_bias() -> None:
    model = nn.Linear(4, 3)
    found = run(model, torch.randn(2, 5, 4), state=model)
    ops = [n for n in names(found) if n not in ("constant", "dim", "from_elements", "return")]
    assert ops == ["dot_general", "dynamic_broadcast_in_dim", "add"]
