"""Sizes: their algebra, what is known of them, and the Shape Constraint IR that says so.

A static size is a Python int; a symbolic one is a `Dim`; `Size` is either. Sizes may be 0, and
every decision here holds for 0 too. The room knows MLIR (for the IR) but not torch: a Dim only has
the methods that torch asks of what stands behind a `torch.SymInt`.
"""

from pydisc.shape.cond import Cond, Guard
from pydisc.shape.constraint_ir import SymbolTable
from pydisc.shape.context import ShapeContext
from pydisc.shape.declared import DeclaredDim, DeclaredDims, DimExpression
from pydisc.shape.dim import Atom, Dim, Size, unwrap
from pydisc.shape.expression import parse_cond, parse_dim
from pydisc.shape.facts_kept import facts_of
from pydisc.shape.interval import INF
from pydisc.shape.questions import (
    dim_eq,
    divisible,
    exact_quotient,
    product,
    prove_eq,
    prove_ge,
    size_hint,
    size_max,
    size_min,
    sizes_hint,
)
from pydisc.shape.real import Real

__all__ = [
    "INF",
    "Atom",
    "Cond",
    "DeclaredDim",
    "DeclaredDims",
    "Dim",
    "DimExpression",
    "Guard",
    "Real",
    "ShapeContext",
    "Size",
    "SymbolTable",
    "dim_eq",
    "divisible",
    "exact_quotient",
    "facts_of",
    "parse_cond",
    "parse_dim",
    "product",
    "prove_eq",
    "prove_ge",
    "size_hint",
    "size_max",
    "size_min",
    "sizes_hint",
    "unwrap",
]
