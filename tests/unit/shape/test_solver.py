"""Decisions: what is proved from ranges and learnt facts, and that the rest stays open."""

from collections.abc import Sequence

import pytest

from pydisc.shape import (
    Guard,
    ShapeContext,
    dim_eq,
    divisible,
    exact_quotient,
    parse_cond,
    product,
    prove_eq,
    prove_ge,
    sizes_hint,
)
from pydisc.support.source import SourceLine

HERE = SourceLine("model.py", 7, "forward")


def context(*facts: str) -> ShapeContext:
    cx = ShapeContext()
    for name, hint in (("B", 2), ("S", 8), ("T", 16), ("H", 64)):
        cx.symbol(name, hint)
    cx.on_guard_source = lambda: HERE
    for fact in facts:
        cx.assume(parse_cond(cx, fact))
    return cx


@pytest.mark.parametrize(
    ("facts", "question", "answer"),
    [
        ((), "S >= 0", True),
        ((), "S >= 1", None),
        ((), "S == -1", False),
        ((), "2*S == 2*T + 1", False),
        ((), "S % 8 >= 0", True),
        ((), "S % 8 <= 7", True),
        ((), "S % 8 <= 6", None),
        ((), "max(S, T) >= S", True),
        ((), "min(S, T) <= T", True),
        ((), "max(S, T) <= S", None),
        ((), "max(S, 3) >= 3", True),
        ((), "ite(S == 1, T, T + 2) >= T", True),
        ((), "S*T >= 0", True),
        ((), "S*T == S", None),
        ((), "(S + 7)//8*8 >= S", True),
        ((), "S + 8 > (S + 7)//8*8", True),
        (("S >= 1",), "S*T >= T", True),
        (("S*T >= 1",), "T >= 1", True),
        (("S != 0",), "S >= 1", True),
        (("S != 1", "S != 0"), "S >= 2", True),
        (("S >= 1", "T >= 1"), "S*T - S - T + 1 >= 0", True),
        (("S == T",), "S*B == B*T", True),
        (("S == T + 1",), "S == T", False),
        (("B*S == T",), "2*B*S*H == T*2*H", True),
        (("S == 8",), "S*T == 8*T", True),
        (("S >= T",), "S + 1 >= T", True),
        (("S >= T",), "T >= S + 1", False),
        (("S < T",), "S == T", False),
        (("S >= T", "T >= S"), "S == T", True),
        (("S == 1 or S == 2",), "S == 1 or S == 2", True),
        (("S == 1 or S == 2",), "S != 1 and S != 2", False),
        (("S % 8 == 0",), "S//8*8 == S", True),
    ],
)
def test_decisions(facts: Sequence[str], question: str, answer: bool | None) -> None:
    assert parse_cond(context(*facts), question).decide() is answer


def test_divisibility_is_learnt() -> None:
    cx = context("S % 8 == 0")
    s, t = cx.symbols["S"], cx.symbols["T"]
    assert cx.facts.divisors == {"S": 8}
    assert divisible(s, 8)
    assert divisible(s * t + 4, 4)
    assert not divisible(s, 16)
    assert not divisible(t, 2)
    assert str(s // 2) == "4*(S//8)"


def test_quotients_that_hold_for_zero_too() -> None:
    cx = context()
    b, s = cx.symbols["B"], cx.symbols["S"]
    assert exact_quotient(b * s * 64, s * 64) is b
    assert exact_quotient(b * s + s, s) is b + 1
    assert exact_quotient(b * s, s * 2) is None
    assert exact_quotient(12, 4) == 3
    assert exact_quotient(b, 0) is None


def test_questions_take_ints_too() -> None:
    cx = context()
    s = cx.symbols["S"]
    assert product([]) == 1
    assert product([2, s, 3]) is 6 * s
    assert sizes_hint((2, s)) == (2, 8)
    assert prove_eq(3, 3)
    assert dim_eq(3, 4) is False
    assert dim_eq(s, 4) is None
    assert prove_ge(s, 0)
    assert not prove_ge(s, 1)
    assert prove_ge(3, 3)


def test_guards_are_recorded_once_with_kind_and_place() -> None:
    cx = context()
    s, t = cx.symbols["S"], cx.symbols["T"]
    assert s.eq(t).guard_bool() is False
    assert t.eq(s).guard_bool() is False
    assert s.ge(4).expect_true() is True
    assert s.ge(4).guard_bool() is True
    assert t.guard_int() == 16
    assert t.guard_int() == 16
    assert s.eq(5).guard_or_false() is False
    assert [(str(g.cond), g.value, g.kind) for g in cx.guards] == [
        (str(s.eq(t)), False, "branch"),
        ("S >= 4", True, "assert"),
        (str(cx.guards[2].cond), True, "specialize"),
    ]
    assert cx.guards[1].where is HERE
    assert cx.guards[2].holds({"T": 16})
    assert "S >= 4  (assert, model.py:7 in forward)" in map(str, cx.guards)


def test_a_conjunction_is_guarded_in_parts() -> None:
    cx = context()
    assert parse_cond(cx, "S == 8 and T == 16").guard_bool() is True
    assert parse_cond(cx, "B == 1 or H == 1").guard_bool() is False
    assert [g.value for g in cx.guards] == [True, True, False, False]


def test_a_demand_that_the_hint_breaks_is_not_recorded() -> None:
    cx = context()
    assert cx.symbols["S"].eq(9).expect_true() is False
    assert cx.guards == []


def test_assuming_what_is_known_to_be_false_is_an_error() -> None:
    cx = context("S >= 3")
    with pytest.raises(ValueError, match="the contrary is known"):
        cx.assume(parse_cond(cx, "S == 1"))
    cx.assume(parse_cond(cx, "S == 1"), False)
    cx.assume(True)
    with pytest.raises(ValueError, match="false"):
        cx.assume(False)


def test_a_guard_is_plain_data() -> None:
    cx = context()
    cond = cx.symbols["S"].eq(8)
    assert Guard(cond, True, "branch", HERE) == Guard(cond, True, "branch", HERE)
