"""Slices with constant bounds, at every size from one trace."""

import itertools

import pytest

from pydisc.frontend.lowerings.context import LoweringContext
from pydisc.frontend.lowerings.layout import _range
from pydisc.shape import ShapeContext, prove_ge


@pytest.mark.parametrize("low", [0, 2])
def test_slices_with_constant_bounds_need_no_guard(low: int) -> None:
    cx = ShapeContext()
    s = cx.symbol("s", 4, lo=low)
    lowering = LoweringContext(None, cx)  # pyright: ignore[reportArgumentType]
    bounds = [None, *range(-4, 5)]
    for start, end in itertools.product(bounds, bounds):
        found = _range(lowering, start, end, s)
        assert prove_ge(found[2], 0), (start, end, found)
        for value in range(low, 9):
            begin, limit, length = (
                size if isinstance(size, int) else size.evaluate({"s": value}) for size in found
            )
            assert 0 <= begin <= limit <= value or not length, (start, end, value)
            assert list(range(value))[begin : begin + length] == list(range(value))[start:end]
    assert not cx.guards
