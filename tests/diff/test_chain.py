"""Attention in one kernel: right at every size from one compile, linked only where it may be."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import pydisc
from pydisc.support import knobs

LENGTHS = (0, 1, 2, 7, 31, 33, 95, 96, 97, 127, 193)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def heads_inside(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As models write it: (batch, length, heads, size) in and out."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2)
    return torch.tanh(scores / 3).softmax(-1) @ v + q[..., :1]


def kernels(model: pydisc.CompiledModel) -> list[str]:
    report = model.report()
    assert (report.compiles, report.recompiles, report.eager_calls) == (1, 0, 0)
    assert not report.fallbacks
    return [f.kernel.split("_")[0] for f in report.traces[0].fusions]


def check(model: pydisc.CompiledModel, fn: Callable[..., Tensor], args: tuple[Tensor, ...]) -> None:
    exact = fn(*(x.double() if x.is_floating_point() else x for x in args)).float()
    torch.testing.assert_close(model(*args), exact, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("fn", [attention, causal, by_hand])
def test_lengths(fn: Callable[..., Tensor]) -> None:
    model = pydisc.compile(fn)
    with knobs.scope(on_error="raise"), torch.no_grad():
        for n in (3, *LENGTHS):
            for keys in (n,) if fn is causal else (n, 5, 130):
                q = torch.randn(2, 3, n, 8)
                check(model, fn, (q, torch.randn(2, 3, keys, 8), torch.randn(2, 3, keys, 8)))
    assert "chain" in kernels(model)


def test_mask() -> None:
    model = pydisc.compile(masked)
    with knobs.scope(on_error="raise"), torch.no_grad():
        for n, keys in itertools.product((5, 1, 97), (4, 1, 0, 200)):
            q, k, v = (torch.randn(2, 3, s, 16) for s in (n, keys, keys))
            check(model, masked, (q, k, v, torch.randn(2, 1, n, keys)))
    assert "chain" in kernels(model)


def test_batches_and_head_sizes() -> None:
    model = pydisc.compile(heads_inside)
    with knobs.scope(on_error="raise"), torch.no_grad():
        for batch, heads, size in itertools.product((2, 0, 1, 5), (3, 1, 12), (64, 1, 33)):
            check(model, heads_inside, tuple(torch.randn(batch, 9, heads, size) for _ in range(3)))
    assert "chain" in kernels(model)


def scores_returned(q: Tensor, k: Tensor, v: Tensor) -> Any:
    weights = (q @ k.transpose(-1, -2)).softmax(-1)
    return weights @ v, weights


def scores_used_again(q: Tensor, k: Tensor, v: Tensor) -> Any:
    scores = q @ k.transpose(-1, -2)
    return scores.softmax(-1) @ v, scores.sum(-2)


def weights_on_the_right(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return v.transpose(-1, -2) @ (q @ k.transpose(-1, -2)).softmax(-1)


def other_rows(q: Tensor, k: Tensor, v: Tensor) -> Any:
    """The rows of the softmax are the columns of the product."""
    return (q @ k.transpose(-1, -2)).softmax(-2) @ v


@pytest.mark.parametrize(
    "fn", [scores_returned, scores_used_again, weights_on_the_right, other_rows]
)
def test_not_linked(fn: Callable[..., Any]) -> None:
    model = pydisc.compile(fn)
    with knobs.scope(on_error="raise"), torch.no_grad():
        for n in (9, 1, 0, 40):
            q, k, v = (torch.randn(2, n, 8) for _ in range(3))
            want = fn(q.double(), k.double(), v.double())
            got = model(q, k, v)
            for a, b in zip(
                got if isinstance(got, tuple) else (got,),
                want if isinstance(want, tuple) else (want,),
                strict=True,
            ):
                torch.testing.assert_close(a, b.float(), rtol=1e-5, atol=1e-5)
    assert "chain" not in kernels(model)


def test_knob() -> None:
    q = torch.randn(1, 4, 8)
    with knobs.scope(disable="chain", on_error="raise"), torch.no_grad():
        model = pydisc.compile(attention)
        check(model, attention, (q, q, q))
    assert "chain" not in kernels(model)
