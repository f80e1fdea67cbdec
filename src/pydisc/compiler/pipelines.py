"""Pass pipelines, as tuples that one can read."""

from pydisc.ir.passes import MlirPasses, Pass
from pydisc.transforms.canonicalize_dot import CanonicalizeDot
from pydisc.transforms.expand_dot import ExpandDot
from pydisc.transforms.fold_constants import FoldConstants
from pydisc.transforms.simplify_layout import SimplifyLayout

OPTIMIZE: tuple[Pass, ...] = (
    FoldConstants(),
    SimplifyLayout(),
    ExpandDot(),
    CanonicalizeDot(),
    SimplifyLayout(),  # the transposes that CanonicalizeDot made meet those that were there
    MlirPasses("cse"),
)
"""hlo to optimized."""

PIPELINES: dict[str, tuple[Pass, ...]] = {"optimize": OPTIMIZE}
PASSES: dict[str, Pass] = {
    p.name: p
    for p in (FoldConstants(), SimplifyLayout(), CanonicalizeDot(), ExpandDot(), MlirPasses())
}
