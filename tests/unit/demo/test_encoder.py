"""The encoder and its tokenizer come from the package, offline."""

import pytest
import torch

from pydisc.demo.encoder import Tokenizer, load_encoder
from pydisc.demo.sentences import load_sentences, make_batches


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer()


def test_the_batches_have_at_least_25_shapes(tokenizer):
    batches = make_batches(load_sentences(), tokenizer.count)
    assert len({tuple(tokenizer(batch)[0].shape) for batch in batches}) >= 25


def test_sentences_have_3_to_200_tokens(tokenizer):
    counts = [tokenizer.count(sentence) for sentence in load_sentences()]
    assert min(counts) == 3
    assert 150 <= max(counts) <= 200


def test_a_vector_does_not_depend_on_padding(tokenizer):
    model = load_encoder()
    short, long = "Rain.", "Thunderstorms form when warm, moist air rises quickly."
    with torch.no_grad():
        alone = model(*tokenizer([short]))
        padded = model(*tokenizer([short, long]))
    assert alone.shape == (1, 384)
    torch.testing.assert_close(padded[:1], alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(alone.norm(), torch.tensor(1.0))
