"""The plan as IR: every data op inside a `disc.fusion` (one a region) or a `disc.extern`."""

from torch_mlir.dialects import func
from torch_mlir.ir import (
    Block,
    FunctionType,
    InsertionPoint,
    Module,
    Operation,
    StringAttr,
    TypeAttr,
)
from torch_mlir.ir import Value as MlirValue

from pydisc.fusion.graph import FREE, Graph, Node
from pydisc.fusion.plan import FusionPlan, Region


def fused_module(graph: Graph, plan: FusionPlan) -> Module:
    """A new module, in the same context, with the regions of the plan in their order."""
    module = Module.create()
    with InsertionPoint(module.body):
        for op in graph.module.body.operations:
            if op.operation.name == "disc_shape.symbolic_dim":
                op.operation.clone()
        for op in graph.module.body.operations:
            if (
                op.operation.name != "disc_shape.symbolic_dim"
                and op.operation != graph.main.operation
            ):
                op.operation.clone()
        kind = FunctionType(TypeAttr(graph.main.attributes["function_type"]).value)
        main = func.FuncOp("main", kind)
    for named in ("arg_attrs", "res_attrs"):
        if named in graph.main.attributes:
            main.attributes[named] = graph.main.attributes[named]
    _Writer(graph, main.add_entry_block()).write(plan)
    return module


class _Writer:
    def __init__(self, graph: Graph, block: Block) -> None:
        self.graph = graph
        self.block = block
        self.shapes: dict[MlirValue, MlirValue] = {}
        self.memory: dict[int, MlirValue] = dict(zip(graph.arguments, block.arguments, strict=True))

    def write(self, plan: FusionPlan) -> None:
        with InsertionPoint(self.block):
            for op in self.graph.main.regions[0].blocks[0].operations:
                if op.operation.name in (
                    "disc_shape.dim",
                    "arith.constant",
                    "tensor.from_elements",
                ):
                    self._copy(op.operation, self.shapes, {})
            for region in plan.regions:
                self._region(region)
            Operation.create("func.return", operands=[self.memory[t] for t in self.graph.returns])

    def _copy(
        self, op: Operation, known: dict[MlirValue, MlirValue], more: dict[MlirValue, MlirValue]
    ) -> Operation:
        """Clone an op at the insertion point with its operands looked up."""
        made = op.clone()
        for i, operand in enumerate(op.operands):
            made.operands[i] = more.get(operand) or known[operand]
        for old, new in zip(op.results, made.results, strict=True):
            known[old] = new
        return made

    def _region(self, region: Region) -> None:
        graph = self.graph
        if region.kind == "extern":
            (index,) = region.nodes
            node = graph.nodes[index]
            values = {graph.tensors[t].mlir: self.memory[t] for t in node.operands}
            made = self._copy(node.op, dict(self.shapes), values)
            self.memory.update(zip(node.results, made.results, strict=True))
            return
        body = self._body(region)
        inside = {result for node in body for result in node.results}
        reads = [
            t
            for t in dict.fromkeys(t for node in body for t in node.operands if t not in inside)
            if t in self.memory
        ]
        reads += [
            t for t in region.outputs if t not in inside and t in self.memory and t not in reads
        ]
        types = [graph.tensors[t].mlir.type for t in region.outputs]
        made = Operation.create(
            "disc.fusion",
            results=types,
            operands=[self.memory[t] for t in reads],
            attributes={"kind": StringAttr.get(region.kind)},
            regions=1,
        )
        block = Block.create_at_start(made.regions[0], [self.memory[t].type for t in reads])
        known = dict(self.shapes)
        for tensor, argument in zip(reads, block.arguments, strict=True):
            known[graph.tensors[tensor].mlir] = argument
        with InsertionPoint(block):
            for node in body:
                self._copy(node.op, known, {})
            Operation.create(
                "disc.yield", operands=[known[graph.tensors[t].mlir] for t in region.outputs]
            )
        self.memory.update(zip(region.outputs, made.results, strict=True))

    def _body(self, region: Region) -> list[Node]:
        """The ops of a region with the layout ops and leaves that they read through, in order."""
        found: dict[int, Node] = {}
        stack = list(region.outputs)
        while stack:
            tensor = stack.pop()
            if tensor in self.memory:
                continue
            node = self.graph.producer(tensor)
            if node is None or node.index in found:
                continue
            if node.index in region.nodes or node.name in FREE:
                found[node.index] = node
                stack.extend(node.operands)
        return [found[i] for i in sorted(found)]
