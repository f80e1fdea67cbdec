"""If the guards hold, the captured program equals eager mode: models and random programs."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.hlo_interpreter import declared_env, guards_hold, replay
from torch import Tensor, nn

from pydisc.frontend import capture
from pydisc.ir.context import open_context

transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def _bert() -> nn.Module:
    return transformers.BertModel(transformers.BertConfig(**SMALL))


def _distilbert() -> nn.Module:
    config = transformers.DistilBertConfig(
        vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64
    )
    return transformers.DistilBertModel(config)


def _albert() -> nn.Module:
    return transformers.AlbertModel(transformers.AlbertConfig(embedding_size=16, **SMALL))


def _roberta() -> nn.Module:
    return transformers.RobertaModel(transformers.RobertaConfig(**SMALL))


def _gpt2() -> nn.Module:
    config = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4)
    return transformers.GPT2LMHeadModel(config)


def _t5() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=100, d_model=32, num_layers=2, num_heads=4, d_kv=8, d_ff=64
    )
    return transformers.T5EncoderModel(config)


def _llama() -> nn.Module:
    config = transformers.LlamaConfig(num_key_value_heads=2, **SMALL)
    return transformers.LlamaModel(config)


def _vit() -> nn.Module:
    small = {k: v for k, v in SMALL.items() if k != "vocab_size"}
    return transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **small))


TEXT = [_bert, _distilbert, _albert, _roberta, _gpt2, _t5, _llama]


def _text(batch: int, length: int, masked: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    ids = torch.randint(3, 90, (batch, length))
    if not masked:
        return (ids,), {}
    mask = torch.ones(batch, length, dtype=torch.int64)
    for row in range(1, batch):
        mask[row, random.Random(row).randint(1, length) :] = 0
    return (ids,), {"attention_mask": mask}


def assert_sound(
    model: Callable[..., Any], make: Callable[[int, int], Any], hint: tuple[int, int]
) -> int:
    """Check the implication on a grid of sizes; return how many the one trace served."""
    args, kwargs = make(*hint)
    state = model if isinstance(model, nn.Module) else None
    served = 0
    with open_context():
        found = capture(model, args, kwargs, state=state)
        assert found.module.operation.verify()
        assert not found.externs
        for sizes in ((1, 1), (2, 7), (1, 9), (3, 1), (5, 33), (4, 4)):
            args, kwargs = make(*sizes)
            leaves = torch.utils._pytree.tree_leaves((args, kwargs))
            env = declared_env(found, [x for x in leaves if isinstance(x, Tensor)])
            if env is None or not guards_hold(found, env):
                continue
            with torch.no_grad():
                want = model(*args, **kwargs)
            got = replay(found, leaves)
            assert type(got) is type(want)
            ours, theirs = (torch.utils._pytree.tree_leaves(r) for r in (got, want))
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
            served += 1
    return served


@pytest.mark.parametrize("hint", [(2, 7), (1, 1)], ids=["2x7", "1x1"])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("build", TEXT)
def test_one_trace_of_a_text_model_serves_every_shape(
    build: Callable[[], nn.Module], masked: bool, hint: tuple[int, int]
) -> None:
    model = build().eval()
    assert assert_sound(model, lambda b, s: _text(b, s, masked), hint) == 6


@pytest.mark.parametrize("hint", [(2, 7), (1, 1)], ids=["2", "1"])
def test_one_trace_of_a_vision_model_serves_every_batch(hint: tuple[int, int]) -> None:
    model = _vit().eval()
    assert assert_sound(model, lambda b, _: ((torch.randn(b, 3, 32, 32),), {}), hint) == 6


def test_a_decoding_step_with_a_cache() -> None:
    model = _gpt2().eval()

    def arguments(batch: int, past: int) -> tuple[Any, dict[str, Any]]:
        with torch.no_grad():
            cache = model(torch.randint(0, 90, (batch, past)), use_cache=True).cache
        return torch.randint(0, 90, (batch, 1)), {"cache": cache, "use_cache": True}

    with open_context():
        ids, kwargs = arguments(2, 5)
        found = capture(model, (ids,), kwargs, state=model)
        assert not found.externs
        for sizes in ((2, 5), (1, 9), (3, 1)):
            ids, kwargs = arguments(*sizes)
            leaves = torch.utils._pytree.tree_leaves(((ids,), kwargs))
            env = declared_env(found, [x for x in leaves if isinstance(x, Tensor)])
            assert env is not None
            assert guards_hold(found, env)
            got = replay(found, leaves)
            with torch.no_grad():
                want = model(ids, **kwargs)
            torch.testing.assert_close(got.logits, want.logits, rtol=1e-4, atol=1e-5)
            assert type(got.cache) is type(want.cache)
            assert got.cache.get_seq_length() == sizes[1] + 1


# -- random programs ---------------------------------------------------------------------------
def _attend(x: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(x, x, x)


STEPS: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("transpose", lambda x: x.transpose(0, 1)),
    ("contiguous", lambda x: x.contiguous()),
    ("split heads", lambda x: x.reshape(x.shape[0], x.shape[1], 2, -1).flatten(2)),
    ("merge", lambda x: x.reshape(-1, x.shape[-1]).unsqueeze(0)),
    ("tail", lambda x: x[:, 1:] if x.shape[1] > 1 else x),
    ("head", lambda x: x[:, :3]),
    ("cat", lambda x: torch.cat([x, x.flip(1) * 0 + 1], dim=1)),
    ("softmax", lambda x: x.softmax(1)),
    ("norm", lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:])),
    ("centre", lambda x: x - x.mean((0, 1), keepdim=True)),
    ("attend", _attend),
    ("pairs", lambda x: (x.unsqueeze(1) + x.unsqueeze(2)).sum(2)),
    ("repeat", lambda x: x.repeat(1, 2, 1)),
    ("positions", lambda x: x + torch.arange(x.shape[1]).unsqueeze(-1)),
    ("branch", lambda x: x * 2 if x.shape[0] * x.shape[1] > 12 else x + 1),
    ("write", lambda x: x.clone().index_fill_(2, torch.tensor([0]), 0.5)),
    ("set row", lambda x: _set_first(x.clone())),
    ("gelu", torch.nn.functional.gelu),
]


def _set_first(x: Tensor) -> Tensor:
    x[..., 0].mul_(3)
    x.transpose(0, 2)[1].add_(1)
    return x


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=5),
    hint=st.tuples(st.integers(1, 4), st.integers(1, 5)),
    sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=3, max_size=5),
)
def test_random_programs(
    steps: list[tuple[str, Callable[[Tensor], Tensor]]],
    hint: tuple[int, int],
    sizes: list[tuple[int, int]],
) -> None:
    def program(x: Tensor) -> Tensor:
        for _, step in steps:
            x = step(x)
        return x

    with open_context():
        found = capture(program, (torch.randn(*hint, 4),), {}, state=None)
        for size in (hint, *sizes):
            x = torch.randn(*size, 4)
            env = declared_env(found, [x])
            if env is None or not guards_hold(found, env):
                assert size != hint
                continue
            try:
                want = program(x.clone())
            except (RuntimeError, IndexError, ZeroDivisionError):
                continue
            torch.testing.assert_close(replay(found, [x]), want, rtol=1e-4, atol=1e-4)
