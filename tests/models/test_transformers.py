"""Whole models: one compile serves every size, nothing falls back, the numbers are eager's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from torch.utils import _pytree as pytree

import pydisc

SMALL: dict[str, Any] = {
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 200,
}
GPT: dict[str, Any] = {"n_embd": 96, "n_layer": 2, "n_head": 4}
DISTIL: dict[str, Any] = {"dim": 96, "n_layers": 2, "n_heads": 4, "hidden_dim": 200}
TEXT: dict[str, Callable[[], torch.nn.Module]] = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**SMALL)),
    "distilbert": lambda: hf.DistilBertModel(hf.DistilBertConfig(**DISTIL)),
    "albert": lambda: hf.AlbertModel(hf.AlbertConfig(embedding_size=32, **SMALL)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**SMALL)),
    "gpt2": lambda: hf.GPT2Model(hf.GPT2Config(**GPT)),
    "gpt2_lm": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT)),
}
LENGTHS = (1, 2, 7, 8, 31, 32, 33, 127)
BATCHES = (1, 2, 3)


def compare(compiled: Any, model: torch.nn.Module, double: torch.nn.Module, **inputs: Any) -> None:
    """Same structure and dtypes as eager, and as close to the f64 model as eager is."""
    with torch.no_grad():
        result, eager = compiled(**inputs), model(**inputs)
        wide = {
            k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
            for k, v in inputs.items()
        }
        golden = double(**wide)
    assert type(result) is type(eager)
    got, expected, exact = (pytree.tree_leaves(x) for x in (result, eager, golden))
    assert len(got) == len(expected)
    for x, y, z in zip(got, expected, exact, strict=True):
        if not isinstance(y, torch.Tensor):
            assert x == y
            continue
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        if y.numel():
            ours, theirs = (x.double() - z).abs().max(), (y.double() - z).abs().max()
            assert ours <= 3 * theirs + 1e-6, f"{ours} from f64, eager {theirs}"


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("name", TEXT)
def test_text_model(name: str, masked: bool) -> None:
    model = TEXT[name]().eval()
    double = TEXT[name]().eval().double()
    double.load_state_dict(model.state_dict())
    compiled = pydisc.compile(model)
    for batch in BATCHES:
        for length in LENGTHS:
            inputs: dict[str, Any] = {"input_ids": torch.randint(2, 1000, (batch, length))}
            if masked:
                mask = torch.ones(batch, length, dtype=torch.long)
                mask[0, length // 2 + 1 :] = 0
                inputs["attention_mask"] = mask
            compare(compiled, model, double, **inputs)
    report = compiled.report()
    assert (report.compiles, report.recompiles, report.eager_calls) == (1, 0, 0)
    assert report.fallbacks == ()


def test_vision_transformer() -> None:
    config = hf.ViTConfig(image_size=32, patch_size=8, **SMALL)
    model = hf.ViTModel(config).eval()
    double = hf.ViTModel(config).eval().double()
    double.load_state_dict(model.state_dict())
    compiled = pydisc.compile(model)
    for batch in (1, 2, 3, 8):
        compare(compiled, model, double, pixel_values=torch.randn(batch, 3, 32, 32))
    report = compiled.report()
    assert (report.compiles, report.recompiles, report.eager_calls) == (1, 0, 0)
    assert report.fallbacks == ()


def test_a_length_above_the_position_table_is_eagers_error() -> None:
    model = TEXT["bert"]().eval()
    compiled = pydisc.compile(model)
    with torch.no_grad():
        compiled(input_ids=torch.ones(1, 5, dtype=torch.long))
        with pytest.raises((RuntimeError, IndexError)) as eager:
            model(input_ids=torch.ones(1, 600, dtype=torch.long))
        with pytest.raises(type(eager.value)):
            compiled(input_ids=torch.ones(1, 600, dtype=torch.long))
        # The program stays usable.
        ids = torch.randint(0, 1000, (2, 9))
        close = model(input_ids=ids).last_hidden_state
        torch.testing.assert_close(
            compiled(input_ids=ids).last_hidden_state, close, atol=1e-5, rtol=1e-5
        )


def test_a_token_above_the_vocabulary_is_an_index_error() -> None:
    model = TEXT["bert"]().eval()
    compiled = pydisc.compile(model)
    with torch.no_grad():
        compiled(input_ids=torch.ones(1, 5, dtype=torch.long))
        with pytest.raises(IndexError):
            compiled(input_ids=torch.full((1, 5), 10**6))


def test_torch_compile_finds_the_backend() -> None:
    model = TEXT["bert"]().eval()
    compiled = torch.compile(model, backend="disc", dynamic=True)
    from pydisc.torch_backend import dynamo

    before = set(dynamo.compiled_graphs)
    with torch.no_grad():
        for batch, length in ((2, 7), (3, 33), (5, 127)):
            ids = torch.randint(0, 1000, (batch, length))
            mask = torch.ones(batch, length, dtype=torch.long)
            result = compiled(input_ids=ids, attention_mask=mask).last_hidden_state
            eager = model(input_ids=ids, attention_mask=mask).last_hidden_state
            torch.testing.assert_close(result, eager, atol=1e-5, rtol=1e-5)
    (graph,) = set(dynamo.compiled_graphs) - before
    assert graph.fallback is None
    assert (graph.calls, graph.eager_calls, len(graph.variants)) == (3, 0, 1)
    assert all(not v.info.fallbacks for v in graph.variants.values())
