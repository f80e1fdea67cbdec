"""Argument templates of operators that the framework runs."""

from typing import Any

import pytest
import torch

from pydisc.artifact.extern_args import decode, encode, symbols_of


def named(kind: str, name: str) -> Any:
    """What the runtime makes of a dtype, device, layout or memory format."""
    return torch.device(name) if kind == "device" else getattr(torch, name)


def test_round_trip() -> None:
    tensor = torch.zeros(2)
    args = [tensor, [1, 2.5, None, True], "size", torch.float16, float("-inf")]
    kwargs = {"device": torch.device("cpu"), "layout": torch.strided, "like": tensor}
    tensors: list[torch.Tensor] = []

    def replace(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return {"t": len(tensors) - 1}
        return {"d": "2*S0 + (S1//3)"} if value == "size" else value

    template = encode(args, kwargs, replace)
    assert symbols_of(template) == {"S0", "S1"}
    got, options = decode(template, tensors, {"S0": 4, "S1": 7}, named)
    assert got == [tensor, [1, 2.5, None, True], 10, torch.float16, float("-inf")]
    assert options == kwargs


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(TypeError, match="Generator"):
        encode([torch.Generator()], {}, lambda x: x)
