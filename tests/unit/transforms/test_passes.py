"""Passes: running one twice is running it once."""

from pathlib import Path

import pytest
from torch_mlir.ir import Module

from pydisc.ir.context import open_context
from pydisc.ir.passes import Pass, PassContext, run_pipeline
from pydisc.shape import SymbolTable
from pydisc.transforms.canonicalize_dot import CanonicalizeDot
from pydisc.transforms.fold_constants import FoldConstants
from pydisc.transforms.simplify_layout import SimplifyLayout

GOLDEN = Path(__file__).parents[2] / "golden" / "transforms"


@pytest.mark.parametrize("one", [CanonicalizeDot(), FoldConstants(), SimplifyLayout()], ids=str)
def test_a_second_run_changes_nothing(one: Pass) -> None:
    text = (GOLDEN / f"{one.name.replace('-', '_')}.mlir").read_text(encoding="utf-8")
    with open_context():
        module = Module.parse(text)
        cx = PassContext(SymbolTable.read(module), verify_level=2)
        run_pipeline(module, [one], cx, "hlo")
        assert cx.counts == {one.name: 1}
        after = str(module)
        assert not one.run(module, cx)
        assert str(module) == after
