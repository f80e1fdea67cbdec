"""Symbols and facts in a module."""

from collections.abc import Iterator

import pytest
from torch_mlir.ir import Module

from pydisc.ir.context import open_context
from pydisc.shape import INF, ShapeContext, SymbolTable, parse_cond, parse_dim, prove_eq
from pydisc.support.errors import InternalError


@pytest.fixture(autouse=True)
def _mlir() -> Iterator[None]:
    with open_context():
        yield


def table(*facts: str) -> SymbolTable:
    cx = ShapeContext()
    cx.symbol("B", 2)
    cx.symbol("S", 8, lo=1, hi=512)
    cx.symbol("T", 16)
    for fact in facts:
        cx.assume(parse_cond(cx, fact))
    return SymbolTable(cx)


def written(symbols: SymbolTable, source: str = "") -> Module:
    module = Module.parse(source)
    symbols.write(module)
    assert module.operation.verify()
    return module


def test_names() -> None:
    symbols = table()
    s = symbols.cx.symbols["S"]
    symbols.cx.symbol("D1", 3)
    assert symbols.name_of(s) == "S"
    assert symbols.name_of(s + 1) == "D0"
    assert symbols.name_of(s * 2) == "D2"
    assert symbols.name_of(1 + s) == "D0"
    assert symbols.dim_of("D2") is 2 * s
    assert symbols.dim_of("S") is s
    assert "D0" in symbols
    assert "D9" not in symbols
    with pytest.raises(KeyError):
        symbols.dim_of("D9")


def test_symbols_stand_at_the_top_in_order_and_writing_twice_changes_nothing() -> None:
    symbols = table("T % 8 == 0")
    symbols.name_of(symbols.cx.dim(parse_dim(symbols.cx, "B*S + 1")))
    module = written(symbols, "func.func @main() { return }")
    names = [op.operation.name for op in module.body.operations]
    assert names == ["disc_shape.symbolic_dim"] * 4 + ["func.func"] * 2
    text = str(module)
    assert '{divisor = 8 : i64, likely_values = [16], min = 0 : i64, sym_name = "T"}' in text
    assert '{likely_values = [8], max = 512 : i64, min = 1 : i64, sym_name = "S"}' in text
    assert '{expr = "B*S + 1", max' not in text
    symbols.write(module)
    assert str(module) == text


@pytest.mark.parametrize(
    ("fact", "op"),
    [
        ("B == T", "tie_predicate_eq"),
        ("B + 1 == T", "tie_predicate_eq"),
        ("B*S == T", "tie_predicate_mul_eq"),
        ("4*B == T*S", "tie_predicate_mul_eq"),
        ("B < T", "tie_predicate_lt"),
        ("B*B + 3 <= S*T", "tie_predicate_lt"),
        ("T % 8 == 0", "tie_predicate_divisible"),
        ("(S + T) % 3 == 0", "tie_predicate_divisible"),
        ("T >= 4", "min = 4"),
        ("B != 0", "min = 1"),
        ("B != 2", 'disc_shape.facts = ["B != 2"]'),
        ("B == 2 or T == 16", "disc_shape.facts"),
        ("floor(T*0.3) == 4", "tie_predicate_eq"),
        ("T*0.3 < 5.0", "disc_shape.facts"),
    ],
)
def test_facts_are_written_and_read_back(fact: str, op: str) -> None:
    module = written(table(fact))
    text = str(module)
    assert op in text
    again = SymbolTable.read(module)
    assert parse_cond(again.cx, fact).decide() is True
    again.write(module)
    assert str(module) == text


def test_products_that_were_learnt_together_are_one_tie() -> None:
    facts = ("B*S == T", "B*B == 3*T")
    module = written(table(*facts))
    text = str(module)
    assert text.count("tie_predicate_group_mul_eq") == 1
    assert "tie_predicate_mul_eq" not in text
    again = SymbolTable.read(module)
    assert all(parse_cond(again.cx, fact).decide() is True for fact in facts)
    again.write(module)
    assert str(module) == text


def test_labels_are_read_back() -> None:
    symbols = table()
    b, s = symbols.cx.symbols["B"], symbols.cx.symbols["S"]
    symbols.label("ids", (b, s, 4, b + s))
    symbols.label("mask", (s, b))
    again = SymbolTable.read(written(symbols))
    assert again.labels == {"B": "ids.shape[0]", "S": "ids.shape[1]"}


def test_ranges_and_hints_are_read_back() -> None:
    again = SymbolTable.read(written(table()))
    s, t = again.cx.symbols["S"], again.cx.symbols["T"]
    assert (s.lo, s.hi, s.hint) == (1, 512, 8)
    assert (t.lo, t.hi, t.hint) == (0, INF, 16)


def test_derived_sizes_are_read_back() -> None:
    symbols = table()
    cx = symbols.cx
    texts = ["2*B*S", "(T + 7)//8", "max(S, T) - 1", "ite(B == 1, S, T)", "floor(T*1.3)"]
    names = [symbols.name_of(cx.dim(parse_dim(cx, t))) for t in texts]
    again = SymbolTable.read(written(symbols))
    for name in names:
        assert str(again.dim_of(name)) == str(symbols.dim_of(name))


def test_a_linear_derived_size_has_an_affine_tie() -> None:
    symbols = table()
    symbols.name_of(2 * symbols.cx.symbols["S"] + 1)
    assert "affine_map<(d0) -> (d0 * 2 + 1)>" in str(written(symbols))


def test_a_hand_written_module_needs_only_symbols_and_ties() -> None:
    symbols = SymbolTable.read(
        Module.parse("""
          "disc_shape.symbolic_dim"() {sym_name = "A"} : () -> ()
          "disc_shape.symbolic_dim"() {sym_name = "N", min = 1, divisor = 4} : () -> ()
          func.func private @shape_constraint_graph() {
            %a = "disc_shape.dim"() {symbol = @A} : () -> index
            %n = "disc_shape.dim"() {symbol = @N} : () -> index
            "disc_shape.tie_predicate_affine_eq"(%a, %n)
              {map = affine_map<(d0) -> (d0 floordiv 4 * 2 + d0 mod 2 + 1)>,
               operandSegmentSizes = array<i32: 1, 1>} : (index, index) -> ()
            return
          }""")
    )
    a, n = symbols.cx.symbols["A"], symbols.cx.symbols["N"]
    assert n.lo == 1
    assert prove_eq(a, n // 2 + 1)


def test_what_has_no_meaning_in_the_graph_is_an_internal_error() -> None:
    module = Module.parse("""
      func.func private @shape_constraint_graph() {
        %a = arith.constant 1 : index
        %b = arith.addi %a, %a : index
        return
      }""")
    with pytest.raises(InternalError, match=r"arith\.addi"):
        SymbolTable.read(module)
