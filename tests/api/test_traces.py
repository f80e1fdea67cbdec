"""How many traces a function gets, and that every answer is right."""

import inspect

import pytest
import torch
from torch import Tensor

import pydisc
from pydisc.torch_backend import compiled as compiled_module


def weighted_rows(x: Tensor) -> Tensor:
    total = x.sum(0)
    for i in range(x.shape[0]):
        total = total + x[i] * (i + 1)
    return total


def test_a_python_loop_over_a_size_is_bounded_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_module, "MAX_TRACES", 3)
    with torch.no_grad():
        fn = pydisc.compile(weighted_rows)
        for n in (2, 5, 2, 3, 0, 4, 5, 7):
            x = torch.randn(n, 4)
            torch.testing.assert_close(fn(x), weighted_rows(x), rtol=1e-4, atol=1e-5)
    report = fn.report()
    assert report.compiles == 3
    assert report.eager_calls == 3
    (fallback,) = report.fallbacks
    assert fallback.reason == "more than 3 traces"
    line = inspect.getsourcelines(weighted_rows)[1] + 2
    assert f"test_traces.py:{line}" in fallback.where
    assert "specialize S0 == 2" in str(report)


def test_two_sizes_that_broadcast_get_one_trace_each_way() -> None:
    with torch.no_grad():
        fn = pydisc.compile(torch.add)
        for n, m in ((1, 1), (7, 7), (1, 5), (5, 1), (0, 1), (1, 0), (3, 3), (1, 1), (9, 1)):
            x, y = torch.randn(n), torch.randn(m)
            torch.testing.assert_close(fn(x, y), x + y)
    assert fn.report().compiles == 3
    assert fn.report().eager_calls == 0
