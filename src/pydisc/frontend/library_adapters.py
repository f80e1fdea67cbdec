"""Functions of libraries that branch on a size for eager mode's sake, while they are traced.

The replacements return what the originals return, for all sizes at once; where they do not cover a
call, and for tensors that are not traced, they call the original.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import torch

from pydisc.frontend.traced_tensor import TracedTensor


@contextmanager
def adapted_libraries() -> Generator[None]:
    """Put the replacements in place for those libraries that are loaded."""
    undo: list[Callable[[], None]] = []
    try:
        for adapt in (_adapt_attention, _adapt_causal_mask, _adapt_torch_tensor):
            undo += adapt()
        yield
    finally:
        for put_back in undo:
            put_back()


def _adapt_attention() -> list[Callable[[], None]]:
    """transformers' attention by SDPA: `q_length > 1 and mask is None and is_causal`.

    The size is asked first, although a mask settles the question; and for one query and one key
    the causal mask changes nothing.
    """
    module = sys.modules.get("transformers.modeling_utils")
    table = getattr(getattr(module, "ALL_ATTENTION_FUNCTIONS", None), "_global_mapping", None)
    if not isinstance(table, dict) or "sdpa" not in table:
        return []
    original = table["sdpa"]
    if getattr(original, "__name__", "") != "sdpa_attention_forward":
        return []

    def sdpa_attention_forward(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        def as_before() -> Any:
            return original(
                module, query, key, value, attention_mask,
                dropout=dropout, scaling=scaling, is_causal=is_causal, **kwargs,
            )  # fmt: skip

        if type(query) is not TracedTensor or any(kwargs.get(k) is not None for k in _NOT_COVERED):
            return as_before()
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(causal) and attention_mask is None
        if causal and not _same_size(query.shape[2], key.shape[2]):
            return as_before()
        bias = kwargs.get("position_bias")
        if bias is not None:
            combine = getattr(
                sys.modules.get("transformers.integrations.sdpa_attention"),
                "create_position_bias_mask",
                None,
            )
            if combine is None:
                return as_before()
            attention_mask, causal = combine(bias, attention_mask, causal, query, key), False
        out = torch.nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=attention_mask,
            dropout_p=dropout,
            scale=scaling,
            is_causal=causal,
            enable_gqa=getattr(module, "num_key_value_groups", 1) > 1,
        )
        return out.transpose(1, 2).contiguous(), None

    table["sdpa"] = sdpa_attention_forward

    def put_back() -> None:
        table["sdpa"] = original

    return [put_back]


_NOT_COVERED = ("softcap", "s_aux")


def _adapt_causal_mask() -> list[Callable[[], None]]:
    """transformers' `q_length == 1 or kv_length == q_length`: only the second is known."""
    module: Any = sys.modules.get("transformers.masking_utils")
    original = getattr(module, "_ignore_causal_mask_sdpa", None)
    if original is None:
        return []

    def ignore_causal_mask(
        padding_mask: Any, q_length: Any, kv_length: Any, *args: Any, **kwargs: Any
    ) -> bool:
        local = args[2] if len(args) > 2 else kwargs.get("local_attention_size")
        if (
            isinstance(q_length, torch.SymInt)
            and padding_mask is None
            and local is None
            and _same_size(q_length, kv_length)
        ):
            return True
        return original(padding_mask, q_length, kv_length, *args, **kwargs)

    module._ignore_causal_mask_sdpa = ignore_causal_mask

    def put_back() -> None:
        module._ignore_causal_mask_sdpa = original

    return [put_back]


def _adapt_torch_tensor() -> list[Callable[[], None]]:
    """`torch.tensor(size)`, which would make a plain number of the size."""
    original = torch.tensor

    def is_size(data: Any) -> bool:
        return isinstance(data, torch.SymInt | torch.SymFloat)

    def tensor(data: Any, *args: Any, **kwargs: Any) -> Any:
        if is_size(data):
            if kwargs.get("dtype") is None and isinstance(data, torch.SymInt):
                kwargs["dtype"] = torch.int64
            return cast(Any, torch.scalar_tensor)(data, **kwargs)
        if isinstance(data, list | tuple) and any(is_size(d) for d in data):
            return torch.stack([tensor(d, *args, **kwargs) for d in data])
        return original(data, *args, **kwargs)

    torch.tensor = tensor

    def put_back() -> None:
        torch.tensor = original

    return [put_back]


def _same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are one without asking (which would guard)."""
    if isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt):
        return a.node is b.node
    return isinstance(a, int) and isinstance(b, int) and a == b
