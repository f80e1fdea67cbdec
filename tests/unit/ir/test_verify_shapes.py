"""What the dialect `disc_shape` demands of its ops, and what breaking it says."""

import pytest
from torch_mlir.ir import Module

from pydisc.ir.context import open_context
from pydisc.ir.verify_shapes import verify_shapes
from pydisc.support.errors import InternalError


def symbols_of(text: str) -> set[str]:
    with open_context():
        return verify_shapes(Module.parse(text))


def symbol(attributes: str) -> str:
    return f'"disc_shape.symbolic_dim"() {{{attributes}}} : () -> ()\n'


A, B = symbol('sym_name = "A"'), symbol('sym_name = "B"')
DIMS = """
  %a = "disc_shape.dim"() {symbol = @A} : () -> index
  %b = "disc_shape.dim"() {symbol = @B} : () -> index
"""


def graph(body: str) -> str:
    return f"func.func private @shape_constraint_graph() {{\n{body}\nreturn\n}}\n"


def test_the_symbols_of_a_sound_module() -> None:
    rich = 'sym_name = "C", min = 1, max = 8, divisor = 2, likely_values = [4], name = "x.shape[0]"'
    ties = """
      "disc_shape.tie_predicate_eq"(%a, %b) : (index, index) -> ()
      "disc_shape.tie_predicate_group_mul_eq"(%a, %b, %a, %b)
        {lhs_groups = array<i64: 1, 1>, rhs_groups = array<i64: 1, 1>,
         operandSegmentSizes = array<i32: 2, 2>} : (index, index, index, index) -> ()
    """
    assert symbols_of(A + B + symbol(rich) + graph(DIMS + ties)) == {"A", "B", "C"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (symbol('sym_name = "1x"'), "needs an identifier"),
        (symbol('sym_name = "A", min = 3, max = 2'), "min 3 is above max 2"),
        (symbol('sym_name = "A", divisor = 0'), "divisor 0 is not positive"),
        (symbol('sym_name = "A", size = 3'), "size = 3 : i64 means nothing"),
        (symbol('sym_name = "A", min = "3"'), 'min = "3" means nothing'),
        (symbol('sym_name = "A", likely_values = 3'), "likely_values = 3 : i64 means nothing"),
        (A + graph(DIMS), "@B is not declared"),
        (
            A + B + graph(DIMS + '"disc_shape.tie_predicate_divisible"(%a) : (index) -> ()'),
            "needs an integer as its divisor",
        ),
        (
            A + B + graph(
                DIMS + '"disc_shape.tie_predicate_divisible"(%a) {divisor = 0} : (index) -> ()'
            ),
            "is not positive",
        ),
        (
            A + B + graph(
                DIMS
                + '"disc_shape.tie_predicate_group_mul_eq"(%a, %b) {lhs_groups = array<i64: 2>, '
                "rhs_groups = array<i64: 1>, operandSegmentSizes = array<i32: 1, 1>}"
                " : (index, index) -> ()"
            ),
            "do not divide",
        ),
        (
            A + B + graph(
                DIMS
                + '"disc_shape.tie_predicate_affine_eq"(%a, %b) {map = affine_map<() -> (1)>, '
                "operandSegmentSizes = array<i32: 1, 1>} : (index, index) -> ()"
            ),
            "gives 1 sizes to",
        ),
        (A + B + graph("%c = arith.constant 1 : index\n%d = arith.addi %c, %c : index"), "meaning"),
        (
            A + B + "func.func @main() {" + DIMS
            + '"disc_shape.tie_predicate_eq"(%a, %b) : (index, index) -> ()\nreturn\n}',
            "stands outside of",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(InternalError, match=message.replace("[", r"\[")):
        symbols_of(text)
