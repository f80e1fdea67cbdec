"""Dims that the user declares: names, ranges, divisors, relations, static sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import pydisc
from pydisc import Dim
from pydisc.support import knobs

BATCH = Dim("batch", max=64)
SEQ = Dim("seq", min=8, max=512, multiple_of=8)
PAST = Dim("past", max=100)


def compiled(fn: Callable[..., Any], dims: Any) -> pydisc.CompiledModel:
    return pydisc.compile(fn, dims=dims)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_one_trace_serves_the_range() -> None:
    model = compiled(double, {"x": {0: BATCH, 1: SEQ}})
    with knobs.scope(on_error="raise"):
        for batch, seq in ((1, 8), (0, 16), (64, 512), (7, 24)):
            x = torch.randn(batch, seq)
            torch.testing.assert_close(model(x), x * 2)
    report = model.report()
    assert (report.compiles, report.recompiles, report.eager_calls) == (1, 0, 0)
    symbols = {s.name: s for s in report.traces[0].symbols}
    assert (symbols["batch"].low, symbols["batch"].high) == ("0", "64")
    assert (symbols["seq"].low, symbols["seq"].high) == ("8", "512")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((65, 8), r"argument x, dim 0 \(batch\): size 65 is outside .* 0 to 64"),
        ((1, 12), r"argument x, dim 1 \(seq\): size 12 is outside .* 8 to 512, a multiple of 8"),
        ((1, 0), r"size 0 is outside"),
    ],
)
def test_outside_of_the_range(shape: tuple[int, int], text: str, first: bool) -> None:
    ran: list[int] = []

    def watched(x: torch.Tensor) -> torch.Tensor:
        ran.append(1)
        return x + 1

    model = compiled(watched, {"x": {0: BATCH, 1: SEQ}})
    if not first:
        model(torch.zeros(2, 16))
    before = len(ran)
    with pytest.raises(ValueError, match=text):
        model(torch.zeros(shape))
    assert len(ran) == before
    model(torch.zeros(3, 24))
    assert model.report().compiles == 1
    assert model.report().eager_calls == 0


def join(x: torch.Tensor, cache: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.cat([cache, x], 1) + mask


def test_relation() -> None:
    query = Dim("query", min=1)
    model = compiled(join, {"x": {1: query}, "cache": {1: PAST}, "mask": {-1: query + PAST}})
    with knobs.scope(on_error="raise"):
        for n, past in ((1, 0), (1, 5), (7, 100)):
            args = torch.randn(2, n), torch.randn(2, past), torch.randn(n + past)
            torch.testing.assert_close(model(*args), join(*args))
    assert model.report().compiles == 1
    assert not [g for g in model.report().traces[0].guards if g.kind != "declared"]
    with pytest.raises(ValueError, match=r"mask, dim 0: size 9, declared as query \+ past, .* 8"):
        model(torch.zeros(2, 3), torch.zeros(2, 5), torch.zeros(9))


def test_same_name_is_same_size() -> None:
    model = compiled(torch.add, {"args[0]": {0: BATCH}, "args[1]": {0: BATCH}})
    torch.testing.assert_close(model(torch.ones(3), torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(ValueError, match=r"args\[1\], dim 0 \(batch\): size 1, but .*args\[0\]"):
        model(torch.ones(3), torch.ones(1))


def test_static() -> None:
    model = compiled(double, {"x": {1: 3}})
    model(torch.zeros(5, 3))
    assert "f32[S0, 3]" in model.report().traces[0].inputs[0]
    with pytest.raises(ValueError, match="x, dim 1: size 4, declared static as 3"):
        model(torch.zeros(5, 4))


def test_nested_argument() -> None:
    model = compiled(lambda batch: batch["ids"] + 1, {"batch['ids']": {0: Dim("n", max=4)}})
    model({"ids": torch.zeros(4)})
    with pytest.raises(ValueError, match=r"batch\['ids'\], dim 0 \(n\): size 5"):
        model({"ids": torch.zeros(5)})


def test_a_divisor_drops_branches() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] % 4 == 0 else x - 1

    model = compiled(branch, {"x": {0: Dim("n", multiple_of=8)}})
    model(torch.zeros(8))
    assert [g.kind for g in model.report().traces[0].guards] == ["declared"]


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ({"y": {0: BATCH}}, r"dims\['y'\]: this call has no such tensor argument; it has x"),
        ({"x": {2: BATCH}}, r"dims\['x'\]: no dim 2; the rank is 2"),
        ({"x": {0: "batch"}}, r"expected the number of a dim and a pydisc.Dim"),
        ({"x": {0: BATCH + 1}}, r"batch occurs in expressions only"),
        ({"x": {0: BATCH, 1: Dim("batch")}}, r"have one name"),
    ],
)
def test_wrong_declarations(dims: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        compiled(double, dims)(torch.zeros(2, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dim("two words"),
        lambda: Dim("S0"),
        lambda: Dim("max"),
        lambda: Dim("n", min=3, max=2),
        lambda: Dim("n", multiple_of=0),
    ],
)
def test_wrong_dims(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="Dim"):
        make()
