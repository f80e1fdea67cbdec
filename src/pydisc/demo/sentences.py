"""The sentences that the demo embeds, and the batches it makes of them."""

import random
from collections.abc import Callable
from importlib.resources import files

LARGEST_BATCH = 16


def load_sentences() -> list[str]:
    """The shipped sentences, in file order."""
    text = files("pydisc.demo").joinpath("sentences.txt").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def make_batches(sentences: list[str], length: Callable[[str], int]) -> list[list[str]]:
    """Batches of 1 to 16 sentences that between them hold every sentence at least once.

    Twice through the batch sizes: once shuffled, so that short sentences are padded beside long
    ones, and once sorted by length, as a service that sorts its queue would do.
    """
    shuffled = list(sentences)
    random.Random(0).shuffle(shuffled)
    batches: list[list[str]] = []
    for order in (shuffled, sorted(sentences, key=length)):
        start = 0
        for size in range(1, LARGEST_BATCH + 1):
            batches.append([order[(start + i) % len(order)] for i in range(size)])
            start += size
    return batches
