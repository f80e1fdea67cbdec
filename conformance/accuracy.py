"""Measures the elementary functions of CPU kernels against f64 and writes docs/accuracy.md.

    python -m conformance.accuracy

Every sample is an f32 number taken at equal steps through all bit patterns: all exponents,
denormals, both signs. The reference is torch in f64.
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pydisc.codegen.common.assembly_text import PTR, Text, Val
from pydisc.codegen.cpu import vector_math
from pydisc.codegen.cpu.host_target import detect_cpu_target
from pydisc.codegen.cpu.jit import compile_to_object
from pydisc.runtime.object_code import ObjectCode

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
WIDTHS: dict[str, tuple[int, tuple[str, ...]]] = {
    "AVX2": (8, ()),
    "AVX-512": (16, ("avx512f",)),
}
"""Lanes and features of the code, by instruction set."""
SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1.1754942e-38, -1.1754942e-38, 3.4028235e38)
SPECIAL += (-3.4028235e38, math.inf, -math.inf, math.nan)
STEP = 4099
"""Every so manieth of the 2^32 numbers."""


@dataclass(frozen=True)
class Function:
    """An emitter, what torch computes instead, and how many operands both take."""

    emit: Callable[..., Val]
    reference: Callable[..., Tensor]
    operands: int = 1
    bound: float = 1.0
    """Units in the last place that the error may have."""


def _unary(name: str, reference: Callable[..., Tensor], bound: float = 1.0) -> Function:
    return Function(vector_math.UNARY[name], reference, 1, bound)


FUNCTIONS: dict[str, Function] = {
    "exp": _unary("exponential", torch.exp),
    "exp2": _unary("exp2", torch.exp2),
    "expm1": _unary("exponential_minus_one", torch.expm1),
    "log": _unary("log", torch.log),
    "log2": _unary("log2", torch.log2),
    "log10": _unary("log10", torch.log10),
    "log1p": _unary("log_plus_one", torch.log1p),
    "erf": _unary("erf", torch.erf),
    "tanh": _unary("tanh", torch.tanh, 2.0),
    "sigmoid": _unary("logistic", torch.sigmoid),
    "sin": _unary("sine", torch.sin),
    "cos": _unary("cosine", torch.cos),
    "tan": _unary("tan", torch.tan),
    "asin": _unary("asin", torch.asin),
    "acos": _unary("acos", torch.acos),
    "atan": _unary("atan", torch.atan),
    "sinh": _unary("sinh", torch.sinh),
    "cosh": _unary("cosh", torch.cosh),
    "asinh": _unary("asinh", torch.asinh),
    "acosh": _unary("acosh", torch.acosh),
    "atanh": _unary("atanh", torch.atanh),
    "sqrt": _unary("sqrt", torch.sqrt),
    "rsqrt": _unary("rsqrt", torch.rsqrt),
    "floor": _unary("floor", torch.floor, 0.0),
    "ceil": _unary("ceil", torch.ceil, 0.0),
    "round": _unary("round_nearest_even", torch.round, 0.0),
    "pow": Function(vector_math.power, torch.pow, 2, 2.0),
    "atan2": Function(vector_math.atan2, torch.atan2, 2),
    "fmod": Function(vector_math.remainder, torch.fmod, 2, 0.0),
}


@dataclass(frozen=True)
class Accuracy:
    """The largest error of a function, where it is, and how many special values are wrong."""

    ulps: float
    worst: tuple[float, ...]
    wrong: int


def runs(width: tuple[int, tuple[str, ...]]) -> bool:
    """Whether this machine runs code with these features."""
    return set(width[1]) <= set(detect_cpu_target().features)


def samples(step: int = STEP) -> Tensor:
    """f32 numbers at equal steps through the bit patterns, and special ones."""
    bits = torch.arange(-(2**31), 2**31, step).to(torch.int32)
    return torch.cat([bits.view(torch.float32), torch.tensor(SPECIAL)])


def _pairs(step: int) -> list[Tensor]:
    """Operands of a function of two: any with any, and with powers that are numbers."""
    x = samples(step)
    g = torch.Generator().manual_seed(0)
    special = torch.tensor((*SPECIAL, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5))
    small = torch.randn(len(x), generator=g) * 9
    n = len(special)
    left = torch.cat([x, x.abs(), small.abs(), special.repeat_interleave(n)])
    right = torch.cat([x[torch.randperm(len(x), generator=g)], small, small.flip(0)])
    return [left, torch.cat([right, special.repeat(n)])]


def compile_functions(names: Sequence[str], lanes: int, features: Sequence[str]) -> ObjectCode:
    """Machine code of `name(x, y, out, n)` for each name; n is a multiple of `lanes`."""
    t = Text(lanes, features)
    for name in names:
        function = FUNCTIONS[name]
        arguments = [("x", PTR), ("y", PTR), ("out", PTR), ("n", "i64")]
        with (
            t.function(f"measure_{name}", arguments) as (x, y, out, n),
            t.loop(t.const(0), n, lanes) as loop,
        ):
            operands = [t.load_lanes(t.at(p, loop.index), "f32") for p in (x, y)]
            value = function.emit(t, *operands[: function.operands])
            t.store_lanes(value, t.at(out, loop.index), "f32")
    return ObjectCode(compile_to_object(t.module()))


def results(code: ObjectCode, name: str, x: Tensor, y: Tensor) -> Tensor:
    """What the machine code computes."""
    count = len(x)
    padded = [torch.cat([v, v.new_ones(-count % 64)]).contiguous() for v in (x, y)]
    out = torch.empty_like(padded[0])
    types = [ctypes.c_void_p] * 3 + [ctypes.c_int64]
    function = ctypes.CFUNCTYPE(None, *types)(code.address(f"measure_{name}"))
    function(padded[0].data_ptr(), padded[1].data_ptr(), out.data_ptr(), len(out))
    return out[:count]


def compare(got: Tensor, exact: Tensor, operands: Sequence[Tensor]) -> Accuracy:
    """Errors in units of the last place of the exact value; infinities, NaN, signs of 0 equal."""
    want = exact.float()
    finite = want.isfinite() & got.isfinite()
    wrong = ~finite & ~((got == want) | (got.isnan() & want.isnan()))
    wrong |= (got == 0) & (exact == 0) & (got.signbit() != exact.signbit())
    above = torch.nextafter(want.abs(), torch.tensor(math.inf)).double()
    unit = torch.where(above.isfinite(), above - want.abs().double(), 2.0**104)
    error = torch.where(finite, (got.double() - exact).abs() / unit, 0.0)
    at = int(error.argmax())
    worst = tuple(float(v[at]) for v in operands)
    return Accuracy(float(error[at]), worst, int(wrong.sum()))


def measure(code: ObjectCode, name: str, step: int = STEP) -> Accuracy:
    """The accuracy of one compiled function."""
    function = FUNCTIONS[name]
    operands = [samples(step)] if function.operands == 1 else _pairs(step)
    got = results(code, name, operands[0], operands[-1])
    return compare(got, function.reference(*(v.double() for v in operands)), operands)


def page(step: int = STEP) -> str:
    """docs/accuracy.md."""
    lines = [
        "# Accuracy of elementary functions",
        "",
        "Measured by `python -m conformance.accuracy`; do not edit.",
        "",
        "The largest error of CPU kernels in f32, in units in the last place of the exact value,",
        f"over every {step}th of the 2^32 numbers: all exponents, denormals, both signs. An error",
        "of 0.5 is correct rounding. Infinities, NaN and signed zeros are as in f64. Functions of",
        "f64 are libm's.",
        "",
        f"| function | {' | '.join(WIDTHS)} | at | wrong special values | bound of the tests |",
        "|---|" + "---|" * (len(WIDTHS) + 3),
    ]
    codes = [compile_functions(list(FUNCTIONS), *width) for width in WIDTHS.values() if runs(width)]
    if len(codes) != len(WIDTHS):
        raise RuntimeError("this machine does not run every width: measure on one that does")
    for name, function in FUNCTIONS.items():
        found = [measure(code, name, step) for code in codes]
        errors = " | ".join(f"{a.ulps:.2f}" for a in found)
        worst = max(found, key=lambda a: a.ulps)
        at = ", ".join(f"{v:.6g}" for v in worst.worst) if worst.ulps else ""
        wrong = sum(a.wrong for a in found)
        lines.append(f"| `{name}` | {errors} | {at} | {wrong} | {function.bound:g} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
