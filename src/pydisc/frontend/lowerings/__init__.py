"""One rule for each aten overload, by family. `rule_of(name)` finds it."""

from pydisc.frontend.lowerings import (
    activations,
    attention,
    elementwise,
    factory,
    indexing,
    layout,
    linalg,
    normalization,
    reduce,
    scan,
)
from pydisc.frontend.lowerings.context import LoweringContext
from pydisc.frontend.lowerings.registry import covered, lowering, rule_of

__all__ = [
    "LoweringContext",
    "activations",
    "attention",
    "covered",
    "elementwise",
    "factory",
    "indexing",
    "layout",
    "linalg",
    "lowering",
    "normalization",
    "reduce",
    "rule_of",
    "scan",
]
