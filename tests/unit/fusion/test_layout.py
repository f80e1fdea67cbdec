"""Reshapes as linear forms: groups of dims, and digits without divisions."""

import itertools

import pytest

from pydisc.fusion.kernel_program import Linear
from pydisc.fusion.layout import NoAccess, SplitAxis, reshape_groups, take_apart
from pydisc.shape import Dim, ShapeContext


@pytest.fixture
def dims() -> list[Dim]:
    cx = ShapeContext()
    return [cx.symbol(name, 4) for name in ("b", "s", "t")]


def test_groups_are_the_smallest_with_equal_products(dims: list[Dim]) -> None:
    b, s, _ = dims
    assert reshape_groups((b, s, 64), (b, s, 4, 16), 0) == [([0], [0]), ([1], [1]), ([2], [2, 3])]
    assert reshape_groups((b, s, 64), (b * s, 64), 0) == [([0, 1], [0]), ([2], [1])]
    assert reshape_groups((b, 1, s), (1, b, s), 0) == [([0], [1]), ([2], [2])]


def test_groups_that_may_differ_are_no_access(dims: list[Dim]) -> None:
    b, s, t = dims
    with pytest.raises(NoAccess) as miss:
        reshape_groups((b, s), (b, t), 7)
    assert miss.value.tensor == 7


@pytest.mark.parametrize("sizes", [(2, 3, 4), (1, 5), (6,), (2, 2, 2, 2)])
def test_digits_of_axes_that_fit_are_the_axes(sizes: tuple[int, ...]) -> None:
    """flat = the element number over the axes; apart it is the axes again, at every point."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    flat = Linear(tuple((i, s) for i, s in enumerate(strides) if sizes[i] != 1))
    parts = take_apart(flat, sizes, sizes, 0)
    for point in itertools.product(*(range(size) for size in sizes)):
        values = [sum(point[axis] * c for axis, c in part.terms) for part in parts]
        assert values == list(point)


def test_one_axis_over_two_dims_asks_to_be_split(dims: list[Dim]) -> None:
    b, s, _ = dims
    with pytest.raises(SplitAxis) as split:
        take_apart(Linear(((0, 1),)), (b, s), [b * s], 0)
    assert (split.value.axis, split.value.inner) == (0, s)


def test_an_offset_cannot_be_taken_apart() -> None:
    with pytest.raises(NoAccess, match="offset"):
        take_apart(Linear(((0, 1),), 3), (2, 4), [8], 0)


def test_a_stride_that_is_no_digit_cannot_be_taken_apart() -> None:
    with pytest.raises(NoAccess, match="stride"):
        take_apart(Linear(((0, 2),)), (2, 4), [4], 0)
