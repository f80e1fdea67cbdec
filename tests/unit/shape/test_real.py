"""Floats computed from sizes, and the way back to sizes."""

import math

import pytest

from pydisc.shape import Dim, ShapeContext, parse_cond, parse_dim


@pytest.fixture
def cx() -> ShapeContext:
    cx = ShapeContext()
    cx.symbol("S", 5)
    cx.symbol("T", 3)
    return cx


@pytest.mark.parametrize(
    ("source", "canonical"),
    [
        ("floor(S*2.0)", "2*S"),
        ("floor(S*0.5)", "(S//2)"),
        ("trunc(S*1.5)", "S + (S//2)"),
        ("ceil(S/2)", "S - (S//2)"),
        ("trunc(S/T)", "(S//T)"),
        ("floor(S/0.5)", "2*S"),
        ("round(float(S))", "S"),
        ("floor(2.5)", "2"),
    ],
)
def test_exact_ones_become_integer_arithmetic(
    cx: ShapeContext, source: str, canonical: str
) -> None:
    assert str(parse_dim(cx, source)) == canonical


@pytest.mark.parametrize(
    ("source", "meaning"),
    [
        ("floor(S*1.3)", lambda s, t: math.floor(s * 1.3)),
        ("trunc((S - 4.0)*0.7)", lambda s, t: math.trunc((s - 4.0) * 0.7)),
        ("round(S*0.5)", lambda s, t: round(s * 0.5)),
        ("ceil(sqrt(S)/(T + 1))", lambda s, t: math.ceil(math.sqrt(s) / (t + 1))),
        ("floor(S/T)", lambda s, t: s // t if t else 0),
        ("floor(1000.0*(S/T))", lambda s, t: math.floor(1000.0 * (s / t)) if t else 0),
        ("floor((S - 3.5) % 2.0)", lambda s, t: math.floor((s - 3.5) % 2.0)),
        ("floor(max(S*0.3, T*0.7))", lambda s, t: math.floor(max(s * 0.3, t * 0.7))),
        ("floor(S**0.5)", lambda s, t: math.floor(s**0.5)),
        ("trunc((S - 4.0)**0.5)", lambda s, t: math.trunc((s - 4.0) ** 0.5) if s >= 4 else 0),
    ],
)
def test_values_bounds_and_text(cx: ShapeContext, source: str, meaning: object) -> None:
    size = parse_dim(cx, source)
    assert isinstance(size, Dim)
    assert parse_dim(cx, str(size)) is size
    for s in range(9):
        for t in range(4):
            value = size.evaluate({"S": s, "T": t})
            assert value == meaning(s, t)  # type: ignore[operator]
            assert size.lo <= value <= size.hi


def test_comparisons_are_decided_by_ranges_and_guarded_otherwise(cx: ShapeContext) -> None:
    assert parse_cond(cx, "S*0.5 >= 0.0").decide() is True
    assert parse_cond(cx, "S*0.5 < -1.0").decide() is False
    open_one = parse_cond(cx, "S*0.5 < 2.0")
    assert open_one.decide() is None
    assert open_one.guard_bool() is False
    assert open_one.decide() is False
    assert [str(g.cond) for g in cx.guards] == ["(float(S) * 0.5) < 2.0"]
    assert parse_cond(cx, str(open_one)) is open_one


def test_a_float_used_as_a_number_is_a_specialisation(cx: ShapeContext) -> None:
    ratio = cx.symbols["S"].int_truediv(cx.symbols["T"])
    assert ratio.guard_float() == 5 / 3
    (guard,) = cx.guards
    assert guard.kind == "specialize"
    assert guard.holds({"S": 10, "T": 6})
    assert not guard.holds({"S": 10, "T": 5})
