"""Building StableHLO one op at a time, with result types that are always written out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir.ir import (
    ArrayAttr,
    Attribute,
    Block,
    BoolAttr,
    DenseElementsAttr,
    DenseI64ArrayAttr,
    FloatAttr,
    IndexType,
    InsertionPoint,
    IntegerAttr,
    IntegerType,
    Location,
    Operation,
    RankedTensorType,
    StringAttr,
    Type,
)
from torch_mlir.ir import Value as MlirValue

from pydisc.ir.types import FLOATS, SizeNamer, element_type, tensor_type
from pydisc.support.source import SourceLine

Shape = tuple[Any, ...]
"""Sizes: a Python int where static, a `Dim` of the shape room otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor in the module under construction."""

    mlir: MlirValue
    shape: Shape
    dtype: str


class Builder:
    """Appends StableHLO ops to a block.

    Sizes are ints or Dims; `namer` gives a Dim its symbol. Ops get the location `where`.
    Constants and shape operands are emitted once.
    """

    def __init__(self, block: Block, namer: SizeNamer) -> None:
        self.block = block
        self.namer = namer
        self.where: SourceLine | None = None
        self._ip = InsertionPoint(block)
        self._locations: dict[SourceLine | None, Location] = {None: Location.unknown()}
        self._types: dict[tuple[Shape, str], RankedTensorType] = {}
        self._constants: dict[tuple[str, str], Value] = {}
        self._sizes: dict[Any, MlirValue] = {}
        self._shapes: dict[Shape, MlirValue] = {}
        self._attributes: dict[str, Attribute] = {}
        self._i64 = IntegerType.get_signless(64)
        self._index = IndexType.get()

    # -- plumbing ------------------------------------------------------------------------------
    def type(self, shape: Iterable[Any], dtype: str) -> RankedTensorType:
        """The tensor type of sizes and dtype."""
        key = (tuple(shape), dtype)
        found = self._types.get(key)
        if found is None:
            names = tuple(s if isinstance(s, int) else self.namer.name_of(s) for s in key[0])
            found = self._types[key] = tensor_type(names, dtype)
        return found

    def _attr(self, text: str) -> Attribute:
        found = self._attributes.get(text)
        if found is None:
            found = self._attributes[text] = Attribute.parse(text)
        return found

    def _location(self) -> Location:
        found = self._locations.get(self.where)
        if found is None:
            assert self.where is not None
            found = Location.file(self.where.file, self.where.line, 0)
            self._locations[self.where] = found
        return found

    def op(
        self,
        name: str,
        operands: Sequence[MlirValue],
        types: Sequence[Type],
        attributes: dict[str, Attribute] | None = None,
        regions: int = 0,
    ) -> Operation:
        """Append any op."""
        return Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            attributes=attributes,
            regions=regions,
            loc=self._location(),
            ip=self._ip,
        )

    def _emit(
        self,
        name: str,
        operands: Sequence[MlirValue],
        shape: Iterable[Any],
        dtype: str,
        attributes: dict[str, Attribute] | None = None,
    ) -> Value:
        shape = tuple(shape)
        out = self.op(name, operands, [self.type(shape, dtype)], attributes)
        return Value(out.result, shape, dtype)

    def _size_index(self, size: Any) -> MlirValue:
        """The `index` value of a size."""
        found = self._sizes.get(size)
        if found is None:
            if isinstance(size, int):
                attributes = {"value": IntegerAttr.get(self._index, size)}
                found = self.op("arith.constant", [], [self._index], attributes).result
            else:
                attributes = {"symbol": self._attr(f"@{self.namer.name_of(size)}")}
                found = self.op("disc_shape.dim", [], [self._index], attributes).result
            self._sizes[size] = found
        return found

    def _shape_operand(self, shape: Shape) -> MlirValue:
        """The 1-d index tensor of a shape."""
        found = self._shapes.get(shape)
        if found is None:
            sizes = [self._size_index(s) for s in shape]
            kind = RankedTensorType.get([len(shape)], self._index)
            found = self.op("tensor.from_elements", sizes, [kind]).result
            self._shapes[shape] = found
        return found

    # -- values --------------------------------------------------------------------------------
    def constant(self, value: bool | int | float, dtype: str) -> Value:
        """A rank-0 constant; emitted once for each value and dtype."""
        key = (repr(value), dtype)
        found = self._constants.get(key)
        if found is None:
            kind = RankedTensorType.get([], element_type(dtype))
            if dtype in FLOATS:
                scalar: Attribute = FloatAttr.get(element_type(dtype), float(value))
            elif dtype == "i1":
                scalar = BoolAttr.get(bool(value))
            else:
                scalar = IntegerAttr.get(element_type(dtype), int(value))
            dense = DenseElementsAttr.get_splat(kind, scalar)
            out = self.op("stablehlo.constant", [], [kind], {"value": dense})
            found = self._constants[key] = Value(out.result, (), dtype)
        return found

    def size(self, size: Any) -> Value:
        """A size as a rank-0 i64 value."""
        if isinstance(size, int):
            return self.constant(size, "i64")
        kind = RankedTensorType.get([], self._index)
        boxed = self.op("tensor.from_elements", [self._size_index(size)], [kind]).result
        target = RankedTensorType.get([], self._i64)
        return Value(self.op("arith.index_cast", [boxed], [target]).result, (), "i64")

    # -- element-wise --------------------------------------------------------------------------
    def unary(self, name: str, x: Value) -> Value:
        """`stablehlo.<name>` of one operand."""
        return self._emit(f"stablehlo.{name}", [x.mlir], x.shape, x.dtype)

    def binary(self, name: str, x: Value, y: Value) -> Value:
        """`stablehlo.<name>` of two operands of one shape and dtype."""
        return self._emit(f"stablehlo.{name}", [x.mlir, y.mlir], x.shape, x.dtype)

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        """x EQ|NE|GE|GT|LE|LT y, as i1. Float comparisons are ordered, NE is unordered."""
        attributes = {
            "comparison_direction": self._attr(f"#stablehlo<comparison_direction {direction}>")
        }
        return self._emit("stablehlo.compare", [x.mlir, y.mlir], x.shape, "i1", attributes)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """condition ? x : y; all of one shape."""
        return self._emit("stablehlo.select", [condition.mlir, x.mlir, y.mlir], x.shape, x.dtype)

    def convert(self, x: Value, dtype: str) -> Value:
        """Element type conversion; nothing is emitted if it is that dtype already."""
        if x.dtype == dtype:
            return x
        return self._emit("stablehlo.convert", [x.mlir], x.shape, dtype)

    def elementwise(self, fn: str, *xs: Value, dtype: str | None = None) -> Value:
        """`disc.elementwise`: a function that StableHLO lacks, such as erf."""
        operands = [x.mlir for x in xs]
        attributes = {"fn": StringAttr.get(fn)}
        return self._emit(
            "disc.elementwise", operands, xs[0].shape, dtype or xs[0].dtype, attributes
        )

    # -- layout --------------------------------------------------------------------------------
    def broadcast(self, x: Value, shape: Iterable[Any], dims: Sequence[int]) -> Value:
        """Dim i of x becomes dim dims[i] of the result; size 1 is repeated."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        attributes: dict[str, Attribute] = {
            "broadcast_dimensions": DenseI64ArrayAttr.get(list(dims))
        }
        if all(isinstance(s, int) for s in shape):
            return self._emit("stablehlo.broadcast_in_dim", [x.mlir], shape, x.dtype, attributes)
        operands = [x.mlir, self._shape_operand(shape)]
        return self._emit(
            "stablehlo.dynamic_broadcast_in_dim", operands, shape, x.dtype, attributes
        )

    def reshape(self, x: Value, shape: Iterable[Any]) -> Value:
        """Same elements in row-major order; the caller knows that the element counts agree."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if all(isinstance(s, int) for s in (*shape, *x.shape)):
            return self._emit("stablehlo.reshape", [x.mlir], shape, x.dtype)
        operands = [x.mlir, self._shape_operand(shape)]
        return self._emit("stablehlo.dynamic_reshape", operands, shape, x.dtype)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Dim i of the result is dim permutation[i] of x."""
        if list(permutation) == list(range(len(x.shape))):
            return x
        shape = tuple(x.shape[p] for p in permutation)
        attributes: dict[str, Attribute] = {"permutation": DenseI64ArrayAttr.get(list(permutation))}
        return self._emit("stablehlo.transpose", [x.mlir], shape, x.dtype, attributes)

    def slice(
        self,
        x: Value,
        starts: Sequence[Any],
        limits: Sequence[Any],
        strides: Sequence[int],
        shape: Iterable[Any] | None = None,
    ) -> Value:
        """x[starts:limits:strides], in range.

        `shape` is the result's, if the caller knows a simpler one.
        """
        if shape is None:
            shape = (
                (limit - start + (step - 1)) // step
                for start, limit, step in zip(starts, limits, strides, strict=True)
            )
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if all(isinstance(s, int) for s in (*starts, *limits, *shape, *x.shape)):
            attributes: dict[str, Attribute] = {
                "start_indices": DenseI64ArrayAttr.get(list(starts)),
                "limit_indices": DenseI64ArrayAttr.get(list(limits)),
                "strides": DenseI64ArrayAttr.get(list(strides)),
            }
            return self._emit("stablehlo.slice", [x.mlir], shape, x.dtype, attributes)
        operands = [x.mlir, *(self._shape_operand(tuple(v)) for v in (starts, limits, strides))]
        return self._emit("stablehlo.real_dynamic_slice", operands, shape, x.dtype)

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        """Operands of one dtype, one after the other along an axis."""
        if len(xs) == 1:
            return xs[0]
        shape = list(xs[0].shape)
        for x in xs[1:]:
            shape[axis] = shape[axis] + x.shape[axis]
        attributes: dict[str, Attribute] = {"dimension": IntegerAttr.get(self._i64, axis)}
        operands = [x.mlir for x in xs]
        return self._emit("stablehlo.concatenate", operands, shape, xs[0].dtype, attributes)

    def pad(self, x: Value, value: Value, low: Sequence[int], high: Sequence[int]) -> Value:
        """`value` around x; negative padding crops."""
        shape = tuple(s + lo + hi for s, lo, hi in zip(x.shape, low, high, strict=True))
        attributes: dict[str, Attribute] = {
            "edge_padding_low": DenseI64ArrayAttr.get(list(low)),
            "edge_padding_high": DenseI64ArrayAttr.get(list(high)),
            "interior_padding": DenseI64ArrayAttr.get([0] * len(low)),
        }
        return self._emit("stablehlo.pad", [x.mlir, value.mlir], shape, x.dtype, attributes)

    def iota(self, shape: Iterable[Any], axis: int, dtype: str) -> Value:
        """The index along an axis."""
        shape = tuple(shape)
        attributes: dict[str, Attribute] = {"iota_dimension": IntegerAttr.get(self._i64, axis)}
        if all(isinstance(s, int) for s in shape):
            return self._emit("stablehlo.iota", [], shape, dtype, attributes)
        return self._emit(
            "stablehlo.dynamic_iota", [self._shape_operand(shape)], shape, dtype, attributes
        )

    # -- reductions, contractions, indexing ----------------------------------------------------
    _REDUCE_INIT: ClassVar[dict[str, int | bool]] = {
        "add": 0,
        "multiply": 1,
        "or": False,
        "and": True,
    }

    def _reduce_init(self, kind: str, dtype: str) -> Value:
        if kind in self._REDUCE_INIT:
            return self.constant(self._REDUCE_INIT[kind], dtype)
        lowest = kind == "maximum"
        if dtype in FLOATS:
            return self.constant(float("-inf") if lowest else float("inf"), dtype)
        if dtype == "i1":
            return self.constant(not lowest, dtype)
        unsigned = dtype.startswith("u")
        bits = int(dtype.lstrip("ui"))
        if unsigned:
            return self.constant(0 if lowest else 2**bits - 1, dtype)
        return self.constant(-(2 ** (bits - 1)) if lowest else 2 ** (bits - 1) - 1, dtype)

    def reduce(self, kind: str, x: Value, axes: Sequence[int]) -> Value:
        """add|multiply|maximum|minimum|and|or over axes, which go; of nothing the neutral value."""
        shape = tuple(s for i, s in enumerate(x.shape) if i not in axes)
        init = self._reduce_init(kind, x.dtype)
        attributes: dict[str, Attribute] = {"dimensions": DenseI64ArrayAttr.get(sorted(axes))}
        out = self.op(
            "stablehlo.reduce",
            [x.mlir, init.mlir],
            [self.type(shape, x.dtype)],
            attributes,
            regions=1,
        )
        scalar = RankedTensorType.get([], element_type(x.dtype))
        block = Block.create_at_start(out.regions[0], [scalar, scalar])
        with InsertionPoint(block):
            body = Operation.create(
                f"stablehlo.{kind}", results=[scalar], operands=list(block.arguments)
            )
            Operation.create("stablehlo.return", operands=[body.result])
        return Value(out.result, shape, x.dtype)

    def scan(self, kind: str, x: Value, axis: int) -> Value:
        """`disc.scan`: at each place the add|multiply|maximum|minimum of all up to it."""
        attributes: dict[str, Attribute] = {
            "fn": StringAttr.get(kind),
            "axis": IntegerAttr.get(self._i64, axis),
        }
        return self._emit("disc.scan", [x.mlir], x.shape, x.dtype, attributes)

    def dot_general(
        self,
        x: Value,
        y: Value,
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
        contract: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> Value:
        """Result dims: batch, free dims of x, free dims of y."""
        free_x = [s for i, s in enumerate(x.shape) if i not in batch[0] and i not in contract[0]]
        free_y = [s for i, s in enumerate(y.shape) if i not in batch[1] and i not in contract[1]]
        shape = [x.shape[i] for i in batch[0]] + free_x + free_y
        text = (
            f"#stablehlo.dot<lhs_batching_dimensions = {list(batch[0])}, "
            f"rhs_batching_dimensions = {list(batch[1])}, "
            f"lhs_contracting_dimensions = {list(contract[0])}, "
            f"rhs_contracting_dimensions = {list(contract[1])}>"
        )
        attributes = {"dot_dimension_numbers": self._attr(text)}
        return self._emit("stablehlo.dot_general", [x.mlir, y.mlir], shape, x.dtype, attributes)

    def take(self, table: Value, index: Value) -> Value:
        """Rows of `table` ([V, *rest]) at an integer index of any shape: index.shape + rest.

        An index out of range is an IndexError at run time.
        """
        attributes: dict[str, Attribute] = {
            "dim": IntegerAttr.get(self._i64, 0),
            "batch_dims": IntegerAttr.get(self._i64, 0),
        }
        shape = (*index.shape, *table.shape[1:])
        operands = [table.mlir, index.mlir]
        return self._emit("stablehlo.torch_index_select", operands, shape, table.dtype, attributes)

    # -- the framework -------------------------------------------------------------------------
    def extern(
        self,
        target: str,
        inputs: Sequence[Value],
        args_template: str,
        results: Sequence[tuple[Shape, str]],
        reason: str,
    ) -> list[Value]:
        """`disc.extern`: an operator that the framework runs, with its arguments and the reason."""
        attributes: dict[str, Attribute] = {
            "target": StringAttr.get(target),
            "args": StringAttr.get(args_template),
            "reason": StringAttr.get(reason),
        }
        types = [self.type(shape, dtype) for shape, dtype in results]
        out = self.op("disc.extern", [x.mlir for x in inputs], types, attributes)
        return [
            Value(value, tuple(shape), dtype)
            for value, (shape, dtype) in zip(out.results, results, strict=True)
        ]

    def returns(self, values: Sequence[Value]) -> None:
        """End the function."""
        self.op("func.return", [v.mlir for v in values], [])


def string_array(values: Sequence[str]) -> ArrayAttr:
    """An array attribute of strings."""
    return ArrayAttr.get([StringAttr.get(v) for v in values])
