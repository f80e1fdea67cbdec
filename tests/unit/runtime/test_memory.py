"""Whether tensors share memory."""

import torch

from pydisc.runtime.memory import overlap, overlaps_itself, storage_of


def test_ranges_that_meet_overlap() -> None:
    x = torch.zeros(10)
    assert overlap(x, x)
    assert overlap(x[:5], x[4:])
    assert overlap(x[::2], x[1::2])  # the ranges meet, though no element is shared
    assert not overlap(x[:5], x[5:])
    assert not overlap(x, torch.zeros(10))
    assert not overlap(x[:0], x)
    assert storage_of(x[3:]) == storage_of(x)


def test_elements_that_share_memory() -> None:
    x = torch.zeros(4, 5)
    assert not overlaps_itself(x)
    assert not overlaps_itself(x.t()[1:, ::2])
    assert not overlaps_itself(x[:1].expand(1, 5))
    assert overlaps_itself(x[:1].expand(3, 5))
    assert overlaps_itself(x.view(-1).unfold(0, 3, 1))
    assert not overlaps_itself(x.view(-1).unfold(0, 3, 3))
