# ruff: noqa: E501 -- rows of a table
"""Small functions against eager over a grid of sizes and layouts, each row from one compile.

A row names its inputs as text: `f:n,m` is an f32 tensor of sizes n by m. Rows that fail today are in
LIMITATIONS, with the reason; one that starts to pass fails the suite, so that it is taken out there.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

import pydisc
from pydisc.support import knobs

SIZES = (0, 1, 2, 7, 8, 31, 32, 33, 127, 1024)
OTHER = (3, 0, 1, 33)
DTYPES = {
    "f": torch.float32, "p": torch.float32, "d": torch.float64,
    "i": torch.int64, "j": torch.int32, "u": torch.uint8, "b": torch.bool,
    "x": torch.int64, "k": torch.int64, "q": torch.int32, "h": torch.int16, "c": torch.int8,
}  # fmt: skip
"""By the letter of an input; p is positive, x an index below 4, k and q are not 0."""
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-30, -3e15, 0.5, -2.0)

Fn = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """A function, its inputs, and what is checked of it."""

    name: str
    fn: Fn
    inputs: str
    special: bool = True
    """Also with NaN and infinities."""
    compiles: int = 1
    """More only where the function branches on a size."""
    big: bool = True
    """Also at n = 1024."""
    skip: tuple[int, ...] = ()
    """Sizes n for which eager itself is wrong or undefined."""
    loose: float = 1.0
    empty: bool = True
    """Also where a size is 0."""
    first: int = -1
    """Size n of the call that compiles; -1 is 7, 1 or 0, by the name."""
    always: bool = True
    """False where ours may give an answer to what eager refuses."""


ROWS: list[Row] = []


def row(name: str, fn: Fn, inputs: str, **options: Any) -> None:
    ROWS.append(Row(name, fn, inputs, **options))


# -- element-wise ----------------------------------------------------------------------------------
for _name in (
    "abs neg exp expm1 sin cos tan tanh sigmoid erf floor ceil round trunc sign relu relu6 sqrt rsqrt "
    "reciprocal square log1p isnan isinf isfinite signbit frac atan sinh cosh silu mish"
).split():
    _fn = getattr(torch, _name, None) or getattr(F, _name)
    row(_name, _fn, "f:n", loose=2 if _name == "tan" else 1)
for _name in "log log2 log10 log1p sqrt rsqrt digamma lgamma".split():
    row(f"{_name}_positive", getattr(torch, _name), "p:n")
for _name in "asin acos atanh erfinv acosh asinh exp2 logit".split():
    row(f"{_name}_outside", getattr(torch, _name), "f:n")
row("gelu", F.gelu, "f:n,m")
row("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), "f:n,m", special=False)
row("softplus", F.softplus, "f:n")
row("softplus_beta", lambda x: F.softplus(x, 2.0, 3.0), "f:n")
row("leaky_relu", lambda x: F.leaky_relu(x, 0.1), "f:n")
row("elu", F.elu, "f:n")
row("celu", lambda x: F.celu(x, 0.5), "f:n")
row("selu", F.selu, "f:n")
row("hardtanh", F.hardtanh, "f:n")
row("hardswish", F.hardswish, "f:n")
row("hardsigmoid", F.hardsigmoid, "f:n")
row("logsigmoid", F.logsigmoid, "f:n")
row("softsign", F.softsign, "f:n")
row("tanhshrink", F.tanhshrink, "f:n")
row("softshrink", F.softshrink, "f:n")
row("hardshrink", F.hardshrink, "f:n")
row("threshold", lambda x: F.threshold(x, 0.1, 20.0), "f:n")
row("glu", lambda x: F.glu(torch.cat([x, x * 2], -1)), "f:n,m")
row("prelu", F.prelu, "f:n,4 f:4")
row("nan_to_num", torch.nan_to_num, "f:n")
row("f64_chain", lambda x: torch.tanh(x.exp().log1p() - x.sqrt()), "d:n")
row("f64_erf_gelu", lambda x: (torch.erf(x), F.gelu(x), torch.sigmoid(x)), "d:n")
row("f64_trig", lambda x: (x.sin(), x.cos(), x.exp(), x.tanh()), "d:n")
row("exp_of_int", lambda x: x.exp(), "i:n")
row("sqrt_of_bool", lambda x: x.sqrt(), "b:n")
row("int_unary", lambda x: (x.abs(), -x, x.sign(), x * x, torch.relu(x)), "i:n")
row("int32_unary", lambda x: (x.abs(), -x, x.sign(), x * x, x.square()), "j:n")
row("int_rounding", lambda x: (x.floor(), x.ceil(), x.round(), x.trunc()), "i:n")
row("int_isnan", lambda x: (x.isnan(), x.isinf(), x.isfinite()), "i:n")
row("large_trig", lambda x: (torch.sin(x * 1e4), torch.cos(x * 1e4)), "f:n", special=False, loose=3)
row("exp_edges", lambda x: (torch.exp(x * 40), torch.exp(x * -60), torch.expm1(x * 1e-5)), "f:n")
row("round_decimals", lambda x: torch.round(x * 10, decimals=1), "f:n")
row("round_half_even", lambda x: torch.round(x.round() + 0.5), "f:n")
row("tanh_small", lambda x: torch.tanh(x * 1e-4) * 1e4, "f:n")

# -- two operands, broadcasting, promotion ---------------------------------------------------------
for _name in "add sub mul div maximum minimum atan2 fmod remainder pow fmax fmin hypot copysign logaddexp".split():
    row(
        f"{_name}_ff",
        getattr(torch, _name),
        "f:n,m f:n,m",
        special=_name not in ("fmod", "remainder"),
        loose=2 if _name == "pow" else 1,
    )
for _name in "add sub mul div maximum minimum".split():
    row(f"{_name}_if", getattr(torch, _name), "i:n,m f:m")
    row(f"{_name}_ij", getattr(torch, _name), "i:n,m j:n,1")
    row(f"{_name}_fd", getattr(torch, _name), "f:n,m d:m")
for _name in "eq ne lt le gt ge".split():
    row(f"{_name}_ff", getattr(torch, _name), "f:n,m f:m")
    row(f"{_name}_ii", getattr(torch, _name), "i:n,m j:m")
row("compare_scalar", lambda x: (x > 0, x >= 0.5, x == 1, x != 2, 3 < x, x <= -1), "f:n")
row("compare_int_with_float", lambda x: (x > 0.5, x == 1.0, x < 2.5, x >= -0.5), "i:n")
row("compare_bool", lambda x, y: (x == y, x != y, x > y, x < 1), "b:n b:n")
row("add_bool_bool", lambda x, y: x + y, "b:n b:n")
row("mul_bool_bool", lambda x, y: x * y, "b:n b:n")
row("add_bool_int", lambda x, y: (x + y, x * y), "b:n i:n")
row("sub_bool", lambda x, y: y - x, "b:n i:n")
row("add_bool_float", lambda x, y: (x + y, x * y, x / 2, x * 2.5, x + 1), "b:n f:n")
row("scalar_ops", lambda x: (x + 1, x - 2.5, 3 - x, x * 2, x / 3, 1 / x, x**2, -x + True), "f:n")
row("scalar_ops_int", lambda x: (x + 1, x - 2, 3 - x, x * 2, x + 2.5, x * 0.5), "i:n")
row("scalar_ops_int_div", lambda x: (x / 3, 1 / x, x / 2.0), "k:n")
row("scalar_ops_i32", lambda x: (x + 1, x * 2.5, x + True, x / 2), "j:n")
row("add_zero", lambda x: (x + 0, x - 0, x * 1, x + 0.0, 0 - x), "i:n")
row("add_zero_bool", lambda x: (x + 0, x * 1, x | False), "b:n")
row(
    "add_alpha",
    lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=0.5), torch.rsub(x, y, alpha=3)),
    "f:n,m f:m",
    special=False,
)
row("add_alpha_int", lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=-3)), "i:n i:n")
row("big_scalar", lambda x: (x + 2**40, x * 2**33, x > 2**40), "i:n")
row("big_scalar_i32", lambda x: (x * 100000 * 100000, x + 2**31 - 1), "j:n")
row("tiny_scalar", lambda x: (x + 1e-8, x * 1e-40, x * 3.4e38), "f:n")
row("inf_scalar", lambda x: (x + float("inf"), x * float("nan"), x > float("-inf")), "f:n")
row("zero_dim", lambda x, y: (x + y, y + x, y * 2, y > 0), "f:n f:")
row("zero_dim_f64_into_f32", lambda x, y: x * y + y, "f:n d:")
row("zero_dim_f32_into_int", lambda x, y: x * y, "i:n f:")
row("zero_dim_i64_into_i32", lambda x, y: x + y, "j:n i:")
row("zero_dim_int_into_bool", lambda x, y: x + y, "b:n i:")
row("zero_dim_only", lambda x, y: (x + y, x / y, x.sum(), x.reshape(1)), "f: i:")
row("python_tensor", lambda x: x * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor(2), "f:n,3")
row("python_tensor_int", lambda x: x + torch.tensor(1.5), "i:n")
row("broadcast_outer", lambda x, y: x[:, None] * y[None, :], "f:n f:m")
row("broadcast_3", lambda x, y, z: x + y * z, "f:n,1,4 f:m,1 f:4")
row("broadcast_both", lambda x, y: x + y, "f:n,1 f:1,m", first=7)
# Two sizes that are 1 at first are taken for one size; where they are not, there is one more trace.
row("broadcast_both_first_at_1", lambda x, y: x + y, "f:n,1 f:1,m", first=1, compiles=2)
row("broadcast_vectors", lambda x, y: (x + y, y * x), "f:n f:m", compiles=3)
row("broadcast_slice", lambda x, y: (x[:1] + y, y - x[:, :1], x[-1:] * x), "f:n,m f:n,m")
row("broadcast_slice_sum", lambda x: ((x[:1] + x).sum(0), (x[:, :1] * x).amax(0)), "f:n,3")
row("broadcast_slice_dot", lambda x, y: x @ y + x[:, :1], "f:n,m f:m,4", special=False)
row("broadcast_slice_of_other", lambda x, y: x[:1] + y, "f:n f:m", first=7)
row("slice_ends", lambda x: (x[1:] - x[:-1], x[1:-1] + x[2:], x[-3:], x[-3:-1], x[3:1]), "f:n,2")
row("broadcast_rank_0_1_3", lambda x, y, z: x * y + z, "f: f:m f:n,2,m")
row("broadcast_tensors", lambda x, y: torch.broadcast_tensors(x, y), "f:n,1 f:m", first=7)
row("uint8", lambda x: (x + 1, x * 2, x > 3, x.float(), -x), "u:n")
row("uint8_divide", lambda x: (x // 2, x % 100), "u:n")
row("uint8_minus", lambda x, y: x - y, "u:n u:n")
row(
    "pow_scalars",
    lambda x: (x**0, x**1, x**3, x**0.5, x**-0.5, x**-1, x**-2, x**4),
    "p:n",
    loose=2,
    special=False,
)
row("pow_scalars_any_sign", lambda x: (x**2, x**3, x**5, x**-3, x**0.5, x**1.7), "f:n", loose=2)
row("pow_base", lambda x: (2**x, 0.5**x, 1**x), "f:n", loose=2)
row("pow_int", lambda x: (x**0, x**1, x**2, x**3, x**5), "i:n")
row("pow_int_float", lambda x: (x**2.0, x**0.5), "i:n")
row("pow_int_tensor", lambda x, y: x ** y.abs(), "i:n i:n")
row("pow_int_large", lambda x, y: (x**64, x**63, x**13, x ** (y * 9), 2**y, (-3) ** y), "i:n i:n")
row("pow_int_negative", lambda x: x**-1, "i:n", first=0)
row("pow_bool_bool", lambda x, y: x**y, "b:n b:n", first=0)
row("pow_float_int_tensor", lambda x, y: x**y, "f:n i:n", loose=2)
row("remainder_int", lambda x, y: (x % y, torch.fmod(x, y), x // y), "i:n k:n")
row("remainder_int_scalar", lambda x: (x % 3, x % -3, x // 3, x // -3, torch.fmod(x, 4)), "i:n")
row(
    "remainder_i32", lambda x, y: (x % y, x // y, torch.div(x, y, rounding_mode="trunc")), "j:n q:n"
)
row(
    "remainder_float",
    lambda x: (x % 0.7, x % -0.7, x // 0.7, x // -0.7, torch.fmod(x, 0.3)),
    "f:n",
    special=False,
)
row("remainder_scalar_base", lambda x: 7 % x, "k:n")
row("floor_divide_ff", lambda x, y: (x // y, torch.floor_divide(x, y)), "f:n f:n")
row(
    "div_modes",
    lambda x, y: [torch.div(x, y, rounding_mode=m) for m in (None, "floor", "trunc")],
    "f:n f:n",
)
row(
    "div_modes_int",
    lambda x, y: [torch.div(x, y, rounding_mode=m) for m in (None, "floor", "trunc")],
    "i:n k:n",
)
row("div_by_zero", lambda x: (x / 0, x // 0.0, x % 0.0, torch.fmod(x, 0.0)), "f:n")
row("lerp", lambda x, y: (torch.lerp(x, y, 0.3), torch.lerp(x, y, 0.7)), "f:n f:n", special=False)
row(
    "addcmul",
    lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z, value=2)),
    "f:n,m f:m p:n,1",
    special=False,
)

# -- integers and bools ----------------------------------------------------------------------------
row("bitwise_int", lambda x, y: (x & y, x | y, x ^ y, ~x, x & 3, x | 1), "i:n i:n")
row("bitwise_bool", lambda x, y: (x & y, x | y, x ^ y, ~x, x & True, x | True), "b:n b:n")
row("bitwise_mixed", lambda x, y: (x & y, x | y), "b:n i:n")
row(
    "shifts_far",
    lambda x, y: (x << (y * 12), x >> (y * 12), x << 70, x >> 70, 1 << y.abs()),
    "i:n i:n",
)
row("shift_float", lambda x: x << 1, "f:n", first=0)
row("neg_bool", lambda x: -x, "b:n", first=0)
row("rsub_bool", lambda x: 1 - x, "b:n", first=0)
row("remainder_by_zero", lambda x: x % (x * 0), "i:n", first=0)
row("fmod_by_zero", lambda x: torch.fmod(x, x * 0), "j:n", first=0)
row("divide_some_by_zero", lambda x: x // x, "i:n", first=0)
row("shifts", lambda x, y: (x << 2, x >> 1, x << y.abs()), "i:n i:n")
row(
    "logical",
    lambda x, y: (
        torch.logical_and(x, y),
        torch.logical_or(x, y),
        torch.logical_xor(x, y),
        torch.logical_not(x),
    ),
    "f:n b:n",
)
row("logical_int", lambda x, y: (torch.logical_and(x, y), torch.logical_not(x)), "i:n i:n")
row(
    "casts_from_float",
    lambda x: (x.double(), (x * 3).long(), (x * 3).int(), x.bool()),
    "f:n",
    special=False,
)
row("casts_to_bool", lambda x: (x.bool(), x.to(torch.bool)), "f:n")
row(
    "casts_from_int", lambda x: (x.float(), x.double(), x.int(), x.bool(), (x * 2**33).int()), "i:n"
)
row(
    "casts_from_bool",
    lambda x: (x.float(), x.double(), x.int(), x.long(), x.to(torch.uint8)),
    "b:n",
)
row("casts_to_uint8", lambda x: x.abs().to(torch.uint8), "i:n")
row("casts_half", lambda x: (x.half().float(), x.bfloat16().float()), "f:n")
row("cast_i64_float_rounding", lambda x: (x * 123456789 + 16777217).float(), "i:n")
row("cast_f64_f32", lambda x: (x * 1e40).float(), "d:n")

# -- choices ---------------------------------------------------------------------------------------


def signed(dtype: torch.dtype) -> bool:
    return dtype not in (torch.bool, torch.uint8)


def arithmetic(x: Tensor, y: Tensor) -> list[Tensor]:
    """Element-wise ops of one element type, those of them that it has."""
    found = [
        x + y,
        x * y,
        torch.maximum(x, y),
        torch.minimum(x, y),
        x / (y.abs() + 1 if signed(y.dtype) else 2),
    ]
    if x.dtype is torch.bool:
        return [*found, x & y, x | y, x ^ y, ~x, torch.sign(x)]
    found += [x - y, -x, x.abs(), x.sign(), x * x, torch.clamp(x, 1, 5), torch.where(x > y, x, y)]
    found += [x % 7, x // 3, torch.fmod(x, 5), x**2, x**3, torch.square(x)]
    if x.is_floating_point():
        return found
    return [
        *found,
        x & y,
        x | y,
        x ^ y,
        ~x,
        x << 1,
        x >> 2,
        x << (y & 7),
        x >> (y & 7),
        x ** (y & 3),
    ]


def mixed(x: Tensor, y: Tensor) -> list[Tensor]:
    """Promotion between an element type and another."""
    return [
        x + y,
        x * y,
        torch.maximum(x, y),
        torch.where(y > 0, x, y),
        x == y,
        x < y,
        x >= y,
        x / (y.abs() + 1),
    ]


def comparisons(x: Tensor, y: Tensor) -> list[Tensor]:
    """Of two tensors, and with numbers that the element type may not hold."""
    found = [x == y, x != y, x < y, x <= y, x > y, x >= y, x > 1, x <= 100, x == 1]
    return found if x.dtype is torch.bool else [*found, x < 2.5, x >= -0.5, x != 3]


def casts(x: Tensor) -> list[Tensor]:
    """To every element type."""
    kinds = (torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8)
    kinds = (*kinds, torch.uint8, torch.bool)
    return [x.to(kind) for kind in kinds]


def reductions(x: Tensor) -> list[Tensor]:
    """All that every element type has."""
    found = [x.sum(), x.sum(0), x.sum(1, keepdim=True), x.prod(0), x.any(), x.all(0), x.any(1)]
    found += [x.sum(0, dtype=torch.float64), torch.count_nonzero(x, 0)]
    return [*found, x.amax(0), x.amin(1), x.max(), x.min()] if x.numel() else found


def places(x: Tensor) -> list[Tensor]:
    """Extremes with their indices."""
    return [*x.max(0), *x.min(1), x.argmax(), x.argmin(0)]


for _letter in "dijhcub":
    row(f"arithmetic_{_letter}", arithmetic, f"{_letter}:n,m {_letter}:m", special=False)
    row(f"comparisons_{_letter}", comparisons, f"{_letter}:n,m {_letter}:m")
    row(f"casts_{_letter}", casts, f"{_letter}:n,m", special=False)
    row(f"reductions_{_letter}", reductions, f"{_letter}:n,m", special=False, compiles=2, loose=4)
    if _letter != "b":
        row(f"places_{_letter}", places, f"{_letter}:n,m", empty=False)
        for _other in "fij":
            row(f"mixed_{_letter}{_other}", mixed, f"{_letter}:n,m {_other}:m", special=False)
row("where", lambda c, x, y: torch.where(c, x, y), "b:n,m f:n,1 f:m")
row(
    "where_scalars",
    lambda x: (torch.where(x > 0, x, 0), torch.where(x > 0, 1.0, x), torch.where(x > 0, 1, 0)),
    "f:n",
)
row("where_promotes", lambda c, x, y: torch.where(c, x, y), "b:n i:n f:n")
row("where_int_scalar_float", lambda c, x: torch.where(c, x, 1.5), "b:n i:n")
row("where_zero_dim", lambda c, x, y: torch.where(c, x, y), "b:n f:n d:")
row("masked_fill", lambda x, m: x.masked_fill(m, -1e9), "f:n,m b:m")
row("masked_fill_inf", lambda x, m: x.masked_fill(~m, float("-inf")), "f:n,m b:n,1")
row("masked_fill_tensor", lambda x, m, v: x.masked_fill(m, v), "i:n b:n i:")
row("masked_fill_int", lambda x, m: x.masked_fill(m, 2), "i:n b:n")
row("masked_fill_grows", lambda x, m: x.masked_fill(m, 2.0), "f:m b:n,m")
row(
    "clamp", lambda x: (x.clamp(-1, 1), x.clamp(min=0), x.clamp(max=0.5), x.clamp(0.3, -0.3)), "f:n"
)
row("clamp_int", lambda x: (x.clamp(-2, 3), x.clamp(min=0), x.clamp(-1.5, 2.5)), "i:n")
row(
    "clamp_tensor",
    lambda x, lo, hi: (torch.clamp(x, lo, hi), torch.clamp(x, min=lo)),
    "f:n,m f:m f:n,1",
)
row("clamp_nan_bound", lambda x: x.clamp(min=float("nan")), "f:n")
row("clamp_min_int_float", lambda x: (torch.clamp_min(x, 0.5), torch.clamp_max(x, 1)), "i:n")
row("heaviside_like", lambda x: (x > 0).to(x.dtype) * x, "f:n", special=False)

# -- reductions ------------------------------------------------------------------------------------
for _name in "sum mean amax amin logsumexp".split():
    _fn = getattr(torch, _name)
    for _dims in ((0,), (1,), (-1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        row(
            f"{_name}_{''.join(map(str, _dims))}",
            lambda x, f=_fn, d=_dims: (f(x, d), f(x, d, keepdim=True)),
            "f:n,m,4",
            big=len(_dims) < 3 and (_name != "sum" or _dims != (0, 1)),
            empty=_name not in ("amax", "amin"),
            loose=4 if _name in ("sum", "mean") else 2,
            special=_name != "logsumexp",
        )
for _name in "var std".split():
    _fn = getattr(torch, _name)
    for _dims in ((0,), (-1,), (0, 1), (1, 2)):
        row(
            f"{_name}_{''.join(map(str, _dims))}",
            lambda x, f=_fn, d=_dims: (f(x, d), f(x, d, correction=0, keepdim=True)),
            "f:n,m,4",
            empty=False,
            loose=3,
        )
row("amax_empty", lambda x: x.amax(0), "f:n,3", first=7)
row("amax_empty_two", lambda x: x.amin((0, 1)), "f:n,m", first=7)
row("max_empty_dim", lambda x: x.max(0), "f:n,3", first=7)
row("argmin_empty_all", lambda x: x.argmin(), "f:n,3", first=7)
row("norm_inf_empty", lambda x: torch.linalg.vector_norm(x, float("inf")), "f:n", first=7)
row("amin_empty_all", lambda x: x.min(), "f:n", first=7)
row("sum_long_column", lambda x: x.sum((0, 1)), "f:n,33,4", special=False)
row("var_empty", lambda x: (x.var(), x.std(0)), "f:n", first=7)
row("var_all", lambda x: (x.var(), x.std(), x.var(correction=2)), "f:n", skip=(0, 1), loose=2)
row("var_large_correction", lambda x: x.var(0, correction=10), "f:n")
row("var_mean", lambda x: torch.var_mean(x, 0), "f:n,m", empty=False, loose=2, special=False)
row("sum_all", lambda x: (x.sum(), x.mean()), "f:n,m", loose=8)
row("sum_int", lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdim=True)), "i:n,m")
row("sum_i32", lambda x: (x.sum(), x.sum(0), x.sum(0, dtype=torch.int32)), "j:n,m")
row("sum_bool", lambda x: (x.sum(), x.sum(0), x.float().mean(0)), "b:n,m")
row("sum_dtype", lambda x: (x.sum(0, dtype=torch.float64), x.sum(dtype=torch.float64)), "f:n,m")
row("sum_uint8", lambda x: (x.sum(), x.sum(0)), "u:n,m")
row("mean_dtype", lambda x: x.mean(0, dtype=torch.float32), "i:n,m")
row("sum_f64", lambda x: (x.sum(), x.mean(0), x.amax(), x.var(0)), "d:n,m", empty=False)
row(
    "prod",
    lambda x: (x.prod(), x.prod(0), x.prod(-1, keepdim=True)),
    "f:n,m",
    big=False,
    special=False,
)
row("prod_int", lambda x: (x.prod(), x.prod(0)), "i:n,m")
row("any_all", lambda x: (x.any(), x.all(), x.any(0), x.all(-1), x.any(1, keepdim=True)), "b:n,m")
row("any_all_float", lambda x: (x.any(), x.all(), x.any(0), x.all(0)), "f:n,m")
row("any_all_int", lambda x: (x.any(), x.all(), x.any(0), x.all(0)), "i:n,m")
row("any_all_uint8", lambda x: (x.any(), x.all(0)), "u:n,m")
row("amax_int", lambda x: (x.amax(0), x.amin(0), x.max(), x.min()), "i:n,3", empty=False)
row("amax_bool", lambda x: (x.amax(0), x.amin(0)), "b:n,3", empty=False)
row("aminmax", lambda x: torch.aminmax(x, dim=0), "f:n,3", empty=False)
row("argmax", lambda x: (x.argmax(), x.argmin()), "f:n,3", empty=False)
row("argmax_empty", lambda x: x.argmax(0), "f:n,3", first=7)
row("max_keepdim_int", lambda x: x.max(0, keepdim=True), "i:n,3", empty=False)
row("argmax_axis", lambda x: (x.argmax(-1), x.argmin(-1, keepdim=True)), "f:m,n", empty=False)
row("argmax_axis_0", lambda x: (x.argmax(0), x.argmin(0, keepdim=True)), "f:n,m", empty=False)
row("argmax_int_ties", lambda x: (x.argmax(0), x.argmin(0)), "i:n,m", empty=False)
row("argmax_keepdim_all", lambda x: x.argmax(keepdim=True), "f:n,3", empty=False)
row("max_dim", lambda x: (*x.max(0), *x.min(-1)), "f:n,3", empty=False)
row("max_dim_int", lambda x: (*x.max(0), *x.min(0, keepdim=True)), "i:n,3", empty=False)
row(
    "norms",
    lambda x: (x.norm(), x.norm(dim=-1), torch.linalg.vector_norm(x, 1, dim=0), x.norm(p=3, dim=0)),
    "f:n,m",
    loose=2,
)
row(
    "norm_inf",
    lambda x: (torch.linalg.vector_norm(x, float("inf"), dim=-1), torch.linalg.vector_norm(x, 0)),
    "f:n,3",
)
row("normalize", lambda x: F.normalize(x, dim=-1), "f:n,m")
row(
    "cosine_similarity",
    lambda x, y: F.cosine_similarity(x, y, dim=-1),
    "f:n,m f:n,m",
    special=False,
)
row("divide_int_min", lambda x: torch.full_like(x, -(2**63)) // (x * 0 - 1), "i:n")
row("divide_int_by_zero", lambda x: x // (x * 0), "i:n")
row("cumsum_int", lambda x: (x.cumsum(0), x.cumsum(-1)), "i:n,m")
row(
    "cumsum_small_ints",
    lambda x, y, z: (x.cumsum(0), y.cumsum(1), z.cumsum(0, dtype=torch.int8)),
    "h:n,m u:n,m c:n,m",
)
row(
    "cumsum_f64",
    lambda x: (x.cumsum(0), x.cumsum(-1), x.cumprod(0)),
    "d:n,m",
    special=False,
    big=False,
)
row("cumsum_special", lambda x: (x.cumsum(0), x.cumsum(-1)), "f:n,m")
row("cumsum_rank_3", lambda x: (x.cumsum(0), x.cumsum(1), x.cumsum(2)), "f:n,m,3", special=False)
row("cumsum_flat", lambda x: x.reshape(-1).cumsum(0), "f:n,m", special=False)
row("cumsum_transposed", lambda x: x.t().cumsum(0) + 1, "f:n,m", special=False)
row("cumsum_of_cumsum", lambda x: x.cumsum(0).cumsum(0) - x, "i:n,m")
row("cumsum_of_cumsum_across", lambda x: x.cumsum(0).cumsum(1), "i:n,m")
row("cumsum_shifted", lambda x: x.cumsum(0)[:-1] - x[1:], "i:n,m", empty=False)
row("cumsum_around", lambda x: (x * 2 + 1).cumsum(-1) / 2 - x, "f:n,m", special=False)
row("cumsum_and_sum", lambda x: x.cumsum(-1) - x.sum(-1, keepdim=True), "i:n,m")
row("cumsum_zero_dim", lambda x, y: (x.cumsum(0), y.cumsum(0)), "f: b:")
row("cumprod_int", lambda x: (x.cumprod(0), x.cumprod(-1)), "i:n,m")
row("cummin_cummax", lambda x: (*x.cummin(0), *x.cummax(-1)), "f:n,m")
row("cummin_cummax_int", lambda x: (*x.cummin(0), *x.cummax(-1)), "i:n,m")
row("cummin_cummax_bool", lambda x: (*x.cummin(0), *x.cummax(-1)), "b:n,m")
row("cumsum_float", lambda x: (x.cumsum(0), x.cumsum(-1)), "f:n,m", special=False)
row("cumsum_bool_mask", lambda m: m.long().cumsum(1) - 1, "b:m,n")
row("cumprod", lambda x: x.cumprod(0), "f:n,m", special=False, big=False)
row("count_nonzero", lambda x: torch.count_nonzero(x, 0), "i:n,m")
row(
    "masked_mean",
    lambda x, m: (x * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1),
    "f:n,m,4 b:n,m",
    special=False,
)
row("mse", lambda x, y: F.mse_loss(x, y), "f:n,m f:n,m")
row(
    "reduce_then_broadcast_back",
    lambda x: x - x.mean(0) + x.sum(1, keepdim=True) * x.amax(),
    "f:n,3",
    special=False,
    skip=(0,),
)
row("reduce_of_broadcast", lambda x, y: (x[:, None] * y[None]).sum(0), "f:n f:m", special=False)
row("reduce_transposed", lambda x: (x.t().sum(0), x.t().mean(1)), "f:n,m")
row(
    "reduce_rank_4",
    lambda x: (x.sum((0, 2)), x.amax((1, 3)) if x.shape[1] else x.sum()),
    "f:n,3,2,4",
    skip=(0,),
)

# -- softmax, normalisation ------------------------------------------------------------------------
for _dim in (0, 1, -1):
    row(f"softmax_{_dim}", lambda x, d=_dim: torch.softmax(x, d), "f:n,m,4")
    row(f"log_softmax_{_dim}", lambda x, d=_dim: F.log_softmax(x, d), "f:n,m,4")
row("softmax_dynamic_row", lambda x: torch.softmax(x, -1), "f:m,n")
row("softmax_large", lambda x: torch.softmax(x * 100, -1), "f:m,n")
row("softmax_dtype", lambda x: torch.softmax(x, -1, dtype=torch.float64), "f:m,n")
row("softmax_f64", lambda x: torch.softmax(x, 0), "d:n,m")
row("softmax_masked", lambda x, m: torch.softmax(x.masked_fill(m, float("-inf")), -1), "f:m,n b:n")
row("softmax_rank_1", lambda x: (torch.softmax(x, 0), F.log_softmax(x, 0), F.softmin(x, 0)), "f:n")
row("softmax_of_int", lambda x: torch.softmax(x, 0, dtype=torch.float32), "i:n")
row(
    "cross_entropy",
    lambda x, t: F.cross_entropy(x, t, reduction="none"),
    "f:n,4 x:n",
    special=False,
)
row("layer_norm", lambda x, w, c: F.layer_norm(x, (48,), w, c), "f:n,m,48 f:48 f:48", special=False)
row("layer_norm_plain", lambda x: F.layer_norm(x, (5,)), "f:n,5")
row("layer_norm_dynamic", lambda x: F.layer_norm(x, x.shape[-1:]), "f:m,n", special=False, loose=2)
row("layer_norm_two_axes", lambda x: F.layer_norm(x, (3, 4)), "f:n,3,4", special=False)
row("layer_norm_large_mean", lambda x: F.layer_norm(x + 1000, (48,)), "f:n,48", special=False)
row("rms_norm", lambda x, w: F.rms_norm(x, (48,), w, 1e-6), "f:n,m,48 f:48", special=False)
row("group_norm", lambda x, w, c: F.group_norm(x, 2, w, c), "f:n,4,m f:4 f:4", special=False)
row(
    "batch_norm_eval",
    lambda x, m, v, w, c: F.batch_norm(x, m, v, w, c),
    "f:n,4,m f:4 p:4 f:4 f:4",
    special=False,
)
row("instance_norm", lambda x: F.instance_norm(x), "f:3,4,n", special=False, skip=(0, 1))
row(
    "linear_gelu_norm",
    lambda x, w, c: F.layer_norm(F.gelu(F.linear(x, w, c)), (16,)),
    "f:n,m,8 f:16,8 f:16",
    special=False,
    loose=4,
)

# -- shapes ----------------------------------------------------------------------------------------
row("cat_rows", lambda x, y: torch.cat([x, y, x]), "f:n,4 f:m,4")
row("cat_columns", lambda x, y: torch.cat([x, y], -1), "f:n,m f:n,3")
row("cat_promotes", lambda x, y: torch.cat([x, y]), "i:n f:m")
row("cat_bool_int", lambda x, y: torch.cat([x, y]), "b:n i:n")
row("cat_self_computed", lambda x: torch.cat([x.exp(), x * 2, x[:1]], 0), "f:n,3")
row("cat_legacy_empty", lambda x: torch.cat([torch.zeros(0), x], 0), "f:n,3")
row("cat_then_reduce", lambda x, y: torch.cat([x, y], 1).sum(1), "f:n,m f:n,2")
row(
    "stack",
    lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1), torch.stack([x, y], 1)),
    "f:n,m f:n,m",
)
row("hstack_vstack", lambda x, y: (torch.hstack([x, y]), torch.vstack([x, y])), "f:n,3 f:n,3")
row("split", lambda x: torch.split(x, [1, 3], -1), "f:n,4")
row("split_even", lambda x: x.split(2, 1), "f:n,6")
row("chunk", lambda x: x.chunk(3, -1), "f:n,m,7")
row("chunk_dynamic", lambda x: torch.cat(x.chunk(2, 0)[::-1]), "f:n,3", compiles=3)
row("unbind", lambda x: x.unbind(1), "f:n,3")
row("unpack_sum", lambda x: sum(x.unbind(-1)), "f:n,4")
row("slices", lambda x: (x[1:], x[:-1], x[:, 1:3], x[..., ::2], x[:5], x[-3:], x[2:2]), "f:n,4")
row("slice_step", lambda x: (x[::2], x[:, ::3], x[:, 1::3]), "f:n,5")
row("slice_from_with_step", lambda x: x[1::3] * 2, "f:n,5", first=7)
row("slice_beyond", lambda x: (x[5:100], x[-100:3]), "f:n,2")
row("slice_by_other_size", lambda x, y: x[: y.shape[0]], "f:n,2 f:m", compiles=2)
row("select", lambda x: (x[:, 0], x[:, -1], x.select(1, 2)), "f:n,4")
row("select_first", lambda x: x[0] + x[-1], "f:n,4", empty=False)
row("newaxis", lambda x: (x[None], x[:, None], x[..., None], x[None, :, None]), "f:n,m")
row("permute", lambda x: (x.permute(2, 0, 1), x.transpose(0, 1), x.mT, x.movedim(0, -1)), "f:n,m,4")
row("permute_compute", lambda x: (x.permute(2, 1, 0) * 2).permute(1, 0, 2).exp(), "f:n,m,4")
row("transpose_add", lambda x, y: x + y.t(), "f:n,m f:m,n")
row("transpose_self", lambda x: x @ x.t() + (x @ x.t()).t(), "f:n,3", special=False)
row("expand", lambda x: (x.expand(3, -1, -1), x[:, :1] + x), "f:n,4", first=7)
row("expand_slice", lambda x: x[:, :1].expand(-1, 5) * 2, "f:n,4")
row("expand_as", lambda x, y: x.expand_as(y) + 1, "f:1,m f:n,m")
row("repeat", lambda x: (x.repeat(2, 1), x.repeat(1, 3), x.repeat(2, 2, 2)), "f:n,m")
row("repeat_interleave", lambda x: (x.repeat_interleave(3, 0), x.repeat_interleave(2, -1)), "f:n,m")
row("tile", lambda x: torch.tile(x, (2,)), "f:n,m")
row(
    "unsqueeze_squeeze",
    lambda x: (x.unsqueeze(1).squeeze(1), x.unsqueeze(-1), x[None].squeeze(0)),
    "f:n,m",
)
row("squeeze_dynamic", lambda x: x.squeeze(0) * 2, "f:n,3", compiles=2)
row("squeeze_static", lambda x: (x.squeeze(1), x.squeeze(2), x.squeeze(-1)), "f:n,1,3")
row("flatten", lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1)), "f:n,m,4")
row("flatten_compute", lambda x: (x.transpose(0, 1) * 2).flatten() + 1, "f:n,m")
row("unflatten", lambda x: x.unflatten(-1, (2, -1)), "f:n,6")
row("view", lambda x: (x.view(-1), x.view(x.shape[0], -1), x.view(-1, 2, 2)), "f:n,4")
row("view_sizes", lambda x: x.view(x.shape[0] * x.shape[1], 4) + 1, "f:n,m,4")
row(
    "reshape_transposed",
    lambda x: x.transpose(1, 2).reshape(x.shape[0], -1),
    "f:n,m,4",
    empty=False,
)
row("reshape_split", lambda x: x.reshape(x.shape[0], 2, 3).sum(1), "f:n,6")
row(
    "heads",
    lambda x: x.view(*x.shape[:2], 2, 4).transpose(1, 2).transpose(1, 2).reshape(x.shape) * 2,
    "f:n,m,8",
)
row("reshape_one", lambda x: x.reshape(1, -1, 1) * 2, "f:n,m")
row(
    "flip_roll",
    lambda x: (x.flip(0), x.flip(-1), x.roll(1, 0), x.roll(-1, 1)),
    "f:n,3",
    empty=False,
)
row("roll_empty", lambda x: x.roll(1, 0), "f:n,3", first=7)
row("rot_half", lambda x: torch.cat([-x[..., 2:], x[..., :2]], -1) * x, "f:n,m,4")
row(
    "pad",
    lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 2, 1), value=3.0), F.pad(x, (-1, 1))),
    "f:n,4",
)
row("pad_reflect", lambda x: F.pad(x, (1, 1), mode="replicate"), "f:2,3,n", skip=(0,))
row("unfold", lambda x: x.unfold(1, 2, 2), "f:n,6")
row("diagonal", lambda x: (x.diagonal(), torch.diag(x)), "f:n,n", big=False)
row("narrow", lambda x: (x.narrow(1, 1, 2), x.narrow(0, 0, x.shape[0])), "f:n,4")
row("t_contiguous", lambda x: x.t().contiguous().view(-1), "f:n,m")
row("size_arithmetic", lambda x: x * x.shape[0] + x.numel() / 2 - x.shape[1] // 2, "f:n,m")
row("size_as_tensor", lambda x: torch.tensor(x.shape[0]) + x, "f:n")
row(
    "size_float_scale",
    lambda x: x * (x.shape[-1] ** -0.5 if x.shape[-1] else 1.0),
    "f:3,n",
    compiles=2,
)
row(
    "new_shapes",
    lambda x: (x.new_zeros(x.shape[0], 2), x.new_ones(3), x.new_full((2, x.shape[1]), 7)),
    "f:n,m",
)

# -- indexing --------------------------------------------------------------------------------------
row("index", lambda x, i: (x[i], x[:, i]), "f:4,4 x:n")
row("index_2d", lambda x, i: x[i], "f:5,m x:n,2")
row("index_negative", lambda x, i: x[i - 4], "f:4,m x:n")
row("index_two", lambda x, i, j: x[i, j], "f:4,5,m x:n x:n")
row("index_two_apart", lambda x, i, j: x[i, :, j], "f:4,m,5 x:n x:n")
row("index_broadcast", lambda x, i, j: x[i[:, None], j], "f:4,5 x:n x:m")
row("index_arange", lambda x: x[torch.arange(x.shape[0]), 0], "f:n,3")
row("index_arange_last", lambda x, i: x[torch.arange(x.shape[0]), i], "f:n,4 x:n")
row("index_i32", lambda x, i: x[i.int()], "f:4,m x:n")
row("index_select", lambda x, i: (x.index_select(0, i), x.index_select(-1, i)), "f:4,5 x:n")
row("index_reversed", lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], "f:n,2")
row("index_list", lambda x: x[:, [2, 0, 2]], "f:n,3")
row("gather", lambda x, i: (x.gather(1, i), torch.gather(x.t(), 0, i.t())), "f:n,4 x:n,m")
row("gather_smaller", lambda x, i: x.gather(0, i), "f:5,7 x:n,3")
row("gather_last", lambda x, i: x.gather(-1, i[..., None])[..., 0], "f:n,m,4 x:n,m")
row("take", lambda x, i: torch.take(x, i), "f:4,m x:n", empty=False)
row("index_into_nothing", lambda x, i: x[i] + 1, "f:m x:n")
row("index_out_of_range", lambda x, i: x[i + 2], "f:4,m x:n", first=0)
row("index_two_out_of_range", lambda x, i, j: x[i, j + 2], "f:4,5 x:n x:n", first=0)
row("index_below_range", lambda x, i: x[i - 6], "f:4,m x:n", first=0)
row("embedding_below_range", lambda i, w: F.embedding(i - 1, w), "x:n f:5,6", first=0)
row("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), "f:n,4 x:n,m")
row("embedding", lambda i, w: F.embedding(i, w), "x:n,m f:5,6")
row("embedding_sum", lambda i, w: F.embedding(i, w).sum(1) * 2, "x:n,m f:5,6", special=False)
row("embedding_i32", lambda i, w: F.embedding(i.int(), w), "x:n f:5,6")
row("one_hot", lambda i: F.one_hot(i, 4), "x:n")
row("scatter", lambda x, i: torch.zeros_like(x).scatter(1, i, x), "f:n,4 x:n,2")
row("scatter_add", lambda x, i: torch.zeros(4, 3).index_add(0, i, x), "f:n,3 x:n", special=False)
row("index_put", lambda x, i: x.index_put((i,), torch.tensor(0.0)), "f:4 x:n")
row(
    "masked_scatter_free",
    lambda x, m: torch.where(m[..., None], x, torch.zeros_like(x)),
    "f:n,m,2 b:n,m",
)

# -- products --------------------------------------------------------------------------------------
_P = {"special": False}
row("matmul_22", torch.matmul, "f:n,m f:m,5", **_P)
row("matmul_22_dyn_n", torch.matmul, "f:m,4 f:4,n", **_P)
row("matmul_inner_dyn", torch.matmul, "f:3,n f:n,m", loose=3, **_P)
row("matmul_11", torch.matmul, "f:n f:n", loose=3, **_P)
row("matmul_12", torch.matmul, "f:n f:n,m", loose=3, **_P)
row("matmul_21", torch.matmul, "f:n,m f:m", **_P)
row("matmul_31", torch.matmul, "f:n,m,4 f:4", **_P)
row("matmul_13", torch.matmul, "f:4 f:n,4,m", **_P)
row("matmul_32", torch.matmul, "f:n,m,4 f:4,5", **_P)
row("matmul_23", torch.matmul, "f:m,4 f:n,4,5", **_P)
row("matmul_33", torch.matmul, "f:n,m,4 f:n,4,m", **_P)
row("matmul_33_broadcast", torch.matmul, "f:1,m,4 f:n,4,3", first=7, **_P)
row("matmul_43_broadcast", torch.matmul, "f:n,1,m,4 f:2,4,3", **_P)
row("matmul_44", torch.matmul, "f:n,2,m,4 f:n,2,4,m", **_P)
row("matmul_44_broadcast", torch.matmul, "f:n,1,m,4 f:1,2,4,m", **_P)
row("matmul_f64", torch.matmul, "d:n,m d:m,5", **_P)
row("matmul_int", torch.matmul, "i:n,m i:m,5", **_P)
row("matmul_transposed", lambda x, y: (x.t() @ y, x @ y.t()), "f:n,m f:n,m", loose=3, **_P)
row("matmul_nan", torch.matmul, "f:n,3 f:3,m")
row("mm_chain", lambda x, y: torch.relu(x @ y + 1) @ y.t(), "f:n,m f:m,6", loose=3, **_P)
row("bmm", torch.bmm, "f:n,m,4 f:n,4,m", **_P)
row(
    "bmm_head_batch",
    lambda x, y: torch.bmm(x.transpose(0, 1), y.transpose(0, 1)),
    "f:n,3,m f:m,3,5",
    **_P,
)
row(
    "addmm",
    lambda c, x, y: (torch.addmm(c, x, y), torch.addmm(c, x, y, beta=0.5, alpha=2)),
    "f:5 f:n,m f:m,5",
    **_P,
)
row("addmm_beta_0", lambda c, x, y: torch.addmm(c, x, y, beta=0), "f:n,5 f:n,m f:m,5")
row("baddbmm", lambda c, x, y: torch.baddbmm(c, x, y, alpha=0.5), "f:n,m,m f:n,m,4 f:n,4,m", **_P)
row("addmv", lambda c, x, y: torch.addmv(c, x, y), "f:n f:n,m f:m", first=7, **_P)
row("mv_dot_outer", lambda x, y: (x.mv(y), torch.outer(y, y), y.dot(y)), "f:n,m f:m", **_P)
row("linear", lambda x, w: F.linear(x, w), "f:n,m,8 f:6,8", **_P)
row("linear_bias", lambda x, w, c: F.linear(x, w, c), "f:n,8 f:6,8 f:6", **_P)
row("linear_rank_1", lambda x, w, c: F.linear(x, w, c), "f:8 f:n,8 f:n", **_P)
row("linear_dynamic_in", lambda x, w: F.linear(x, w), "f:3,n f:m,n", loose=3, **_P)
row("bilinear_einsum", lambda x, y: torch.einsum("bi,bj->bij", x, y), "f:n,m f:n,4", **_P)
row(
    "einsum_attention",
    lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k),
    "f:n,m,2,4 f:n,3,2,4",
    **_P,
)
row("einsum_trace_like", lambda x, y: torch.einsum("ij,ij->i", x, y), "f:n,m f:n,m", **_P)
row(
    "tensordot", lambda x, y: torch.tensordot(x, y, dims=([1], [0])), "f:n,m,2 f:m,3", first=7, **_P
)
row("conv1d", lambda x, w: F.conv1d(x, w, padding=1), "f:n,3,8 f:4,3,3", loose=3, skip=(0,), **_P)
row("kron_free_outer", lambda x, y: (x[:, :, None] * y[:, None, :]).flatten(1), "f:n,m f:n,3", **_P)

# -- attention -------------------------------------------------------------------------------------
_A = "f:n,2,m,8 f:n,2,5,8 f:n,2,5,8"
sdpa = F.scaled_dot_product_attention
row("sdpa", lambda q, k, v: sdpa(q, k, v), _A, loose=2, **_P)
row(
    "sdpa_dynamic_keys",
    lambda q, k, v: sdpa(q, k, v),
    "f:2,2,m,8 f:2,2,n,8 f:2,2,n,8",
    loose=2,
    **_P,
)
row("sdpa_scale", lambda q, k, v: sdpa(q, k, v, scale=0.3), _A, loose=2, **_P)
row(
    "sdpa_causal",
    lambda q, k, v: sdpa(q, k, v, is_causal=True),
    "f:3,2,n,8 f:3,2,n,8 f:3,2,n,8",
    loose=2,
    big=False,
    **_P,
)
row("sdpa_causal_uneven", lambda q, k, v: sdpa(q, k, v, is_causal=True), _A, loose=2, **_P)
row("sdpa_bool_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), f"{_A} b:m,5", loose=2, **_P)
row(
    "sdpa_key_mask",
    lambda q, k, v, m: sdpa(q, k, v, attn_mask=m[:, None, None, :]),
    f"{_A} b:n,5",
    loose=2,
    **_P,
)
row(
    "sdpa_float_mask",
    lambda q, k, v, m: sdpa(q, k, v, attn_mask=m),
    f"{_A} f:n,1,m,5",
    loose=2,
    **_P,
)
row(
    "sdpa_all_masked",
    lambda q, k, v: sdpa(
        q, k, v, attn_mask=torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)
    ),
    _A,
    **_P,
)
row(
    "sdpa_minus_inf_mask",
    lambda q, k, v, m: sdpa(q, k, v, attn_mask=torch.zeros(1, 5).masked_fill(m, float("-inf"))),
    f"{_A} b:5",
    loose=2,
    **_P,
)
row("sdpa_rank_3", lambda q, k, v: sdpa(q, k, v), "f:n,m,8 f:n,5,8 f:n,5,8", loose=2, **_P)
row(
    "sdpa_grouped",
    lambda q, k, v: sdpa(q, k, v, enable_gqa=True),
    "f:n,4,m,8 f:n,2,5,8 f:n,2,5,8",
    loose=2,
    **_P,
)
row("sdpa_f64", lambda q, k, v: sdpa(q, k, v), "d:n,2,m,8 d:n,2,5,8 d:n,2,5,8", **_P)
row(
    "attention_by_hand", lambda q, k, v: torch.softmax(q @ k.mT / 8**0.5, -1) @ v, _A, loose=2, **_P
)

# -- made of nothing -------------------------------------------------------------------------------
row(
    "arange",
    lambda x: (
        torch.arange(x.shape[0]),
        torch.arange(2, x.shape[0] + 2),
        torch.arange(x.shape[0], dtype=torch.float32),
    ),
    "f:n",
)
row(
    "arange_step",
    lambda x: (
        torch.arange(0, 10, 3),
        torch.arange(5, 0, -2),
        torch.arange(0, 1, 0.25),
        torch.arange(0, 2 * x.shape[0], 2),
    ),
    "f:n",
)
row("arange_positions", lambda x: x + torch.arange(x.shape[1])[None, :, None], "f:n,m,2")
row(
    "zeros_ones_full",
    lambda x: (
        torch.zeros(x.shape[0], 2),
        torch.ones_like(x),
        torch.full((x.shape[0],), 2.5),
        torch.full_like(x, 3),
        torch.zeros_like(x, dtype=torch.int64),
    ),
    "f:n",
)
row(
    "full_types",
    lambda x: (
        torch.full((x.shape[0],), 3),
        torch.full((2,), True),
        torch.full((x.shape[0],), float("-inf")),
    ),
    "f:n",
)
row("tril_triu", lambda x: (x.tril(), x.triu(), x.tril(-1), x.triu(2)), "f:n,m")
row("tril_batch", lambda x: x.tril(), "f:n,m,4")
row(
    "tril_bool",
    lambda x: torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril(),
    "f:n",
    big=False,
)
row("tril_int", lambda x: (x.tril(), x.triu(1)), "i:n,3")
row(
    "causal_mask",
    lambda x: torch.full((x.shape[0], x.shape[0]), float("-inf")).triu(1),
    "f:n",
    big=False,
)
row("eye", lambda x: torch.eye(x.shape[0]) @ x, "f:n,3", big=False, special=False)
row("linspace", lambda x: torch.linspace(0, 1, 5) * x, "f:n,5")
row("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), "f:n f:m")
row(
    "sinusoids",
    lambda x: torch.cat([(torch.arange(x.shape[0])[:, None] * 0.1 ** torch.arange(3)).sin(), x], 1),
    "f:n,2",
    loose=3,
)

# -- left to the framework -------------------------------------------------------------------------
row("sort", lambda x: x.sort(-1), "f:m,n", special=False)
row("argsort_stable", lambda x: x.argsort(0, stable=True), "i:n")
row("topk", lambda x: x.topk(2, -1), "f:n,4", special=False)
row("sort_between", lambda x: (x * 2).sort(0).values.exp() + 1, "f:n,m", special=False)
row("median", lambda x: x.median(0).values * 2, "f:n,3", special=False, skip=(0,))
row("cummax", lambda x: x.cummax(0).values, "f:n,3", special=False)
row(
    "interpolate",
    lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"),
    "f:2,3,n",
    special=False,
    skip=(0,),
)
row("max_pool", lambda x: F.max_pool1d(x, 2), "f:n,3,8", special=False, skip=(0,))
row(
    "searchsorted",
    lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x),
    "f:n",
    special=False,
)
row(
    "fft",
    lambda x: torch.fft.rfft(x, dim=1).abs() if x.shape[0] else x,
    "f:n,4",
    special=False,
    skip=(0,),
)

# -- in place, views, outputs ----------------------------------------------------------------------


def in_place_on_input(x: Tensor) -> Tensor:
    x.add_(1).mul_(2)
    return x * 3


def in_place_returned(x: Tensor) -> Tensor:
    return x.relu_()


def in_place_on_slice(x: Tensor) -> Tensor:
    x[:, 1:] += 5
    return x.sum(1)


def in_place_through_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    v = y.view(-1)
    v.add_(1)
    y[:, 0] = 7
    return y, v


def in_place_through_transpose(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    t = y.t()
    t[0] = 3
    t.mul_(2)
    return y, t


def in_place_masked(x: Tensor, m: Tensor) -> Tensor:
    y = x.clone()
    y.masked_fill_(m, 0)
    y.clamp_(-1, 1)
    return y


def in_place_setitem(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, 0] = x[:, 1]
    y[:, 1:3] = x[:, :2] * 2
    y[..., -1] = 4
    return y


def in_place_setitem_dynamic(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape[0] + 2, 3)
    y[1:-1] = x
    return y


def in_place_setitem_mask(x: Tensor) -> Tensor:
    y = x.clone()
    y[x > 0] = 0
    return y


def in_place_setitem_index(x: Tensor, i: Tensor) -> Tensor:
    y = x.clone()
    y[i] = 1.0
    return y


def swap(x: Tensor, y: Tensor) -> Tensor:
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x + 0.5


def move_rows(x: Tensor, y: Tensor) -> None:
    x.copy_(y)
    y.zero_()


def stale_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1.5
    before = y[1:] + 0
    v = y[1:]
    y.add_(10)
    return before, v


def fill_and_zero(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.empty_like(x)
    y.fill_(2.5)
    z = x.clone().zero_()
    return y, z


def in_place_dtype(x: Tensor) -> Tensor:
    y = x.clone()
    y += 1.0
    y *= 2
    return y


def out_argument(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    return y


def loop(x: Tensor) -> Tensor:
    out = []
    for i in range(3):
        x = torch.tanh(x + i)
        out.append(x)
    return torch.stack(out)


def kv_cache(cache: Tensor, new: Tensor) -> Tensor:
    cache[:, -1:] = new[:, :1]
    return cache.sum(1)


row("in_place_on_input", in_place_on_input, "f:n,m")
row("in_place_returned", in_place_returned, "f:n,m")
row("in_place_on_slice", in_place_on_slice, "f:n,4")
row("in_place_through_view", in_place_through_view, "f:n,3")
row("in_place_through_transpose", in_place_through_transpose, "f:n,3")
row("in_place_masked", in_place_masked, "f:n,m b:n,m")
row("in_place_setitem", in_place_setitem, "f:n,4")
row("in_place_setitem_dynamic", in_place_setitem_dynamic, "f:n,3")
row("in_place_setitem_mask", in_place_setitem_mask, "f:n,3")
row("in_place_setitem_index", in_place_setitem_index, "f:4,3 x:n")
row("swap", swap, "f:n,3 f:n,3")
row("move_rows", move_rows, "f:n,3 f:n,3")
row("stale_view", stale_view, "f:n,3")
row("fill_and_zero", fill_and_zero, "f:n")
row("in_place_float_scalar", in_place_dtype, "f:n")
row("out_argument", out_argument, "f:n")
row("loop", loop, "f:n,m")
row("kv_cache", kv_cache, "f:n,4 f:n,4", special=False)
row("output_is_input", lambda x: x, "f:n")
row("output_input_twice", lambda x: (x, x, x + 1, x), "f:n")
row("output_same_twice", lambda x: [x * 2] * 2 + [x * 2], "f:n")
row("output_views", lambda x: (x.t(), x[1:], x.view(-1), x[:, None].expand(-1, 2, -1)), "f:n,3")
row("output_nested", lambda x: {"a": (x + 1, [x * 2]), "b": None, "c": 3, "d": "s"}, "f:n")
row("output_constant", lambda x: (torch.ones(2), x + 1, torch.tensor(3)), "f:n")
row("output_clone", lambda x: (x.clone(), x.detach(), x.contiguous(), x.to(torch.float32)), "f:n")
row(
    "output_mixed_types",
    lambda x: (x > 0, x.long(), x.double(), (x > 0).sum()),
    "f:n",
    special=False,
)
row("unused_input", lambda x, y: x + 1, "f:n f:m")
row("no_output", lambda x: None, "f:n")
row(
    "several_kernels",
    lambda x, y: (torch.softmax(x @ y, -1).sum(0), (x @ y).amax(1), x.mean(1)),
    "f:n,3 f:3,4",
    special=False,
)
row("deep_chain", lambda x: eval_chain(x, 60), "f:n", special=False)


def eval_chain(x: Tensor, steps: int) -> Tensor:
    for i in range(steps):
        x = torch.sin(x) + x * 0.01 * i
    return x


# -- branches on sizes and Python --------------------------------------------------------------------
row("branch", lambda x: x + 1 if x.shape[0] > 8 else x - 1, "f:n", compiles=2)
row("branch_even", lambda x: x[: x.shape[0] // 2] * 2, "f:n,3")
row("branch_python_max", lambda x: x * max(x.shape[0], 8), "f:n", compiles=2)
row("half_and_half", lambda x: torch.cat([x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]), "f:n,3")


LIMITATIONS: dict[str, str] = {
    "casts_half": "half precision runs in eager mode",
}
"""Rows and uses that fail today, and why."""

CRASHES: frozenset[str] = frozenset()
"""Those of LIMITATIONS that end the process or read freed memory, and so are not run."""


# -- the check -------------------------------------------------------------------------------------
def make(letter: str, shape: tuple[int, ...], g: torch.Generator, special: bool) -> Tensor:
    dtype = DTYPES[letter]
    match letter:
        case "f" | "d" | "p":
            x = torch.randn(shape, generator=g, dtype=torch.float64) * 2
            if letter == "p":
                x = x.abs() + 0.1
            x = x.to(dtype)
            if special and x.numel():
                at = torch.rand(shape, generator=g) < 0.3
                pick = torch.randint(len(SPECIAL), shape, generator=g)
                x = torch.where(at, torch.tensor(SPECIAL, dtype=dtype)[pick], x)
            return x
        case "b":
            return torch.rand(shape, generator=g) < 0.5
        case "x":
            return torch.randint(0, 4, shape, generator=g)
        case "u":
            return torch.randint(0, 200, shape, generator=g).to(dtype)
        case _:
            x = torch.randint(-9, 10, shape, generator=g)
            return (torch.where(x == 0, 4, x) if letter in "kq" else x).to(dtype)


def laid_out(x: Tensor, layout: str) -> Tensor:
    """The same values at other strides."""
    if layout == "contiguous" or x.dim() == 0:
        return x
    if layout == "transposed":
        return x.permute(*reversed(range(x.dim()))).contiguous().permute(*reversed(range(x.dim())))
    if layout == "gaps":
        wide = x.new_zeros(*x.shape[:-1], 2 * x.shape[-1] + 1)
        wide[..., 1::2] = x
        return wide[..., 1::2]
    assert layout == "expanded"
    return x[:1].expand(x.shape)


def arguments(row: Row, n: int, m: int, layout: str, special: bool) -> list[Tensor]:
    g = torch.Generator().manual_seed(1000 * n + m)
    sizes = {"n": n, "m": m}
    out = []
    for text in row.inputs.split():
        letter, _, dims = text.partition(":")
        shape = tuple(sizes.get(d) if d in sizes else int(d) for d in dims.split(",") if d)
        out.append(laid_out(make(letter, shape, g, special), layout))
    return out


def calls(row: Row) -> Iterator[tuple[int, int, str, bool]]:
    """(n, m, layout, special values) of each call; the first is the one that compiles."""
    others = OTHER if "m" in row.inputs.replace("m:", "") else (1,)
    first = row.first
    if first < 0:
        first = (7, 1, 0)[zlib.crc32(row.name.encode()) % 3]
        if first in row.skip or not (first or row.empty):
            first = 7
    yield first, others[0], "contiguous", False
    for n in SIZES:
        if n in row.skip or (n == 1024 and not row.big):
            continue
        for m in others:
            if row.empty or (n and m):
                yield n, m, "contiguous", False
    written = row.name.startswith(("in_place", "swap", "move", "kv"))
    for layout in ("transposed", "gaps") if written else ("transposed", "gaps", "expanded"):
        yield 8, others[0], layout, False
        yield 33, others[-1], layout, False
    if row.special and any(text[0] in "fdp" for text in row.inputs.split()):
        yield 31, others[0], "contiguous", True
        yield 32, others[-1], "contiguous", True
        yield 7, others[0], "gaps", True


@pytest.fixture(autouse=True)
def _fresh_memory_is_nan() -> Iterator[None]:
    """What nothing has written is wrong in the same way each time."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def run(fn: Fn, args: list[Tensor]) -> tuple[list[Any], Any, Exception | None]:
    """(leaves of the result and the arguments after it, structure, error)."""
    try:
        leaves, spec = pytree.tree_flatten((fn(*args), args))
    except Exception as error:
        return [], None, error
    return leaves, spec, None


