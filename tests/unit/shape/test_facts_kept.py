"""A pass may learn about sizes; it may not forget or contradict."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from torch_mlir.ir import Module

from pydisc.ir.context import open_context
from pydisc.ir.passes import Pass, PassContext, run_pipeline
from pydisc.shape import ShapeContext, SymbolTable, facts_of, parse_cond
from pydisc.support.errors import InternalError

MAIN = """
func.func @main(%x: tensor<?xf32, [@A]>) -> tensor<?xf32, [@A]> {
  return %x : tensor<?xf32, [@A]>
}"""


@pytest.fixture(autouse=True)
def _mlir() -> Iterator[None]:
    with open_context():
        yield


def module(*facts: str, low: int = 0, symbols: str = "ABC", derived: str = "") -> Module:
    cx = ShapeContext()
    for name in symbols:
        cx.symbol(name, 4, lo=low)
    for fact in facts:
        cx.assume(parse_cond(cx, fact))
    table = SymbolTable(cx)
    if derived:
        table.name_of(cx.symbols["A"] * 2 + (1 if derived == "odd" else 0))
    made = Module.parse(MAIN.replace("[@A]", "[@D0]") if derived else MAIN)
    table.write(made)
    return made


FACTS = ("A*B == C", "C % 8 == 0", "B != 3", "A <= C")


def test_the_same_and_more_is_kept() -> None:
    check = facts_of(module(*FACTS))
    check(module(*FACTS))
    check(module(*FACTS, "A >= 2", "B == C"))
    check(module(*reversed(FACTS), low=1))


@pytest.mark.parametrize("fact", FACTS)
def test_a_dropped_fact(fact: str) -> None:
    check = facts_of(module(*FACTS))
    with pytest.raises(InternalError, match="was dropped"):
        check(module(*(f for f in FACTS if f != fact)))


def test_a_contradicted_fact() -> None:
    check = facts_of(module("A == B"))
    with pytest.raises(InternalError, match="the fact 'B == A' was contradicted"):
        check(module("A + 1 == B"))


def test_a_dropped_symbol_and_a_wider_range() -> None:
    check = facts_of(module(low=1))
    with pytest.raises(InternalError, match="@C was dropped"):
        check(module(low=1, symbols="AB"))
    with pytest.raises(
        InternalError, match=r"the range \[1, inf\] of @A was widened to \[0, inf\]"
    ):
        check(module())


def test_a_name_with_another_meaning() -> None:
    check = facts_of(module(derived="even"))
    with pytest.raises(InternalError, match=r"@D0 was '2\*A' and is '2\*A \+ 1'"):
        check(module(derived="odd"))


def test_facts_that_cannot_hold_together() -> None:
    made = module("A == B", "B >= 4")
    text = str(made).replace("min = 4 : i64", "max = 9 : i64, min = 4 : i64")
    a, b = '{likely_values = [4], min = 0 : i64, sym_name = "A"}', '{max = 3 : i64, sym_name = "A"}'
    assert a in text
    with pytest.raises(InternalError, match="what the module says of its sizes cannot be"):
        facts_of(made)(Module.parse(text.replace(a, b)))


@dataclass(frozen=True)
class Forget(Pass):
    """Write the module's sizes anew, as a pass may, with less or more than there was."""

    name: ClassVar[str] = "forget"

    def run(self, m: Module, cx: PassContext) -> bool:
        table = SymbolTable(ShapeContext())
        for name in "ABC":
            table.cx.symbol(name, 4)
        table.write(m)
        return True


@dataclass(frozen=True)
class Learn(Pass):
    """Load, add, save."""

    name: ClassVar[str] = "learn"

    def run(self, m: Module, cx: PassContext) -> bool:
        table = SymbolTable.read(m)
        table.cx.assume(parse_cond(table.cx, "B == 2*A"))
        table.write(m)
        return True


@pytest.mark.parametrize("level", [1, 2])
def test_a_pass_that_forgets_fails_verification(level: int) -> None:
    def run(one: Callable[[], Pass]) -> Module:
        made = module("A*B == C")
        cx = PassContext(SymbolTable.read(made), level, facts_of)
        run_pipeline(made, (one(),), cx, "hlo")
        return made

    with pytest.raises(InternalError, match=r"the fact 'C == A\*B' was dropped"):
        run(Forget)
    assert "tie_predicate_group_mul_eq" in str(run(Learn))
