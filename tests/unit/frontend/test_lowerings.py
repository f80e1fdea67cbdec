"""Each op's rule: one capture, replayed at many sizes, against eager mode."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.hlo_interpreter import declared_env, guards_hold, replay
from torch import Tensor

from pydisc.frontend import Capture, capture
from pydisc.ir.context import open_context

Spec = tuple[Any, ...]
"""A shape in which letters are sizes that vary, and last the kind of content."""
GRID = ({"b": 1, "s": 1}, {"b": 3, "s": 4}, {"b": 2, "s": 9}, {"b": 0, "s": 3}, {"b": 2, "s": 0})
HINT = {"b": 2, "s": 5}


def make(spec: Spec, env: dict[str, int]) -> Tensor:
    """A tensor of a spec at these sizes."""
    *dims, kind = spec
    shape = [env[d] if isinstance(d, str) else d for d in dims]
    match kind:
        case "f":
            return torch.randn(shape)
        case "p":
            return torch.rand(shape) + 0.5
        case "i":
            return torch.randint(-5, 6, shape)
        case "n":
            return torch.randint(0, 4, shape)
        case "i32":
            return torch.randint(-5, 6, shape, dtype=torch.int32)
        case "m":
            return torch.rand(shape) > 0.4
        case "h":
            return torch.randn(shape).to(torch.bfloat16)
    raise ValueError(kind)


X: Spec = ("b", "s", 4, "f")
Y: Spec = ("b", "s", 4, "f")
I: Spec = ("b", "s", "i")  # noqa: E741
J: Spec = ("b", "s", "i")
M: Spec = ("b", "s", "m")
HEADS: Spec = ("b", 2, "s", 4, "f")

KERNEL = torch.randn(5, 3, 2, 2)
"""A weight, and so static."""

Case = tuple[str, Callable[..., Any], tuple[Spec, ...]]


def _unary(*names: str, spec: Spec = X) -> list[Case]:
    def call(name: str) -> Callable[[Tensor], Tensor]:
        return lambda x: getattr(torch, name)(x)

    return [(name, call(name), (spec,)) for name in names]


CASES: list[Case] = [
    *_unary("neg", "abs", "sign", "floor", "ceil", "round", "trunc", "exp", "expm1", "sin", "cos"),
    *_unary("tan", "tanh", "sigmoid", "erf", "relu", "square", "isnan", "isinf", "isfinite"),
    *_unary("exp2"),
    *_unary("log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal", spec=("b", "s", "p")),
    ("sqrt_int", lambda x: torch.sqrt(x.abs()), (I,)),
    ("logical_not", torch.logical_not, (I,)),
    ("bitwise_not", lambda x: ~x, (M,)),
    ("gelu", F.gelu, (X,)),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), (X,)),
    ("gelu_bf16", F.gelu, (("b", "s", "h"),)),
    ("silu", F.silu, (X,)),
    ("mish", F.mish, (X,)),
    ("softplus", F.softplus, (X,)),
    ("logsigmoid", F.logsigmoid, (X,)),
    ("leaky_relu", F.leaky_relu, (X,)),
    ("elu", F.elu, (X,)),
    ("selu", F.selu, (X,)),
    ("hardswish", F.hardswish, (X,)),
    ("hardsigmoid", F.hardsigmoid, (X,)),
    ("relu6", F.relu6, (X,)),
    ("hardtanh", F.hardtanh, (X,)),
    ("glu", lambda x: F.glu(x, -1), (X,)),
    ("clamp", lambda x: x.clamp(-0.3, 0.5), (X,)),
    ("clamp_min", lambda x: x.clamp(min=1), (I,)),
    ("clamp_int_float", lambda x: x.clamp(min=0.5), (I,)),
    ("nan_to_num", lambda x: torch.nan_to_num(torch.log(x)), (X,)),
    ("add_scalar", lambda x: x + 2, (X,)),
    ("add_int_float", lambda x: x + 0.5, (I,)),
    ("add_alpha", lambda x, y: torch.add(x, y, alpha=3), (X, Y)),
    ("add_broadcast", lambda x, y: x + y, (X, (4, "f"))),
    ("add_broadcast_rows", lambda x, y: x + y, (X, ("b", 1, 1, "f"))),
    ("add_mixed", lambda x, y: x + y, (("b", "s", "f"), I)),
    ("add_bool", lambda x, y: x + y, (M, I)),
    ("rsub", lambda x: 1 - x, (X,)),
    ("rsub_int_float", lambda x: 1.0 - x, (I,)),
    ("mul_mask", lambda x, m: x * m.unsqueeze(-1), (X, M)),
    ("mul_size", lambda x: x * x.shape[1], (X,)),
    ("div_size", lambda x: x / x.shape[1], (X,)),
    ("div_int", lambda x, y: x / (y.abs() + 1), (I, J)),
    ("div_floor", lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="floor"), (I, J)),
    ("div_trunc", lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="trunc"), (I, J)),
    ("floor_divide", lambda x, y: x // (y * 2 + 1), (I, J)),
    ("floor_divide_float", lambda x, y: x // y, (X, Y)),
    ("remainder", lambda x, y: x % (y * 2 + 1), (I, J)),
    ("remainder_float", lambda x, y: x % y, (X, Y)),
    ("fmod", lambda x, y: torch.fmod(x, y), (X, Y)),
    ("maximum", torch.maximum, (X, Y)),
    ("minimum", torch.minimum, (X, Y)),
    ("atan2", torch.atan2, (X, Y)),
    ("lerp", lambda x, y: torch.lerp(x, y, 0.3), (X, Y)),
    ("addcmul", lambda x, y: torch.addcmul(x, x, y, value=0.5), (X, Y)),
    *[
        (f"pow_{p}", lambda x, p=p: x**p, (("b", "s", "p"),))
        for p in (0, 0.5, -0.5, 1, 2, 3, -1, 2.5, 4)
    ],
    ("pow_int", lambda x: x**3, (I,)),
    ("pow_tensor", lambda x, y: x**y, (("b", "s", "p"), ("b", "s", "f"))),
    ("pow_scalar", lambda x: 10000.0**x, (("b", "s", "f"),)),
    ("eq", lambda x, y: x == y, (I, J)),
    ("ne", lambda x: x != 0, (I,)),
    ("lt_float", lambda x: x < 0.5, (I,)),
    ("ge", lambda x, y: x >= y, (X, Y)),
    ("logical_and", lambda x, y: torch.logical_and(x, y), (I, M)),
    ("and_or_xor", lambda x, y: (x & y) | (x ^ y), (I, J)),
    ("mask_and_true", lambda m: m & m.new_ones((), dtype=torch.bool), (M,)),
    ("where", lambda m, x: torch.where(m.unsqueeze(-1), x, 0.0), (M, X)),
    ("masked_fill", lambda x, m: x.masked_fill(m.unsqueeze(-1), -1e9), (X, M)),
    ("to_int", lambda x: (x * 3).to(torch.int64), (X,)),
    ("to_bool", lambda x: x.to(torch.bool), (I,)),
    ("to_f64", lambda x: x.double() + 1, (X,)),
    ("type_as", lambda x, y: x.type_as(y), (I, ("b", "f"))),
    ("sum", lambda x: x.sum(1), (X,)),
    ("sum_all", lambda x: x.sum(), (X,)),
    ("sum_keep", lambda x: x.sum((0, 2), keepdim=True), (X,)),
    ("sum_int", lambda x: x.sum(-1), (("b", "s", "i32"),)),
    ("sum_bool", lambda x: x.sum(-1), (M,)),
    ("mean", lambda x: x.mean(-1), (X,)),
    ("mean_dynamic", lambda x: x.mean(1, keepdim=True), (X,)),
    ("var", lambda x: x.var(-1), (X,)),
    ("std", lambda x: x.std(-1, unbiased=False), (X,)),
    ("prod", lambda x: x.prod(-1), (X,)),
    ("amax", lambda x: x.amax(-1), (X,)),
    ("max_dim", lambda x: x.max(-1), (X,)),
    ("argmax", lambda x: x.argmax(-1), (X,)),
    ("argmin_keep", lambda x: x.argmin(-1, keepdim=True), (X,)),
    ("any_all", lambda m: (m.any(-1), m.all(0), m.any()), (M,)),
    ("cumsum", lambda x: x.cumsum(1), (I,)),
    ("cumsum_bool", lambda x: x.cumsum(-1), (M,)),
    ("norm", lambda x: torch.linalg.vector_norm(x, dim=-1), (X,)),
    ("norm_1", lambda x: x.norm(p=1, dim=-1), (X,)),
    ("normalize", lambda x: F.normalize(x, dim=-1), (X,)),
    ("softmax", lambda x: x.softmax(-1), (X,)),
    ("softmax_dynamic", lambda x: F.softmax(x, dim=1), (X,)),
    ("softmax_bf16", lambda x: F.softmax(x, dim=-1, dtype=torch.float32), (("b", "s", "h"),)),
    ("log_softmax", lambda x: x.log_softmax(-1), (X,)),
    ("logsumexp", lambda x: x.logsumexp(-1), (X,)),
    ("matmul", lambda x, y: x @ y, (X, (4, 3, "f"))),
    ("matmul_batch", lambda x, y: x @ y.transpose(1, 2), (X, Y)),
    ("matmul_lead", lambda x, y: x @ y, (("b", 2, "s", 4, "f"), (2, 4, 3, "f"))),
    ("matmul_vector", lambda x, y: x @ y, (X, (4, "f"))),
    ("vector_matmul", lambda x, y: y @ x, (X, ("s", "f"))),
    ("linear", F.linear, (X, (3, 4, "f"), (3, "f"))),
    ("addmm", torch.addmm, ((3, "f"), ("b", 4, "f"), (4, 3, "f"))),
    (
        "baddbmm",
        lambda c, x, y: torch.baddbmm(c, x, y.transpose(1, 2), alpha=0.5),
        (("b", "s", "s", "f"), X, Y),
    ),
    ("einsum", lambda x, y: torch.einsum("bsd,btd->bst", x, y), (X, Y)),
    ("einsum_heads", lambda x, w: torch.einsum("bsd,dhk->bshk", x, w), (X, (4, 2, 3, "f"))),
    ("bilinear_outer", lambda x, y: torch.outer(x[0, 0], y), (("b", "s", 4, "f"), (3, "f"))),
    (
        "conv_patch",
        lambda x, c: F.conv2d(x, KERNEL, c, stride=2),
        (("b", 3, "s", 6, "f"), (5, "f")),
    ),
    ("conv1d_point", lambda x: F.conv1d(x, KERNEL[..., 0, :1]), (("b", 3, "s", "f"),)),
    ("layer_norm", lambda x, w, c: F.layer_norm(x, (4,), w, c), (X, (4, "f"), (4, "f"))),
    ("layer_norm_plain", lambda x: F.layer_norm(x, x.shape[-1:]), (X,)),
    ("layer_norm_bf16", lambda x: F.layer_norm(x, (4,)), (("b", "s", 4, "h"),)),
    ("rms_norm", lambda x, w: F.rms_norm(x, (4,), w), (X, (4, "f"))),
    ("group_norm", lambda x, w: F.group_norm(x, 2, w), (("b", 4, "s", "f"), (4, "f"))),
    ("batch_norm", lambda x, m, v: F.batch_norm(x, m, v), (("b", 4, "s", "f"), (4, "f"), (4, "p"))),
    ("sdpa", F.scaled_dot_product_attention, (HEADS,) * 3),
    ("sdpa_causal", partial(F.scaled_dot_product_attention, is_causal=True), (HEADS,) * 3),
    ("sdpa_scale", partial(F.scaled_dot_product_attention, scale=0.3), (HEADS,) * 3),
    (
        "sdpa_bool",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m[:, None, None, :]),
        (*(HEADS,) * 3, M),
    ),
    (
        "sdpa_add",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (*(HEADS,) * 3, ("b", 1, "s", "s", "f")),
    ),
    (
        "sdpa_gqa",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (("b", 4, "s", 4, "f"), *(("b", 2, "s", 4, "f"),) * 2),
    ),
    ("view", lambda x: x.view(x.shape[0], x.shape[1], 2, 2), (X,)),
    ("view_merge", lambda x: x.view(-1, 4), (X,)),
    ("view_split", lambda x: x.view(x.size(0), x.size(1), -1, 2), (X,)),
    ("reshape_after_transpose", lambda x: x.transpose(0, 1).reshape(-1, 4), (X,)),
    ("flatten", lambda x: x.flatten(1), (X,)),
    ("unflatten", lambda x: x.unflatten(-1, (2, -1)), (X,)),
    ("permute", lambda x: x.permute(2, 0, 1), (X,)),
    ("movedim", lambda x: x.movedim(-1, 0), (X,)),
    ("transpose_contiguous", lambda x: x.transpose(1, 2).contiguous().view(x.size(0), -1), (X,)),
    ("unsqueeze", lambda x: x[:, None, :, None], (X,)),
    ("squeeze", lambda x: x.unsqueeze(1).squeeze(1), (X,)),
    ("expand", lambda x: x[:, :1].expand(-1, 7, -1), (("b", 1, 4, "f"),)),
    ("expand_as", lambda x, y: x.expand_as(y), (("b", 1, 4, "f"), X)),
    ("slice_static", lambda x: x[..., 1:3], (X,)),
    ("slice_step", lambda x: x[..., ::2], (X,)),
    ("slice_first", lambda x: x[:, :2], (X,)),
    ("slice_table", lambda x, t: x + t[: x.shape[1]], (X, (16, 4, "f"))),
    ("select", lambda x: x[..., -1], (X,)),
    ("split", lambda x: x.split(2, dim=-1), (X,)),
    ("split_sizes", lambda x: x.split([1, 3], dim=-1), (X,)),
    ("chunk", lambda x: x.chunk(2, dim=-1), (X,)),
    ("unbind", lambda x: x.unbind(-1), (X,)),
    ("cat", lambda x, y: torch.cat([x, y], dim=1), (X, Y)),
    ("cat_dtypes", lambda x, y: torch.cat([x, y], dim=-1), (("b", "s", "f"), I)),
    ("stack", lambda x, y: torch.stack([x, y], dim=1), (X, Y)),
    ("pad", lambda x: F.pad(x, (1, 2, 0, 1)), (X,)),
    ("pad_by_size", lambda x: F.pad(x, (0, x.shape[1])), (("b", "s", "f"),)),
    ("repeat", lambda x: x.repeat(2, 1, 3), (X,)),
    ("repeat_interleave", lambda x: x.repeat_interleave(2, dim=1), (X,)),
    ("roll", lambda x: x.roll(1, -1), (X,)),
    ("tril_triu", lambda x: (x.tril(), x.triu(1)), (("s", "s", "f"),)),
    ("select_scatter", lambda x, y: torch.select_scatter(x, y, -1, 2), (X, ("b", "s", "f"))),
    ("slice_scatter", lambda x, y: torch.slice_scatter(x, y, -1, 1, 3), (X, ("b", "s", 2, "f"))),
    ("embedding", lambda i, w: F.embedding(i, w), (("b", "s", "n"), (4, 3, "f"))),
    ("index_rows", lambda x, i: x[i], ((4, 3, "f"), ("b", "s", "n"))),
    ("index_negative", lambda x, i: x[i - 4], ((4, 3, "f"), ("b", "n"))),
    ("index_two", lambda x, i, j: x[i, j], ((4, 4, 3, "f"), ("b", "s", "n"), ("s", "n"))),
    ("index_middle", lambda x, i: x[:, i], (("b", 4, 3, "f"), ("s", "n"))),
    ("index_apart", lambda x, i, j: x[i, :, j], ((4, "b", 4, "f"), ("s", "n"), ("s", "n"))),
    (
        "index_last_token",
        lambda x, i: x[torch.arange(x.shape[0]), i],
        (("b", 4, 3, "f"), ("b", "n")),
    ),
    ("index_select", lambda x, i: x.index_select(1, i), (("b", 4, 3, "f"), ("s", "n"))),
    ("gather", lambda x, i: x.gather(-1, i), (("b", "s", 4, "f"), ("b", "s", 2, "n"))),
    ("gather_rows", lambda x, i: x.gather(1, i), ((1, 4, "f"), (1, "s", "n"))),
    ("take_along_dim", lambda x, i: torch.take_along_dim(x, i, -1), (("b", 4, "f"), ("b", 2, "n"))),
    ("one_hot_by_eq", lambda i: (i.unsqueeze(-1) == torch.arange(4)).float(), (("b", "s", "n"),)),
    ("arange_size", lambda x: torch.arange(x.shape[1]).expand(x.shape[0], -1), (X,)),
    ("arange_step", lambda x: torch.arange(1, 2 * x.shape[1] + 1, 2), (X,)),
    ("arange_float", lambda x: x + torch.arange(0, 1, 0.25), (X,)),
    (
        "factories",
        lambda x: (torch.zeros(x.shape[:2]), torch.ones_like(x), x.new_full((x.size(0),), 3)),
        (X,),
    ),
    ("full_bool", lambda x: torch.full((x.shape[1], x.shape[1]), True).tril(), (X,)),
    ("eye", lambda x: x @ torch.eye(4), (X,)),
    ("scalar_tensor", lambda x: x * torch.tensor(2.5), (X,)),
    ("constant_tensor", lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]), (X,)),
    ("causal_mask", lambda x: torch.triu(torch.full((x.size(1), x.size(1)), -math.inf), 1), (X,)),
    ("rotary", lambda x: torch.cat([-x[..., 2:], x[..., :2]], -1) * x.cos(), (X,)),
    ("item_of_constant", lambda x: x * torch.tensor(3.0).item(), (X,)),
    ("sqrt_of_size", lambda x: x / math.sqrt(x.shape[-1]), (X,)),
]


def tensors(specs: Sequence[Spec], env: dict[str, int]) -> list[Tensor]:
    """One tensor for each spec."""
    torch.manual_seed(0)
    return [make(spec, env) for spec in specs]


def assert_same(ours: Any, eager: Any) -> None:
    """The same structure, shapes, types and (nearly) numbers."""
    got, want = torch.utils._pytree.tree_leaves(ours), torch.utils._pytree.tree_leaves(eager)
    assert len(got) == len(want)
    for a, c in zip(got, want, strict=True):
        assert a.dtype is c.dtype
        assert a.shape == c.shape
        tolerance = 2e-2 if c.dtype is torch.bfloat16 else 1e-5
        torch.testing.assert_close(a, c, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(
    found: Capture, fn: Callable[..., Any], specs: Sequence[Spec], env: dict[str, int]
) -> bool:
    """Compare at one size; False where the program does not claim to hold there."""
    args = tensors(specs, env)
    bound = declared_env(found, args)
    if bound is None or not guards_hold(found, bound):
        return False
    try:
        want = fn(*[a.clone() for a in args])
    except (RuntimeError, IndexError):
        return True  # eager refuses: any answer is as good
    assert_same(replay(found, args), want)
    return True


def copied(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a copy of each result: a view of an argument would not be computed."""
    return lambda *args: torch.utils._pytree.tree_map_only(Tensor, torch.clone, fn(*args))


@pytest.mark.parametrize(("name", "fn", "specs"), CASES, ids=[c[0] for c in CASES])
def test_matches_eager_at_every_size(
    name: str, fn: Callable[..., Any], specs: tuple[Spec, ...]
) -> None:
    fn = copied(fn)
    with open_context():
        found = capture(fn, tensors(specs, HINT), {}, state=None)
        assert found.module.operation.verify()
        assert found.externs == []
        assert check(found, fn, specs, HINT)
        served = [check(found, fn, specs, env) for env in GRID]
    assert any(served)
    if name not in NARROW:
        assert all(served[:3])


NARROW = {"slice_first", "bilinear_outer", "expand"}
"""Cases whose own Python, or whose slice, holds for some sizes only."""


@pytest.mark.parametrize(
    "name", ["add_broadcast", "softmax", "view_merge", "sdpa_bool", "slice_table"]
)
def test_a_trace_at_ones_serves_all_sizes(name: str) -> None:
    _, fn, specs = next(c for c in CASES if c[0] == name)
    fn = copied(fn)
    with open_context():
        found = capture(fn, tensors(specs, {"b": 1, "s": 1}), {}, state=None)
        assert all(check(found, fn, specs, env) for env in GRID[:3])
