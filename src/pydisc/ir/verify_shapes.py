"""The verifier of `disc_shape`: is what a module says of its sizes well formed?

Whether it is true, or says less than before, is a question for the shape room.
"""

from collections.abc import Callable

from torch_mlir.ir import (
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    DenseI64ArrayAttr,
    FlatSymbolRefAttr,
    IntegerAttr,
    Module,
    Operation,
    StringAttr,
)

from pydisc.support.errors import InternalError

_SYMBOL = "disc_shape.symbolic_dim"
_TIE = "disc_shape.tie_predicate_"
GRAPH = "shape_constraint_graph"
"""The function that holds the facts of a module."""


def _is_string(attribute: Attribute) -> bool:
    return isinstance(attribute, StringAttr)


def _is_integer(attribute: Attribute) -> bool:
    return isinstance(attribute, IntegerAttr)


def _is_strings(attribute: Attribute) -> bool:
    return isinstance(attribute, ArrayAttr) and all(map(_is_string, attribute))


def _is_integers(attribute: Attribute) -> bool:
    return isinstance(attribute, ArrayAttr) and all(map(_is_integer, attribute))


_SYMBOL_ATTRIBUTES: dict[str, Callable[[Attribute], bool]] = {
    "sym_name": _is_string,
    "min": _is_integer,
    "max": _is_integer,
    "divisor": _is_integer,
    "likely_values": _is_integers,
    "name": _is_string,
    "expr": _is_string,
}


def verify_shapes(m: Module) -> set[str]:
    """The symbols of a module. Raises InternalError if its `disc_shape` ops are not well formed."""
    ops = [op.operation for op in m.body.operations]
    symbols: set[str] = set()
    for op in ops:
        if op.name == _SYMBOL:
            symbols.add(_check_symbol(op))
    graphs = [op for op in ops if op.name == "func.func" and _symbol_name(op) == GRAPH]
    for graph in graphs:  # one at most: MLIR refuses two symbols of one name
        _check_graph(graph)
    for op in ops:
        _check_uses(op, symbols, inside=op in graphs)
    return symbols


def _symbol_name(op: Operation) -> str:
    return StringAttr(op.attributes["sym_name"]).value


def _check_symbol(op: Operation) -> str:
    name = _symbol_name(op) if "sym_name" in op.attributes else ""
    if not name.isidentifier():
        raise InternalError(f"{_SYMBOL} needs an identifier as its sym_name, not {name!r}")
    values: dict[str, int] = {}
    for key in op.attributes:
        attribute = op.attributes[key]
        fits = _SYMBOL_ATTRIBUTES.get(key)
        if fits is None or not fits(attribute):
            raise InternalError(f"symbol @{name}: {key} = {attribute} means nothing")
        if isinstance(attribute, IntegerAttr):
            values[key] = attribute.value
    if "min" in values and "max" in values and values["min"] > values["max"]:
        raise InternalError(f"symbol @{name}: min {values['min']} is above max {values['max']}")
    if values.get("divisor", 1) < 1:
        raise InternalError(f"symbol @{name}: divisor {values['divisor']} is not positive")
    return name


def _check_graph(graph: Operation) -> None:
    if str(graph.attributes["function_type"]) != "() -> ()":
        raise InternalError(f"@{GRAPH} takes and returns nothing")
    if "disc_shape.facts" in graph.attributes and not _is_strings(
        graph.attributes["disc_shape.facts"]
    ):
        raise InternalError(f"disc_shape.facts of @{GRAPH} is not an array of strings")
    for op in graph.regions[0].blocks[0].operations:
        if op.operation.name.startswith(_TIE):
            _check_tie(op.operation)
        elif op.operation.name not in ("disc_shape.dim", "arith.constant", "func.return"):
            raise InternalError(f"{op.operation.name} has no meaning in @{GRAPH}")


def _check_tie(op: Operation) -> None:
    match op.name.removeprefix(_TIE):
        case "divisible":
            attribute = op.attributes["divisor"] if "divisor" in op.attributes else None
            if attribute is None or not isinstance(attribute, IntegerAttr):
                raise InternalError(f"{op.name} needs an integer as its divisor")
            if IntegerAttr(attribute).value < 1:
                raise InternalError(f"{op.name}: divisor {attribute} is not positive")
        case "group_mul_eq":
            _check_groups(op)
        case "affine_eq":
            attribute = op.attributes["map"] if "map" in op.attributes else None
            if attribute is None or not isinstance(attribute, AffineMapAttr):
                raise InternalError(f"{op.name} needs an affine map")
            affine = AffineMapAttr(attribute).value
            if (affine.n_dims, affine.n_symbols) != (len(op.operands) - 1, 0):
                raise InternalError(f"{op.name} gives {len(op.operands) - 1} sizes to {affine}")
            if len(affine.results) != 1:
                raise InternalError(f"{op.name}: {affine} has not one result")
        case "eq" | "lt" | "mul_eq":
            pass
        case _:
            raise InternalError(f"there is no op {op.name}")


def _check_groups(op: Operation) -> None:
    lengths: list[list[int]] = []
    for name in ("lhs_groups", "rhs_groups"):
        attribute = op.attributes[name] if name in op.attributes else None
        if attribute is None or not isinstance(attribute, DenseI64ArrayAttr):
            raise InternalError(f"{op.name} needs an array of i64 as its {name}")
        lengths.append(list(DenseI64ArrayAttr(attribute)))
    given = [len(op.opview.lhs), len(op.opview.rhs)]
    if [sum(side) for side in lengths] != given or len(lengths[0]) != len(lengths[1]):
        raise InternalError(f"{op.name}: groups {lengths} do not divide {given} sizes in pairs")


def _check_uses(op: Operation, symbols: set[str], inside: bool) -> None:
    """`disc_shape.dim` names a symbol, and ties stand in the graph only."""
    if op.name == "disc_shape.dim":
        name = FlatSymbolRefAttr(op.attributes["symbol"]).value
        if name not in symbols:
            raise InternalError(f"disc_shape.dim: symbol @{name} is not declared")
    elif op.name.startswith(_TIE) and not inside:
        raise InternalError(f"{op.name} stands outside of @{GRAPH}")
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _check_uses(inner.operation, symbols, inside)