def agree(row: Row, ours: Tensor, eager: Tensor, exact: Tensor | None, at: str) -> None:
    assert ours.dtype is eager.dtype, f"{at}: dtype {ours.dtype}, eager {eager.dtype}"
    assert ours.shape == eager.shape, f"{at}: shape {list(ours.shape)}, eager {list(eager.shape)}"
    if not eager.dtype.is_floating_point:
        if not torch.equal(ours, eager):
            i = (ours != eager).nonzero()[0].tolist()
            raise AssertionError(f"{at}{i}: {ours[tuple(i)]}, eager {eager[tuple(i)]}")
        return
    x, y = ours.double(), eager.double()
    z = y if exact is None or not exact.dtype.is_floating_point else exact.double()
    special = ~y.isfinite()
    # where eager's f32 gives NaN and its f64 a number (gelu(inf) on AVX-512), the number is right
    right = (x == y) | (x.isnan() & y.isnan()) | (y.isnan() & (x == z))
    wrong = special & ~right | (~special & ~x.isfinite())
    z = torch.where(z.isfinite(), z, y)
    error, own = (x - z).abs(), (y - z).abs()
    error, own = (torch.where(special, 0.0, e) for e in (error, own))
    size = torch.where(special, 0.0, z.abs())
    most = own.max() if own.numel() else 0.0
    unit = 1e-6 if eager.dtype is torch.float32 else 1e-13
    wrong |= error > row.loose * (3 * most + unit * (1 + size))
    if wrong.any():
        i = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(
            f"{at}{list(i)}: {x[i].item()!r}, eager {y[i].item()!r}, exact {z[i].item()!r}, "
            f"eager's worst error {float(most):.3g}; {int(wrong.sum())} of {wrong.numel()} wrong"
        )


