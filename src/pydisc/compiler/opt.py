"""Running passes over the text of a stage."""

from collections.abc import Sequence

from torch_mlir.ir import MLIRError, Module

from pydisc.compiler.pipelines import PASSES, PIPELINES
from pydisc.fusion.apply import fused_module
from pydisc.fusion.graph import Graph
from pydisc.fusion.plan import plan_fusion
from pydisc.ir.context import open_context
from pydisc.ir.passes import Pass, PassContext, run_pipeline
from pydisc.ir.rewriter import main_ops
from pydisc.ir.verify import verify
from pydisc.shape import SymbolTable, facts_of
from pydisc.support import knobs


def run_text(text: str, passes: Sequence[str]) -> str:
    """Parse a dumped stage, verify it, run passes (or pipelines) by name, print it.

    The last name may be `fuse`: plan the kernels and show them as `disc.fusion` regions.

    Raises ValueError if the text does not parse or a name is not known.
    """
    chosen: list[Pass] = []
    fuse = bool(passes) and passes[-1] == "fuse"
    for name in passes[:-1] if fuse else passes:
        if name in PIPELINES:
            chosen += PIPELINES[name]
        elif name in PASSES:
            chosen.append(PASSES[name])
        else:
            known = ", ".join([*PIPELINES, *PASSES])
            raise ValueError(
                f"no pass or pipeline {name!r}; there are {known}, and fuse as the last one"
            )
    with open_context():
        try:
            module = Module.parse(text)
        except MLIRError as error:
            raise ValueError(f"not a stage dump: {error}") from None
        if "func.func @main" not in text:  # kernels: llvm-level code without a graph
            module.operation.verify()
            return str(module)
        fused = any(op.name == "disc.fusion" for op in main_ops(module))
        level = "fused" if fused else "hlo"
        verify(module, level)
        symbols = SymbolTable.read(module)
        cx = PassContext(symbols, knobs.current().verify, facts_of)
        run_pipeline(module, chosen, cx, level)
        if fuse:
            graph = Graph(module, symbols)
            module = fused_module(graph, plan_fusion(graph))
            verify(module, "fused")
        return str(module)
