"""max and min: canonical forms, and what is known of them."""

import itertools

import pytest

from pydisc.shape import Dim, ShapeContext, parse_cond, parse_dim, prove_eq, size_min


@pytest.fixture
def cx() -> ShapeContext:
    cx = ShapeContext()
    for name, low in (("s", 0), ("t", 0), ("any", -2)):
        cx.symbol(name, 4, lo=low)
    return cx


@pytest.mark.parametrize(
    ("text", "simpler"),
    [
        ("min(s, 1)*s", "s"),
        ("min(s, 1)*min(s, 1)", "min(s, 1)"),
        ("min(s, 1)*s*t + t", "s*t + t"),
        ("min(s*t, 1)*s*t*t", "s*t*t"),
        ("min(any, 1)*any", "min(any, 1)*any"),
        ("min(s, 2)*s", "min(s, 2)*s"),
        ("max(max(s - 1, 0) - 1, 0)", "max(s - 2, 0)"),
        ("min(min(s, 5) + 1, 4)", "min(s + 1, 4)"),
        ("max(max(s, 5), 3)", "max(s, 5)"),
    ],
)
def test_canonical_forms(cx: ShapeContext, text: str, simpler: str) -> None:
    found, wanted = parse_dim(cx, text), parse_dim(cx, simpler)
    assert found is wanted
    for s, t, any_ in itertools.product(range(4), range(4), range(-2, 3)):
        env = {"s": s, "t": t, "any": any_}
        python = eval(text, {"min": min, "max": max}, env)
        assert isinstance(found, Dim)
        assert found.evaluate(env) == python


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("min(s, 512) == s", "s <= 512"),
        ("max(s, t) == t", "s <= t"),
        ("min(s, 1) == 1", "s >= 1"),
        ("3*max(s, 2) == 6", "s <= 2"),
    ],
)
def test_being_an_argument_is_an_inequality(cx: ShapeContext, text: str, same: str) -> None:
    assert parse_cond(cx, text) is parse_cond(cx, same)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("s >= 1 or s <= 1", True),
        ("s >= 3 or s <= 1", None),
        ("s >= 3 and s <= 2", False),
        ("s >= t or s < t", True),
        ("min(s, 1) == 1 or s <= 1", True),
        ("s - min(s, 1) == max(s - 1, 0)", True),
        ("s - max(s - 3, 0) == min(s, 3)", True),
        ("s - min(s, t) == max(s - t, 0)", True),
        ("s - min(s, 1) == max(s - 2, 0)", None),
    ],
)
def test_what_is_decided(cx: ShapeContext, text: str, answer: bool | None) -> None:
    assert parse_cond(cx, text).decide() is answer


def test_a_guard_on_a_minimum_is_of_use_afterwards(cx: ShapeContext) -> None:
    s = cx.symbols["s"]
    cut = size_min(s, 512)
    assert not prove_eq(cut, s)
    cx.assume(parse_cond(cx, "min(s, 512) == s"))
    assert prove_eq(cut, s)
    assert size_min(s, 512) is s
