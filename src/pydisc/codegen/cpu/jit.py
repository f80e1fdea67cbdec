"""MLIR text to an x86-64 or AArch64 relocatable object, by MLIR's own execution engine."""

import ctypes
import tempfile
from collections import Counter
from pathlib import Path

from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.ir import MLIRError, Module, Operation, OpView, WalkResult
from torch_mlir.passmanager import PassManager  # pyright: ignore[reportAttributeAccessIssue]

from pydisc.ir.context import open_context
from pydisc.support.errors import InternalError

PIPELINE = (
    "builtin.module(func.func(canonicalize,cse),convert-scf-to-cf,"
    "convert-math-to-llvm,convert-math-to-libm,convert-vector-to-llvm,convert-arith-to-llvm,"
    "convert-index-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"
)
"""Lowers arith, math, vector, scf and func to the llvm dialect.

Math becomes LLVM intrinsics (floor, sqrt: instructions; exp: libm) before the rest, as erf, becomes
libm calls, which takes vectors apart and so comes before the vector dialect. LLVM's own optimiser
adds nothing afterwards: the emitters write loops as they should run.
"""

_PLACEHOLDER = ctypes.c_void_p(16)


def compile_to_object(mlir_text: str) -> bytes:
    """Compile a module in the dialects func, scf, arith, math, vector and llvm for this machine.

    Public functions become symbols of the object under their own names, with the plain C calling
    convention. Functions that are only declared are resolved when the object is loaded. No
    function may have the name of a libm function, which the lowering declares as it needs them.
    """
    with open_context():
        try:
            module = Module.parse(mlir_text)
            PassManager.parse(PIPELINE).run(module.operation)
        except MLIRError as error:
            raise InternalError(f"generated CPU code is not valid MLIR: {error}") from error
        return lowered_to_object(module)


def lowered_to_object(module: Module) -> bytes:
    """Compile a module that holds nothing but the llvm dialect."""
    leftovers = _leftovers(module)
    if leftovers:
        # The translation to LLVM IR would end the process instead of raising.
        names = ", ".join(f"{name} x{count}" for name, count in leftovers.items())
        raise InternalError(f"generated CPU code was not lowered completely: {names}")
    functions = [op for op in module.body.operations if op.operation.name == "llvm.func"]
    public = [_name(op) for op in functions if _is_defined(op) and not _is_internal(op)]
    if not public:
        raise InternalError("generated CPU code has no public function")
    engine = ExecutionEngine(module, opt_level=0)
    # The engine links before it writes the object; the addresses do not get into the object.
    for op in functions:
        if not _is_defined(op):
            engine.raw_register_runtime(_name(op), _PLACEHOLDER)
    # Without this the dump asks for every function by name, and internal ones cannot be found.
    if not engine.raw_lookup(public[0]):
        raise InternalError("generated CPU code calls an undeclared function; stderr names it")
    with tempfile.TemporaryDirectory(prefix="pydisc-") as directory:
        path = Path(directory) / "kernels.o"
        engine.dump_to_object_file(str(path))
        return path.read_bytes()


def _name(function: OpView) -> str:
    return function.attributes["sym_name"].value


def _is_defined(function: OpView) -> bool:
    return bool(len(function.regions[0].blocks))


def _is_internal(function: OpView) -> bool:
    return "internal" in str(function.attributes["linkage"])


def _leftovers(module: Module) -> Counter[str]:
    found: Counter[str] = Counter()

    def visit(op: Operation) -> WalkResult:
        if not op.name.startswith("llvm.") and op.name != "builtin.module":
            found[op.name] += 1
        return WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