def check(row: Row, compiled: Any) -> None:
    for n, m, layout, special in calls(row):
        at = f"n={n} m={m} {layout}{' special' if special else ''}"
        eager, spec, failure = run(row.fn, arguments(row, n, m, layout, special))
        ours, our_spec, our_failure = run(compiled, arguments(row, n, m, layout, special))
        if failure is not None:
            if layout != "contiguous" or not row.always:
                continue  # a view that strides do not allow: ours sees the input without gaps
            assert our_failure is not None, f"{at}: no error, eager raises {failure!r}"
            continue
        if our_failure is not None:
            raise our_failure
        assert our_spec == spec, f"{at}: structure {our_spec}, eager {spec}"
        wide = [
            a.double() if a.dtype is torch.float32 else a
            for a in arguments(row, n, m, layout, special)
        ]
        exact, _, no_exact = run(row.fn, wide)
        for i, (x, y) in enumerate(zip(ours, eager, strict=True)):
            if not isinstance(y, Tensor):
                assert x == y, f"{at}: output {i}: {x!r}, eager {y!r}"
                continue
            z = exact[i] if no_exact is None else None
            agree(row, x, y, z if isinstance(z, Tensor) else None, f"{at}: output {i}")


def marked(value: Any, name: str) -> Any:
    reason = LIMITATIONS.get(name)
    run = name not in CRASHES
    marks = [pytest.mark.xfail(reason=reason, strict=True, run=run)] if reason else []
    return pytest.param(value, id=name, marks=marks)


