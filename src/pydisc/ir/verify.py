"""Verifiers: MLIR's own, and what each level promises beyond it.

hlo: one `@main`; every dynamic dim carries a declared symbol; element-wise operands agree in their
symbols. fused: moreover every data op is inside a `disc.fusion` or a `disc.extern`.
"""

from typing import Any

from torch_mlir.ir import MLIRError, Module, Operation, RankedTensorType

from pydisc.ir.dialects import DISC_OPS
from pydisc.ir.rewriter import main_function
from pydisc.ir.types import shape_of
from pydisc.ir.verify_shapes import verify_shapes
from pydisc.support.errors import InternalError

_SAME_SHAPE = frozenset(
    "add subtract multiply divide maximum minimum power remainder and or xor abs negate "
    "exponential log sqrt rsqrt tanh logistic sine cosine floor ceil sign not compare "
    "convert".split()
)
_SHAPE_OPS = ("arith.", "tensor.from_elements", "disc_shape.", "func.")


def verify(m: Module, level: str) -> None:
    """Raise InternalError if the module is not what its level promises."""
    try:
        m.operation.verify()
    except MLIRError as error:
        raise InternalError(f"invalid IR at level {level}: {error}") from error
    symbols = verify_shapes(m)
    main = main_function(m)
    for argument in main.regions[0].blocks[0].arguments:
        _check_type(argument.type, symbols, "an argument of @main")
    for op in main.regions[0].blocks[0].operations:
        if level == "fused":
            _check_fused(op.operation)
        _check_op(op.operation, symbols)


def _check_op(op: Operation, symbols: set[str]) -> None:
    if op.name.startswith("disc."):
        _check_disc(op)
    for result in op.results:
        _check_type(result.type, symbols, op.name)
    short = op.name.split(".", 1)[1]
    if op.name.startswith("stablehlo.") and short in _SAME_SHAPE:
        wanted = shape_of(op.result.type)
        for operand in op.operands:
            if shape_of(operand.type) != wanted:
                raise InternalError(
                    f"symbols of {op.name} disagree: {operand.type} and {op.result.type} "
                    f"at {op.location}"
                )
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _check_op(inner.operation, symbols)


def _check_disc(op: Operation) -> None:
    known = DISC_OPS.get(op.name)
    if known is None:
        raise InternalError(f"there is no op {op.name}")
    for name in known.attributes:
        if name not in op.attributes:
            raise InternalError(f"{op.name} lacks the attribute {name}")
    wrong_results = known.results is not None and bool(len(op.results)) != known.results
    if len(op.regions) != known.regions or wrong_results:
        raise InternalError(f"{op.name} has {len(op.regions)} regions, {len(op.results)} results")
    if op.name == "disc.fusion":
        block = op.regions[0].blocks[0]
        last = block.operations[len(block.operations) - 1]
        if last.operation.name != "disc.yield":
            raise InternalError("the body of a disc.fusion does not end in disc.yield")
        given, wanted = [v.type for v in last.operands], [v.type for v in op.results]
        if given != wanted:
            raise InternalError(f"disc.fusion yields {given}, its results are {wanted}")
        given, wanted = [v.type for v in op.operands], [v.type for v in block.arguments]
        if given != wanted:
            raise InternalError(f"disc.fusion takes {given}, its body {wanted}")


def _check_type(type_: Any, symbols: set[str], what: str) -> None:
    if not isinstance(type_, RankedTensorType) or str(type_.element_type) == "index":
        return
    try:
        names = shape_of(type_)
    except ValueError as error:
        raise InternalError(f"{what}: {error}") from error
    for name in names:
        if isinstance(name, str) and name not in symbols:
            raise InternalError(f"{what}: symbol @{name} is not declared")


def _check_fused(op: Operation) -> None:
    name = op.name
    if name in ("disc.fusion", "disc.call", "disc.extern") or name.startswith(_SHAPE_OPS):
        return
    raise InternalError(f"{name} is outside of any kernel")
