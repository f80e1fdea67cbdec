"""Casts, reductions, structure."""

import pytest
import torch
from tests.unit.codegen.conftest import c_function, load
from tests.unit.codegen.elementwise_loop import ELEMENTWISE_ARGS, emit_elementwise

from pydisc.codegen.common.assembly_text import I64, PTR, Text

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i1": torch.bool,
}


@pytest.fixture(scope="module")
def casts() -> object:
    t = Text(8)
    for source in DTYPES:
        for target in DTYPES:
            emit_elementwise(
                t,
                f"{source}_{target}",
                lambda x, _, s=source, d=target: t.convert(x, s, d),
                source,
                target,
            )
    return load(t)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_convert(casts: object, source: str, target: str) -> None:
    values = torch.randn(103, dtype=torch.float64) * 50
    values[::5] = 0
    if "ui8" in (source, target) or source == "i1":
        values = values.abs()
    x = values.to(DTYPES[source])
    if source in ("f32", "bf16", "f64") and target in ("f16", "bf16", "f32"):
        x[:4] = torch.tensor([float("inf"), -float("inf"), float("nan"), 1e30]).to(x.dtype)
    out = torch.zeros(103, dtype=DTYPES[target])
    c_function(casts, f"{source}_{target}", ELEMENTWISE_ARGS)(x, x, out, 103)
    torch.testing.assert_close(out, x.to(DTYPES[target]), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_reduce(lanes: int) -> None:
    t = Text(lanes)
    kinds = {"add": torch.sum, "maximum": torch.max, "minimum": torch.min, "multiply": torch.prod}
    for kind in kinds:
        with t.function(kind, (("x", PTR), ("out", PTR))) as (x, out):
            t.store(t.reduce(kind, t.load(x, t.vector("f32"))), out)
    code = load(t)
    for kind, reference in kinds.items():
        for x in (
            torch.randn(lanes),
            torch.randn(lanes).index_fill(0, torch.tensor([1]), float("nan")),
        ):
            out = torch.zeros(())
            c_function(code, kind, (("x", PTR), ("out", PTR)))(x, out)
            torch.testing.assert_close(out, reference(x), equal_nan=True)


def test_loop_and_when_carry_values() -> None:
    t = Text(8)
    args = (("out", PTR), ("n", I64))
    with t.function("f", args) as (out, n):
        zero = t.const(0)
        with t.loop(zero, n, 1, [zero, t.const(1)]) as loop:
            total, last = loop.carried
            with t.when(t.compare("gt", loop.index, t.const(2)), [I64]) as branch:
                branch.give(t.add(total, loop.index))
            with branch.otherwise():
                branch.give(total)
            loop.carry(branch.results[0], t.add(last, last))
        t.store(loop.results[0], out)
        t.store(loop.results[1], t.at(out, 1, "i64"))
    out = torch.zeros(2, dtype=torch.int64)
    c_function(load(t), "f", args)(out, 6)
    assert out.tolist() == [3 + 4 + 5, 64]


def test_otherwise_must_follow_its_when() -> None:
    t = Text(8)
    with t.function("f", (("n", I64),)) as (n,):
        with t.when(t.compare("gt", n, t.const(2))) as branch:
            pass
        t.add(n, n)
        with pytest.raises(ValueError, match="must follow"):
            branch.otherwise().__enter__()
