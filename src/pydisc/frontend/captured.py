"""What a capture is: the module, and how its arguments and results map to Python."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree
from torch_mlir.ir import Module

from pydisc.artifact.view_step import ViewStep
from pydisc.frontend.tracer import ExternSite
from pydisc.shape import Guard, ShapeContext, Size, SymbolTable
from pydisc.support.source import SourceLine


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A tensor argument: its name, which leaf of (args, kwargs) it is, and its declared shape."""

    name: str
    leaf: int
    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter, buffer or other tensor that the function reached by itself."""

    name: str
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A leaf of the result.

    kind "result": number `index` of @main's results; "input", "weight": that tensor itself, by
    number; of each of them `views` in turn. "size": an integer, the expression `value` of the
    symbols; "constant": the Python object `value`.
    """

    kind: str
    index: int = -1
    value: Any = None
    shape: tuple[Size, ...] = ()
    dtype: str = ""
    views: tuple[ViewStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Mutation:
    """An input or weight (`kind`, number `index`) that gets the content of a result afterwards."""

    kind: str
    index: int
    result: int


@dataclass(frozen=True, slots=True)
class InputEquality:
    """Sizes of inputs that the function needs to be equal: the declared shapes say so."""

    text: str
    where: SourceLine


@dataclass(slots=True)
class Capture:
    """A captured function: the module with @main, and how it meets arguments and results."""

    module: Module
    symbols: SymbolTable
    context: ShapeContext
    inputs: list[InputSpec]
    weights: list[Weight]
    outputs: list[OutputSpec]
    out_spec: pytree.TreeSpec
    in_spec: pytree.TreeSpec
    guards: list[Guard]
    constants: dict[int, Any]
    """Leaves of (args, kwargs) that are not tensors: the program holds for these values only."""
    mutations: list[Mutation]
    externs: list[ExternSite]
    op_count: int
    input_equalities: list[InputEquality] = field(default_factory=list)
    needs_dense: frozenset[int] = frozenset()
    """Inputs for which the trace holds only if they have no gaps."""
