"""A read-only view of `@main` for planning: nodes, values and their users, with sizes as Dims."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_mlir.ir import Module, Operation
from torch_mlir.ir import Value as MlirValue

from pydisc.ir import dense
from pydisc.ir.types import dtype_of, shape_of
from pydisc.shape import SymbolTable

UNARY = frozenset(
    "abs negate exponential exponential_minus_one log log_plus_one sqrt rsqrt cbrt tanh logistic "
    "sine cosine tan floor ceil sign not round_nearest_even round_nearest_afz is_finite".split()
)
BINARY = frozenset(
    "add subtract multiply divide maximum minimum power remainder and or xor atan2 "
    "shift_left shift_right_arithmetic shift_right_logical".split()
)
ELEMENTWISE = UNARY | BINARY | {"compare", "select", "convert", "elementwise", "clamp"}
LAYOUT = frozenset({"broadcast_in_dim", "reshape", "transpose", "slice"})
LEAVES = frozenset({"constant", "iota", "size"})
FREE = LAYOUT | LEAVES
"""Ops that never need a kernel of their own: they fold into the accesses of their users."""

TRANSCENDENTAL = frozenset(
    "exponential exponential_minus_one log log_plus_one tanh logistic sine cosine tan power "
    "elementwise atan2 remainder".split()
)

_DYNAMIC = {
    "dynamic_broadcast_in_dim": "broadcast_in_dim",
    "dynamic_reshape": "reshape",
    "dynamic_iota": "iota",
    "real_dynamic_slice": "slice",
    "torch_index_select": "take",
}


@dataclass(eq=False, slots=True)
class Node:
    """One data op. `name` is without the dialect; dynamic forms have the name of the static one."""

    index: int
    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attrs: dict[str, Any]
    op: Operation

    @property
    def result(self) -> int:
        """The first result."""
        return self.results[0]


@dataclass(eq=False, slots=True)
class TensorInfo:
    """A tensor of the graph. `users` lists nodes once each; -1 stands for the function's return."""

    shape: tuple[Any, ...]
    dtype: str
    mlir: MlirValue
    producer: Node | None = None
    users: list[int] = field(default_factory=list)


