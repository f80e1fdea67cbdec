"""Integer arithmetic on every pair of bytes, signed and unsigned, against torch and Python."""

from collections.abc import Callable

import pytest
import torch
from tests.unit.codegen.conftest import c_function, load
from tests.unit.codegen.elementwise_loop import ELEMENTWISE_ARGS, emit_elementwise
from torch import Tensor

from pydisc.codegen.common.assembly_text import Text, Val
from pydisc.codegen.cpu import integer_math

DTYPES = {"i8": torch.int8, "ui8": torch.uint8}
Emit = Callable[[Text, Val, Val, bool], Val]


def quotient(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def power(x: int, y: int) -> int:
    if y < 0:
        return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    return pow(x, y, 256) if x >= 0 or y % 2 == 0 else -pow(-x, y, 256)


CASES: dict[str, tuple[Emit, Callable[[int, int], int]]] = {
    "divide": (lambda t, x, y, s: integer_math.divide(t, x, y, signed=s), quotient),
    "remainder": (
        lambda t, x, y, s: integer_math.remainder(t, x, y, signed=s),
        lambda x, y: 0 if y == 0 else x - quotient(x, y) * y,
    ),
    "power": (lambda t, x, y, s: integer_math.power(t, x, y, signed=s), power),
    "shift_left": (
        lambda t, x, y, _: integer_math.shift_left(t, x, y),
        lambda x, y: x << y if 0 <= y < 8 else 0,
    ),
    "shift_right": (
        lambda t, x, y, s: integer_math.shift_right(t, x, y, signed=s),
        lambda x, y: x >> (y if 0 <= y < 8 else 8),
    ),
}


def wrapped(values: list[int], dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=torch.int64).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_every_pair_of_bytes(name: str, dtype: str) -> None:
    emit, expected = CASES[name]
    t = Text(16)
    signed = dtype == "i8"
    emit_elementwise(t, "f", lambda x, y: emit(t, x, y, signed), dtype, dtype)
    numbers = range(-128, 128) if signed else range(256)
    pairs = [(x, y) for x in numbers for y in numbers]
    x, y = (wrapped([p[i] for p in pairs], DTYPES[dtype]) for i in (0, 1))
    out = torch.empty_like(x)
    c_function(load(t), "f", ELEMENTWISE_ARGS)(x, y, out, len(pairs))
    want = wrapped([expected(*p) for p in pairs], DTYPES[dtype])
    wrong = (out != want).nonzero().flatten().tolist()
    assert not wrong, [(pairs[i], int(out[i]), int(want[i])) for i in wrong[:5]]


@pytest.mark.parametrize("bits", [32, 64])
def test_wide_numbers_wrap_around(bits: int) -> None:
    t = Text(8)
    dtype = f"i{bits}"
    emit_elementwise(t, "d", lambda x, y: integer_math.divide(t, x, y, signed=True), dtype, dtype)
    emit_elementwise(t, "p", lambda x, y: integer_math.power(t, x, y, signed=True), dtype, dtype)
    code = load(t)
    kind = getattr(torch, f"int{bits}")
    least = -(2 ** (bits - 1))
    x = torch.tensor([least, least, 3, 7], dtype=kind)
    y = torch.tensor([-1, 1, 70, 0], dtype=kind)
    out = torch.empty_like(x)
    c_function(code, "d", ELEMENTWISE_ARGS)(x, y, out, 4)
    assert out.tolist() == [least, least, 0, 0]
    c_function(code, "p", ELEMENTWISE_ARGS)(x.abs(), y.abs(), out, 4)
    cube = (3**70 + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    assert out.tolist() == [least, least, cube, 1]
