"""Sums of many floats: blocks of blocks, so that the error does not grow with the length."""

import pytest
import torch

import pydisc


@pytest.mark.parametrize("shape", [(1 << 20, 3), (3, 1 << 20), (1 << 10, 1 << 10, 2), (70, 33, 64)])
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_error_does_not_grow_with_the_length(
    shape: tuple[int, ...], axis: int | tuple[int, ...]
) -> None:
    x = torch.full(shape, 0.1)  # every rounding goes the same way
    with torch.no_grad():
        total = pydisc.compile(lambda x: x.sum(axis))(x)
    exact = x.double().sum(axis)
    assert float(((total - exact) / exact).abs().max()) < 3e-6
