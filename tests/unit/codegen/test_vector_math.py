"""The polynomials against torch in f64, at special values and at random ones."""

import math
from collections.abc import Callable

import pytest
import torch
from tests.unit.codegen.conftest import c_function, load
from tests.unit.codegen.elementwise_loop import ELEMENTWISE_ARGS, emit_elementwise

from pydisc.codegen.common.assembly_text import Text
from pydisc.codegen.cpu import vector_math

UNARY = {
    "exponential": (torch.exp, 1.0),
    "exponential_minus_one": (torch.expm1, 1.0),
    "erf": (torch.erf, 1.0),
    "tanh": (torch.tanh, 2.0),
    "logistic": (torch.sigmoid, 1.0),
    "log": (torch.log, 1.0),
    "log_plus_one": (torch.log1p, 1.0),
    "log2": (torch.log2, 1.0),
    "sine": (torch.sin, 1.0),
    "cosine": (torch.cos, 1.0),
    "rsqrt": (torch.rsqrt, 0.51),
    "sqrt": (torch.sqrt, 0.51),
    "floor": (torch.floor, 0.0),
    "ceil": (torch.ceil, 0.0),
    "round_nearest_even": (torch.round, 0.0),
    "atan": (torch.atan, 1.0),
}
SPECIAL = [
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-39, -1e-39, 1.17549435e-38),
    *(3.4e38, -3.4e38, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-5, -1e-5),
    *(88.7, 88.73, 89.5, -87.4, -103.9, -104.1, 1e5, 1e6, -3e7, 1e10, 16777217.0, 1e30, -1e30),
]


def samples() -> torch.Tensor:
    return torch.cat(
        [
            torch.tensor(SPECIAL),
            torch.randn(20003),
            torch.randn(10000) * 30,
            torch.randn(10000) * 1e-3,
            (torch.rand(10000) - 0.5) * 2e5,
            torch.randint(-(2**31), 2**31 - 1, (20000,)).int().view(torch.float32),
        ]
    )


def ulps(got: torch.Tensor, want: torch.Tensor) -> float:
    """Largest error in units of the last place of f32; infinite values and NaN must be equal."""
    rounded = want.float()
    finite = torch.isfinite(rounded) & torch.isfinite(got)
    torch.testing.assert_close(
        got[~finite], rounded[~finite], rtol=0, atol=0, equal_nan=True, check_stride=False
    )
    up = torch.nextafter(rounded, torch.tensor(math.inf))
    size = torch.clamp(up.double() - rounded.double(), min=1.5e-45)
    return torch.where(finite, (got.double() - want).abs() / size, 0.0).max().item()


@pytest.fixture(scope="module", params=[8, 16])
def unary_code(request: pytest.FixtureRequest) -> Callable:
    t = Text(request.param)
    for name in UNARY:
        emit_elementwise(t, f"op_{name}", lambda x, _, name=name: vector_math.UNARY[name](t, x))
    code = load(t)
    return lambda name: c_function(code, f"op_{name}", ELEMENTWISE_ARGS)


@pytest.mark.parametrize("name", UNARY)
def test_unary(unary_code: Callable, name: str) -> None:
    reference, bound = UNARY[name]
    x = samples()
    out = torch.full_like(x, 7.0)
    unary_code(name)(x, x, out, x.numel())
    want = reference(x.double())
    assert ulps(out, want) <= bound
    zero = (out == 0) & (want == 0)
    assert torch.equal(torch.signbit(out[zero]), torch.signbit(want[zero]))


@pytest.mark.parametrize("lanes", [8, 16])
def test_power_and_remainder(lanes: int) -> None:
    t = Text(lanes)
    emit_elementwise(t, "power", lambda x, y: vector_math.power(t, x, y))
    emit_elementwise(t, "remainder", lambda x, y: vector_math.remainder(t, x, y))
    code = load(t)
    special = torch.tensor([*SPECIAL, 7.0, -7.0, 33.0])
    x = torch.cat([special.repeat_interleave(len(special)), torch.randn(5000).abs() * 9])
    y = torch.cat([special.repeat(len(special)), torch.randn(5000) * 9])
    for name, reference in (("power", torch.pow), ("remainder", torch.fmod)):
        out = torch.full_like(x, 7.0)
        c_function(code, name, ELEMENTWISE_ARGS)(x, y, out, x.numel())
        want = reference(x.double(), y.double())
        # what is beyond f64 itself has no reference; f32 agrees on all special values
        assert ulps(out, want) <= 1.0, name


def test_f64_goes_to_libm() -> None:
    t = Text(4)
    names = ["exponential", "erf", "tanh", "log", "sine", "rsqrt", "logistic", "floor"]
    for name in names:
        emit_elementwise(
            t, f"op_{name}", lambda x, _, name=name: vector_math.UNARY[name](t, x), "f64", "f64"
        )
    code = load(t)
    x = torch.randn(103, dtype=torch.float64).abs()
    for name in names:
        out = torch.empty_like(x)
        c_function(code, f"op_{name}", ELEMENTWISE_ARGS)(x, x, out, x.numel())
        torch.testing.assert_close(out, UNARY[name][0](x), rtol=1e-14, atol=1e-14)


def test_scalars_and_vectors_agree() -> None:
    t = Text(8)
    names = ["exponential", "erf", "tanh", "log", "sine", "cosine"]
    for name in names:
        with t.function(f"op_{name}", ELEMENTWISE_ARGS) as (x, _, out, n):
            with t.loop(t.const(0), n) as loop:
                value = t.load_scalar(t.at(x, loop.index), "f32")
                value = vector_math.UNARY[name](t, value)
                t.store_scalar(value, t.at(out, loop.index), "f32")
    code = load(t)
    x = samples()[:3000]
    for name in names:
        out = torch.empty_like(x)
        c_function(code, f"op_{name}", ELEMENTWISE_ARGS)(x, x, out, x.numel())
        reference, bound = UNARY[name]
        assert ulps(out, reference(x.double())) <= bound
