"""What would crash MLIR is an error here."""

from collections.abc import Iterator

import pytest
from torch_mlir.ir import Module, Operation

from pydisc.ir.context import open_context
from pydisc.ir.rewriter import Rewriter, defining_op, main_ops
from pydisc.support.errors import InternalError

TEXT = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf64>) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


@pytest.fixture
def module() -> Iterator[Module]:
    with open_context():
        yield Module.parse(TEXT)


def ops(module: Module) -> dict[str, Operation]:
    return {op.name: op for op in main_ops(module)}


def test_erasing_a_used_op_is_refused(module: Module) -> None:
    rw = Rewriter(module)
    with pytest.raises(InternalError, match="in use"):
        rw.erase(ops(module)["stablehlo.negate"])
    assert rw.changes == 0
    module.operation.verify()


def test_replacing_with_another_type_is_refused(module: Module) -> None:
    op = ops(module)["stablehlo.negate"]
    y = op.parent.regions[0].blocks[0].arguments[1]
    with pytest.raises(InternalError, match="replaced by"):
        Rewriter(module).replace(op, [y])


def test_replacing_with_too_few_values_is_refused(module: Module) -> None:
    with pytest.raises(InternalError, match="1 results, 0 given"):
        Rewriter(module).replace(ops(module)["stablehlo.tanh"], [])


def test_a_replacement(module: Module) -> None:
    rw = Rewriter(module)
    op = ops(module)["stablehlo.tanh"]
    made = rw.create("stablehlo.abs", [op.operands[0]], [op.result.type], before=op)
    rw.replace(op, [made.result])
    assert list(ops(module)) == ["stablehlo.negate", "stablehlo.abs", "func.return"]
    assert rw.changes == 2
    module.operation.verify()


def test_the_op_behind_a_value(module: Module) -> None:
    tanh, negate = ops(module)["stablehlo.tanh"], ops(module)["stablehlo.negate"]
    assert defining_op(tanh.operands[0]) == negate
    assert defining_op(negate.operands[0]) is None
