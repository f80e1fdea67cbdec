"""The Shape Constraint IR: symbols and facts, written into a module and read back.

Specification: docs/spec/shape_constraint_ir.md.
"""

from collections.abc import Iterator, Sequence

from torch_mlir.ir import (
    ArrayAttr,
    InsertionPoint,
    IntegerAttr,
    IntegerType,
    Module,
    Operation,
    StringAttr,
)

from pydisc.ir.dialects import (
    SymbolicDimOp,
)
from pydisc.ir.verify_shapes import GRAPH
from pydisc.shape.context import ShapeContext
from pydisc.shape.dim import Dim, Size
from pydisc.shape.expression import parse_dim
from pydisc.shape.graph_reader import GraphReader, learn
from pydisc.shape.graph_writer import GraphWriter
from pydisc.shape.interval import INF

_I64_MAX = 2**63 - 1


class SymbolTable:
    """Names of symbolic sizes in a module: symbols have their own, derived sizes get D0, D1, ..."""

    def __init__(self, cx: ShapeContext) -> None:
        self.cx = cx
        self._names: dict[Dim, str] = {}
        self._derived: dict[str, Dim] = {}
        self.labels: dict[str, str] = {}
        """Where the user has a symbol, such as `x.shape[0]`: for who reads the module."""

    def label(self, tensor: str, shape: Sequence[Size]) -> None:
        """Label symbols that have no label yet as the dims of a tensor."""
        for axis, size in enumerate(shape):
            atom = size.atom if isinstance(size, Dim) else None
            if atom is not None and atom.kind == "sym":
                self.labels.setdefault(atom.name, f"{tensor}.shape[{axis}]")

    def name_of(self, dim: Dim) -> str:
        """The symbol that stands for a Dim in types; made up at the first call, and kept."""
        atom = dim.atom
        if atom is not None and atom.kind == "sym":
            return atom.name
        found = self._names.get(dim)
        if found is None:
            number = len(self._derived)
            while (found := f"D{number}") in self._derived or found in self.cx.symbols:
                number += 1
            self._bind(found, dim)
        return found

    def _bind(self, name: str, dim: Dim) -> None:
        self._names.setdefault(dim, name)
        self._derived[name] = dim

    def dim_of(self, name: str) -> Dim:
        """The Dim of a symbol of the module. Raises KeyError if there is none."""
        found = self._derived.get(name)
        return self.cx.symbols[name] if found is None else found

    def __contains__(self, name: str) -> bool:
        return name in self._derived or name in self.cx.symbols

    def __iter__(self) -> Iterator[str]:
        """Names: the symbols, then the derived sizes."""
        yield from self.cx.symbols
        yield from self._derived

    @property
    def derived(self) -> dict[str, Dim]:
        """The derived sizes by name."""
        return dict(self._derived)

    # -- writing -----------------------------------------------------------------------------------
    def write(self, module: Module) -> None:
        """Put the symbols and facts at the top of a module, in place of those it has."""
        for op in list(module.body.operations):
            if op.operation.name == "disc_shape.symbolic_dim" or _is_graph(op.operation):
                op.operation.erase()
        with module.context, module.operation.location, InsertionPoint.at_block_begin(module.body):
            anchor = SymbolicDimOp(StringAttr.get(""))
        with module.context, module.operation.location:
            GraphWriter(self, InsertionPoint(anchor.operation)).write()
            with InsertionPoint(anchor.operation):
                for name in self:
                    self._write_symbol(name)
            anchor.operation.erase()
            _move_graph_after_symbols(module)

    def _write_symbol(self, name: str) -> None:
        dim = self.dim_of(name)
        i64 = IntegerType.get_signless(64)
        op = SymbolicDimOp(StringAttr.get(name))
        if dim.lo != -INF:
            op.attributes["min"] = IntegerAttr.get(i64, min(int(dim.lo), _I64_MAX))
        if dim.hi <= _I64_MAX:
            op.attributes["max"] = IntegerAttr.get(i64, int(dim.hi))
        if name in self._derived:
            op.attributes["expr"] = StringAttr.get(str(dim))
            return
        divisor = self.cx.facts.divisors.get(name)
        if divisor is not None:
            op.attributes["divisor"] = IntegerAttr.get(i64, divisor)
        if name in self.labels:
            op.attributes["name"] = StringAttr.get(self.labels[name])
        op.attributes["likely_values"] = ArrayAttr.get([IntegerAttr.get(i64, dim.hint)])

    # -- reading -----------------------------------------------------------------------------------
    @classmethod
    def read(cls, module: Module) -> "SymbolTable":
        """The table of a module, in a fresh ShapeContext that has learnt the module's facts."""
        table = cls(ShapeContext())
        ops = [op.operation for op in module.body.operations]
        symbols = [op for op in ops if op.name == "disc_shape.symbolic_dim"]
        for op in symbols:
            if "expr" not in op.attributes:
                table._read_symbol(op)
        for op in symbols:
            if "expr" in op.attributes:
                text = StringAttr(op.attributes["expr"]).value
                size = parse_dim(table.cx, text)
                table._bind(StringAttr(op.attributes["sym_name"]).value, table.cx.dim(size))
        for op in symbols:
            divisor = int(_integer(op, "divisor", 1))
            if divisor != 1:
                dim = table.dim_of(StringAttr(op.attributes["sym_name"]).value)
                learn(dim.mod(divisor).eq(0))
        for op in ops:
            if _is_graph(op):
                GraphReader(table).read(op)
        return table

    def _read_symbol(self, op: Operation) -> None:
        low = _integer(op, "min", 0)
        high = _integer(op, "max", INF)
        hint = min(max(low, 2), high)
        if "likely_values" in op.attributes:
            values = ArrayAttr(op.attributes["likely_values"])
            if len(values):
                hint = min(max(IntegerAttr(values[0]).value, low), high)
        name = StringAttr(op.attributes["sym_name"]).value
        self.cx.symbol(name, int(hint), int(low), high)
        if "name" in op.attributes:
            self.labels[name] = StringAttr(op.attributes["name"]).value


def _integer(op: Operation, name: str, default: float) -> float:
    return IntegerAttr(op.attributes[name]).value if name in op.attributes else default


def _is_graph(op: Operation) -> bool:
    return op.name == "func.func" and StringAttr(op.attributes["sym_name"]).value == GRAPH


def _move_graph_after_symbols(module: Module) -> None:
    """The writer makes the graph first, because it names the sizes that facts are about."""
    ops = [op.operation for op in module.body.operations]
    graph = next(op for op in ops if _is_graph(op))
    symbols = [op for op in ops if op.name == "disc_shape.symbolic_dim"]
    if symbols:
        graph.move_after(symbols[-1])
