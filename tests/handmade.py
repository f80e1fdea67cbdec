"""Modules written with the Builder, compiled without a trace: for tests of the rooms below it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.utils._pytree as pytree
from torch_mlir.dialects import func
from torch_mlir.ir import FunctionType, InsertionPoint, Module, TypeAttr

from pydisc.codegen.cpu.host_target import detect_cpu_target
from pydisc.compiler.compile import schedule_region
from pydisc.compiler.lower_cpu import CpuLowering
from pydisc.frontend import Capture, InputSpec, Weight
from pydisc.fusion.graph import Graph
from pydisc.fusion.plan import FusionPlan, plan_fusion
from pydisc.ir.builder import Builder, Value
from pydisc.ir.context import open_context
from pydisc.ir.types import tensor_type
from pydisc.ir.verify import verify
from pydisc.runtime.loaded_program import LoadedProgram
from pydisc.shape import ShapeContext, SymbolTable

Spec = tuple[Sequence[int | str], str]
"""Shape (a str is a symbol) and dtype of an input."""
Body = Callable[..., Sequence[Value]]


@dataclass
class Handmade:
    """A module with the context of its sizes."""

    module: Module
    symbols: SymbolTable
    shapes: list[tuple[object, ...]]
    inputs: Sequence[Spec]
    weights: Sequence[torch.Tensor]

    def graph(self) -> Graph:
        return Graph(self.module, self.symbols)


@contextmanager
def handmade(
    inputs: Sequence[Spec], body: Body, weights: Sequence[torch.Tensor] = ()
) -> Iterator[Handmade]:
    """A verified module: `@main` takes inputs and f32 weights, returns what `body` gives."""
    with open_context():
        cx = ShapeContext()
        symbols = SymbolTable(cx)
        shapes = [
            tuple(cx.symbol(s, 4) if isinstance(s, str) else s for s in shape)
            for shape, _ in inputs
        ]
        shapes += [tuple(w.shape) for w in weights]
        dtypes = [dtype for _, dtype in inputs] + ["f32"] * len(weights)
        types = [
            tensor_type(
                tuple(s if isinstance(s, int) else symbols.name_of(s) for s in shape), dtype
            )
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
        module = Module.create()
        with InsertionPoint(module.body):
            main = func.FuncOp("main", (types, []))
        block = main.add_entry_block()
        b = Builder(block, symbols)
        values = [Value(a, s, d) for a, s, d in zip(block.arguments, shapes, dtypes, strict=True)]
        results = list(body(b, *values))
        b.returns(results)
        kind = FunctionType.get(types, [r.mlir.type for r in results])
        main.attributes["function_type"] = TypeAttr.get(kind)
        symbols.write(module)
        verify(module, "hlo")
        yield Handmade(module, symbols, shapes, inputs, weights)


def plan_of(inputs: Sequence[Spec], body: Body, weights: Sequence[torch.Tensor] = ()) -> FusionPlan:
    """The fusion plan of a handmade module."""
    with handmade(inputs, body, weights) as made:
        return plan_fusion(made.graph())


def load(inputs: Sequence[Spec], body: Body, weights: Sequence[torch.Tensor] = ()) -> LoadedProgram:
    """Plan, schedule, compile and load a handmade module."""
    with handmade(inputs, body, weights) as made:
        graph = made.graph()
        target = detect_cpu_target()
        packed = frozenset(graph.arguments[len(inputs) :])
        regions = [schedule_region(r, target, packed) for r in plan_fusion(graph).regions]
        specs = [
            InputSpec(f"x{i}", i, dtype, made.shapes[i]) for i, (_, dtype) in enumerate(inputs)
        ]
        _, leaf = pytree.tree_flatten(None)  # the caller hands over flat tensors
        capture = Capture(
            module=made.module,
            symbols=made.symbols,
            context=made.symbols.cx,
            inputs=specs,
            weights=[Weight(f"w{i}", w) for i, w in enumerate(weights)],
            outputs=[],
            out_spec=leaf,
            in_spec=leaf,
            guards=[],
            constants={},
            mutations=[],
            externs=[],
            op_count=len(graph.nodes),
        )
        program, _ = CpuLowering(capture, graph, regions, target).lower()
        return LoadedProgram(program, list(weights))
