"""Where gradients are wanted both APIs run eager mode, count it, and say it once."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pydisc
from pydisc.support import log
from pydisc.torch_backend import dynamo


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """What is said, as if for the first time in this process."""
    monkeypatch.setattr(log, "_said", set())
    monkeypatch.setattr(logging.getLogger("pydisc"), "propagate", True)
    caplog.set_level(logging.WARNING, logger="pydisc")
    return caplog


def by_compile(model: torch.nn.Module) -> Callable[..., Any]:
    return pydisc.compile(model)


def by_backend(model: torch.nn.Module) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(model, backend="disc", dynamic=True)


@pytest.mark.parametrize("wrap", [by_compile, by_backend])
def test_parameters_that_require_gradients(wrap: Any, warnings: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).eval()
    dynamo.compiled_graphs.clear()
    compiled, x = wrap(model), torch.randn(3, 4)
    result = compiled(x)
    assert result.requires_grad
    result.sum().backward()
    assert model[0].weight.grad is not None
    wrap(torch.nn.Linear(4, 4))(x)  # another model: nothing more is said
    (said,) = [r.getMessage() for r in warnings.records if "gradients" in r.getMessage()]
    assert "torch.no_grad()" in said
    assert "torch.inference_mode()" in said
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            torch.testing.assert_close(compiled(x), model(x))


def test_both_count() -> None:
    model, x = torch.nn.Linear(4, 4).eval(), torch.randn(3, 4)
    compiled = by_compile(model)
    compiled(x)
    with torch.no_grad():
        compiled(x)
    compiled(x)
    report = compiled.report()
    assert (report.calls, report.eager_calls) == (1, 2)
    assert "torch.no_grad()" in report.fallbacks[0].reason
    dynamo.compiled_graphs.clear()
    compiled = by_backend(model)
    compiled(x)
    with torch.no_grad():
        compiled(x)
    assert sum(g.eager_calls for g in dynamo.compiled_graphs) == 1
    assert sum(g.calls for g in dynamo.compiled_graphs) == 1


@pytest.mark.parametrize("wrap", [by_compile, by_backend])
def test_frozen_parameters_are_compiled_with_gradients_enabled(wrap: Any, warnings: Any) -> None:
    model, x = torch.nn.Linear(4, 4).eval().requires_grad_(False), torch.randn(3, 4)
    dynamo.compiled_graphs.clear()
    compiled = wrap(model)
    torch.testing.assert_close(compiled(x), model(x))
    assert not warnings.records
    counted = compiled.report() if wrap is by_compile else next(iter(dynamo.compiled_graphs))
    assert (counted.calls, counted.eager_calls) == (1, 0)


def test_a_function_that_reaches_a_parameter() -> None:
    weight, x = torch.nn.Parameter(torch.randn(4)), torch.randn(3, 4)
    compiled = pydisc.compile(lambda x: x * weight)
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    report = compiled.report()
    assert (report.calls, report.eager_calls) == (1, 1)
