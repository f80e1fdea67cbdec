"""Sizes of what the framework computes, by our rules, against the framework itself."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import pydisc
from pydisc.support import knobs

CONVOLUTIONS = [
    nn.Conv1d(4, 6, 3),
    nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2),
    nn.Conv1d(4, 4, 4, padding="same", groups=4, bias=False),
    nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
    nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0)),
    nn.ConvTranspose2d(4, 6, 3, stride=3),
]


@pytest.mark.parametrize("model", CONVOLUTIONS, ids=str)
def test_convolutions(model: nn.Module) -> None:
    rank = 1 if "1d" in type(model).__name__ else 2
    with torch.no_grad(), knobs.scope(on_error="raise"):
        compiled = pydisc.compile(model.eval())
        for batch, size in ((2, 9), (1, 8), (3, 33), (0, 9)):
            x = torch.randn(batch, 4, *[size] * rank)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        report = compiled.report()
    assert (report.compiles, report.eager_calls) == (1, 0)


def test_an_input_that_is_too_small_is_refused_as_in_eager_mode() -> None:
    model = nn.Conv1d(4, 6, 5)
    with torch.no_grad():
        compiled = pydisc.compile(model)
        compiled(torch.randn(2, 4, 9))
        with pytest.raises(RuntimeError, match="Kernel size"):
            compiled(torch.randn(2, 4, 3))


def test_neither_import_nor_a_convolution_loads_dynamo_or_sympy() -> None:
    code = """
import sys, torch, pydisc
with torch.no_grad():
    pydisc.compile(torch.nn.Conv1d(3, 4, 3))(torch.randn(2, 3, 9))
print([m for m in ("torch._dynamo", "sympy") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