class Graph:
    """The data ops of a module's `@main`, in order; no shape arithmetic: sizes are Dims."""

    def __init__(self, module: Module, symbols: SymbolTable) -> None:
        self.module = module
        self.symbols = symbols
        self.nodes: list[Node] = []
        self.tensors: list[TensorInfo] = []
        self.arguments: list[int] = []
        self.returns: list[int] = []
        self._ids: dict[MlirValue, int] = {}
        self._sizes: dict[MlirValue, Any] = {}
        self.main = next(
            op
            for op in module.body.operations
            if op.operation.name == "func.func" and op.name.value == "main"
        )
        block = self.main.regions[0].blocks[0]
        for argument in block.arguments:
            self.arguments.append(self._tensor(argument, None))
        for op in block.operations:
            self._read(op.operation)

    def _tensor(self, value: MlirValue, producer: Node | None) -> int:
        shape = tuple(
            s if isinstance(s, int) else self.symbols.dim_of(s) for s in shape_of(value.type)
        )
        self._ids[value] = len(self.tensors)
        self.tensors.append(TensorInfo(shape, dtype_of(value.type), value, producer))
        return len(self.tensors) - 1

    def _read(self, op: Operation) -> None:
        name = op.name
        if name == "arith.constant":
            self._sizes[op.result] = dense.integer(op, "value")
            return
        if name == "disc_shape.dim":
            text = str(op.attributes["symbol"])
            self._sizes[op.result] = self.symbols.dim_of(text.lstrip("@"))
            return
        if name == "tensor.from_elements":
            sizes = tuple(self._sizes[v] for v in op.operands)
            self._sizes[op.result] = sizes
            return
        if name == "func.return":
            for value in op.operands:
                self.returns.append(self._ids[value])
                self._use(self._ids[value], -1)
            return
        if name == "arith.index_cast":
            (size,) = self._sizes[op.operands[0]]
            self._node("size", op, [], {"size": size})
            return
        short = name.split(".", 1)[1]
        short = _DYNAMIC[short] if short in _DYNAMIC else short
        data = [self._ids[v] for v in op.operands if v in self._ids]
        self._node(short, op, data, self._attributes(short, op))

    def _node(
        self, name: str, op: Operation, operands: Sequence[int], attrs: dict[str, Any]
    ) -> None:
        node = Node(len(self.nodes), name, tuple(operands), (), attrs, op)
        self.nodes.append(node)
        node.results = tuple(self._tensor(value, node) for value in op.results)
        for operand in dict.fromkeys(operands):
            self._use(operand, node.index)

    def _use(self, tensor: int, user: int) -> None:
        self.tensors[tensor].users.append(user)

    def _attributes(self, name: str, op: Operation) -> dict[str, Any]:
        if op.name == "stablehlo.real_dynamic_slice":
            return {
                "starts": self._sizes[op.operands[1]],
                "strides": self._sizes[op.operands[3]],
            }
        read = _ATTRIBUTES.get(name)
        return read(op) if read is not None else {}

    # -- queries -------------------------------------------------------------------------------
    def shape(self, tensor: int) -> tuple[Any, ...]:
        """The sizes of a tensor."""
        return self.tensors[tensor].shape

    def producer(self, tensor: int) -> Node | None:
        """The node that computes a tensor; None for an argument."""
        return self.tensors[tensor].producer

    def where(self, node: Node) -> str:
        """The user's source line of a node, as text ('' if unknown)."""
        text = str(node.op.location)
        return text[4:-1].replace('"', "") if text.startswith('loc("') else ""


def _dot_dimensions(text: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, short in (
        ("lhs_batching_dimensions", "lhs_batch"),
        ("rhs_batching_dimensions", "rhs_batch"),
        ("lhs_contracting_dimensions", "lhs_contract"),
        ("rhs_contracting_dimensions", "rhs_contract"),
    ):
        out[short] = []
        if key in text:
            inside = text.split(key, 1)[1].split("[", 1)[1].split("]", 1)[0]
            out[short] = [int(t) for t in inside.split(",") if t.strip()]
    return out


def _reduce_kind(op: Operation) -> str:
    return op.regions[0].blocks[0].operations[0].operation.name.split(".", 1)[1]


def _direction(op: Operation) -> str:
    return str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")


_ATTRIBUTES: dict[str, Callable[[Operation], dict[str, Any]]] = {
    "broadcast_in_dim": lambda op: {"dims": dense.ints(op, "broadcast_dimensions")},
    "compare": lambda op: {"direction": _direction(op)},
    "concatenate": lambda op: {"axis": dense.integer(op, "dimension")},
    "constant": lambda op: {"value": dense.splat(op)},
    "dot_general": lambda op: _dot_dimensions(str(op.attributes["dot_dimension_numbers"])),
    "elementwise": lambda op: {"fn": dense.string(op, "fn")},
    "extern": lambda op: {key: dense.string(op, key) for key in ("target", "args", "reason")},
    "iota": lambda op: {"axis": dense.integer(op, "iota_dimension")},
    "pad": lambda op: {
        "low": dense.ints(op, "edge_padding_low"),
        "high": dense.ints(op, "edge_padding_high"),
    },
    "reduce": lambda op: {"kind": _reduce_kind(op), "axes": dense.ints(op, "dimensions")},
    "scan": lambda op: {"fn": dense.string(op, "fn"), "axis": dense.integer(op, "axis")},
    "slice": lambda op: {
        "starts": dense.ints(op, "start_indices"),
        "strides": dense.ints(op, "strides"),
    },
    "transpose": lambda op: {"permutation": dense.ints(op, "permutation")},
}
"""How to read the attributes of each op that has some."""