@pytest.mark.parametrize("row", [marked(r, r.name) for r in ROWS])
def test_row(row: Row) -> None:
    with torch.no_grad(), knobs.scope(on_error="raise"):
        compiled = pydisc.compile(row.fn)
        check(row, compiled)
        report = compiled.report()
        assert report.compiles <= row.compiles, str(report)
        assert report.eager_calls == 0 or row.skip, str(report.fallbacks)
        if returns_views(row):  # which are taken of the arguments themselves: compute them too
            copies = replace(row, fn=copied(row.fn), always=False)
            check(copies, pydisc.compile(copies.fn))


def returns_views(row: Row) -> bool:
    results, _, _ = run(row.fn, arguments(row, *next(calls(row))))
    return any(isinstance(x, Tensor) and x._is_view() for x in results)


def copied(fn: Fn) -> Fn:
    """The function with a copy of each result."""
    return lambda *args: pytree.tree_map_only(Tensor, torch.clone, fn(*args))


# -- what is done with a result, and with a call that fails -----------------------------------------
def add_one(x: Tensor) -> Tensor:
    return x.add_(1)


def first_written(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return y * 1


def a_clone_is_its_own(wrap: Fn) -> Any:
    x = torch.zeros(3)
    wrap(lambda x: x.clone())(x).add_(1)
    return x


def a_view_of_an_input_is_one(wrap: Fn) -> Any:
    x = torch.zeros(2, 2)
    wrap(lambda x: x.view(-1))(x).add_(1)
    return x


def an_input_with_gaps_is_returned(wrap: Fn) -> Any:
    x = torch.zeros(2, 3).t()
    return wrap(lambda x: x)(x) is x


def an_input_with_gaps_is_written(wrap: Fn) -> Any:
    x = torch.zeros(2, 3).t()
    wrap(add_one)(x)
    return x


def equal_results_are_two(wrap: Fn) -> Any:
    first, second = wrap(lambda x: (x * 2, x * 2))(torch.ones(3))
    first.add_(1)
    return second


def results_of_two_calls_are_two(wrap: Fn) -> Any:
    fn = wrap(lambda x: (x * 2, torch.ones(2), torch.tensor([1.0, 2.0])))
    for result in fn(torch.ones(3)):
        result.add_(1)
    return list(fn(torch.ones(3)))


def one_tensor_as_two_arguments(wrap: Fn) -> Any:
    x = torch.zeros(3)
    return wrap(first_written)(x, x)


def arguments_that_overlap(wrap: Fn) -> Any:
    x = torch.zeros(4)
    return wrap(first_written)(x[:3], x[1:])


def a_bad_call_changes_nothing(wrap: Fn) -> Any:
    fn = wrap(torch.matmul)
    fn(torch.ones(2, 3), torch.ones(3, 2))
    with pytest.raises(RuntimeError):
        fn(torch.ones(2, 3), torch.ones(2, 3))
    eager = getattr(fn, "report", None)
    before = eager().eager_calls if eager else 0
    result = fn(torch.ones(4, 3), torch.ones(3, 5))
    assert (eager().eager_calls if eager else 0) == before, "eager mode after a bad call"
    return result


def a_bad_first_call_changes_nothing(wrap: Fn) -> Any:
    fn = wrap(torch.matmul)
    with pytest.raises(RuntimeError):
        fn(torch.ones(2, 3), torch.ones(2, 3))
    eager = getattr(fn, "report", None)
    before = eager().eager_calls if eager else 0
    result = fn(torch.ones(4, 3), torch.ones(3, 5))
    assert (eager().eager_calls if eager else 0) == before, "eager mode after a bad call"
    return result


USES = (
    a_clone_is_its_own,
    a_view_of_an_input_is_one,
    an_input_with_gaps_is_returned,
    an_input_with_gaps_is_written,
    equal_results_are_two,
    results_of_two_calls_are_two,
    one_tensor_as_two_arguments,
    arguments_that_overlap,
    a_bad_call_changes_nothing,
    a_bad_first_call_changes_nothing,
)


@pytest.mark.parametrize("use", [marked(u, u.__name__) for u in USES])
@pytest.mark.parametrize("mode", ["raise", "eager"])
def test_use(use: Fn, mode: str) -> None:
    with torch.no_grad(), knobs.scope(on_error=mode):
        torch.testing.assert_close(use(pydisc.compile), use(lambda fn: fn))


def test_limitations_name_rows() -> None:
    names = {r.name for r in ROWS} | {u.__name__ for u in USES}
    assert len(names) == len(ROWS) + len(USES), "two rows of one name"
    assert LIMITATIONS.keys() <= names
    assert LIMITATIONS.keys() >= CRASHES
