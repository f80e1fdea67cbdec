"""The parts of the demo that need no model."""

import torch

from pydisc.demo import embed
from pydisc.demo.sentences import LARGEST_BATCH, load_sentences, make_batches


def test_there_are_about_sixty_different_sentences():
    sentences = load_sentences()
    assert 55 <= len(sentences) <= 75
    assert len(set(sentences)) == len(sentences)


def test_batches_hold_every_sentence_in_every_size():
    sentences = load_sentences()
    batches = make_batches(sentences, len)
    assert {len(batch) for batch in batches} == set(range(1, LARGEST_BATCH + 1))
    assert {sentence for batch in batches for sentence in batch} == set(sentences)


def test_nearest_lists_each_pair_once():
    vectors = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    rows = embed.nearest(vectors, ["a", "b", "c", "d"], rows=10)
    assert [frozenset(row[:2]) for row in rows] == [frozenset("ab"), frozenset("cd")]


def test_nan_is_a_difference():
    nan = torch.tensor([float("nan")])
    assert embed.largest_difference([nan], [torch.ones(1)]) == float("inf")


class _Report:
    compiles = 1
    recompiles: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ("aten.foo",)


def test_counts_come_from_the_report():
    counts = embed.counts_of(_Report())
    assert (counts.compiles, counts.recompiles, counts.fallbacks) == (1, 0, 1)
    assert not counts.ok
