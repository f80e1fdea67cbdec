"""Size arithmetic in generated code gives what the algebra says, zeros and negatives included."""

import ctypes
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pydisc.codegen.common.assembly_text import PTR, Text
from pydisc.codegen.cpu.jit import compile_to_object
from pydisc.codegen.host.sizes import SizeEmitter
from pydisc.runtime.object_code import ObjectCode
from pydisc.shape import Cond, Dim, ShapeContext, parse_cond, parse_dim

NAMES = ("a", "b", "c")
VALUES = (0, 1, 2, 3, 7, 31, 64, 1000)


def context() -> ShapeContext:
    cx = ShapeContext()
    for name in NAMES:
        cx.symbol(name, 4)
    return cx


class Compiled:
    """Native code that computes sizes and conditions from the symbols."""

    def __init__(self, wanted: Sequence[Dim | Cond | int]) -> None:
        t = Text(8)
        with t.function("sizes", [("symbols", PTR), ("out", PTR)]) as (symbols, out):
            known = {
                name: t.load(t.at(symbols, i, "i64"), "i64", align=8)
                for i, name in enumerate(NAMES)
            }
            emitter = SizeEmitter(t, known)
            for i, size in enumerate(wanted):
                if isinstance(size, Cond):
                    value = t.cast("extui", emitter.condition(size), "i64")
                else:
                    value = emitter.size(size)
                t.store(value, t.at(out, i, "i64"), align=8)
        self._code = ObjectCode(compile_to_object(t.module()))
        self._count = len(wanted)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        self._function = kind(self._code.address("sizes"))

    def __call__(self, env: dict[str, int]) -> list[int]:
        symbols = (ctypes.c_int64 * len(NAMES))(*(env[name] for name in NAMES))
        out = (ctypes.c_int64 * self._count)()
        self._function(symbols, out)
        return list(out)


def check(wanted: Sequence[Dim | Cond | int], points: Sequence[Sequence[int]]) -> None:
    """Compare native code with `evaluate`."""
    compiled = Compiled(wanted)
    for point in points:
        env = dict(zip(NAMES, point, strict=True))
        expected = [int(w if isinstance(w, int) else w.evaluate(env)) for w in wanted]
        assert compiled(env) == expected, env


def integers() -> st.SearchStrategy[str]:
    leaf = st.sampled_from([*NAMES, "0", "1", "3", "-2", "16"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        two = st.tuples(inner, inner)
        return st.one_of(
            st.tuples(two, st.sampled_from(["+", "-", "*", "//", "%"])).map(
                lambda x: f"({x[0][0]} {x[1]} ({x[0][1]}))"
            ),
            st.tuples(two, st.sampled_from(["max", "min"])).map(
                lambda x: f"{x[1]}({x[0][0]}, {x[0][1]})"
            ),
            st.tuples(two, two, st.sampled_from(["==", "<", ">=", "!="])).map(
                lambda x: f"ite({x[0][0]} {x[2]} {x[0][1]}, {x[1][0]}, {x[1][1]})"
            ),
        )

    return st.recursive(leaf, larger, max_leaves=7)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(integers(), min_size=12, max_size=12),
    st.lists(st.tuples(*[st.sampled_from(VALUES)] * 3), min_size=4, max_size=8),
)
def test_integer_sizes(texts: list[str], points: list[tuple[int, int, int]]) -> None:
    cx = context()
    wanted: list[Dim | Cond | int] = []
    for text in texts:
        try:
            wanted.append(parse_dim(cx, text))
        except ValueError:  # a division by the constant 0
            continue
    check(wanted, [*points, (0, 0, 0)])


REAL_SIZES = [
    "floor(float(a) * 1.7)",
    "ceil(float(a) / float(b) + 0.25)",
    "round(float(a) * 0.5 + float(b) * 0.1)",
    "trunc((float(a) - float(b)) * 1.3)",
    "floor(sqrt(a) * 2.5)",
    "floor(sqrt(float(a) - float(b)))",
    "floor(float(a) ** 0.5 + float(b))",
    "floor(float(a) ** (-1.5))",
    "floor((float(a) - float(b)) ** 3.0)",
    "floor(((float(a) - float(b)) % (float(c) - 3.0)) * 4.0)",
    "floor((float(a) - float(b)) // (float(c) - 3.0))",
    "ceil(max(float(a) * 1.1, float(b) * 1.2))",
    "ceil(min(float(a) * 1.1, -float(b)))",
    "round(ite(a < b, float(a) * 1.5, float(b) * 2.5))",
    "floor(float(a) ** 400.0)",
    "floor((float(a) / float(b)) * (float(c) * 1.01))",
]
REAL_CONDITIONS = [
    "float(a) * 1.5 < float(b)",
    "float(a) / float(b) <= 0.5",
    "float(a) * 0.25 == float(b)",
    "not (float(a) * 0.25 == float(b))",
    "sqrt(a) < sqrt(b) or float(c) * 1.5 <= 1.5",
]


def test_sizes_and_conditions_through_floats() -> None:
    cx = context()
    wanted: list[Dim | Cond | int] = [parse_dim(cx, text) for text in REAL_SIZES]
    wanted += [parse_cond(cx, text) for text in REAL_CONDITIONS]
    points = [(a, b, c) for a in VALUES for b in VALUES for c in (0, 2, 3, 4, 31)]
    compiled = Compiled(wanted)
    for point in points:
        env = dict(zip(NAMES, point, strict=True))
        expected = [int(w if isinstance(w, int) else w.evaluate(env)) for w in wanted]
        limited = [min(max(e, -(2**62)), 2**62) for e in expected]
        assert compiled(env) == limited, env


@pytest.mark.parametrize("text", ["a // b", "a % b", "(a - b) // c", "(a - b) % (c - 2)"])
def test_division_by_zero_is_zero(text: str) -> None:
    cx = context()
    check([parse_dim(cx, text)], [(7, 0, 0), (0, 0, 2), (3, 7, 2), (0, 1, 0), (3, 7, 1)])
