"""What op rules build with: the Builder, and sizes, promotion and broadcasting on top of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydisc.frontend.dtypes import Number, result_dtype
from pydisc.ir.builder import Builder, Value
from pydisc.ir.types import FLOATS
from pydisc.shape import (
    Dim,
    Real,
    ShapeContext,
    Size,
    exact_quotient,
    product,
    size_hint,
    size_max,
    size_min,
)
from pydisc.support.errors import Unsupported

Shape = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Iota:
    """A value that is `start` + its index along one axis."""

    axis: int
    start: Size


_REAL = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "pow": "power",
    "max": "maximum",
    "min": "minimum",
    "neg": "negate",
    "sqrt": "sqrt",
}
"""Ops of floats that are computed from sizes."""


class LoweringContext:
    """Handed to every op rule as `cx`."""

    def __init__(self, b: Builder, shapes: ShapeContext) -> None:
        self.b = b
        self.shapes = shapes
        self.memo: dict[Any, Any] = {}
        """Values that several rules or calls share, by a key that says what they are."""
        self.scalars: dict[Value, bool | int | float] = {}
        """Values all of whose elements are known to be one number."""
        self.iotas: dict[Value, Iota] = {}
        self._broadcasts: dict[tuple[Value, Shape, tuple[int, ...]], Value] = {}

    # -- sizes ------------------------------------------------------------------------------------
    def axis(self, x: Value, dim: int, extra: int = 0) -> int:
        """A dim as an index from the front; `extra` for ops that add one."""
        rank = max(len(x.shape) + extra, 1)
        if not -rank <= dim < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of "
                f"[{-rank}, {rank - 1}], but got {dim})"
            )
        return dim + rank if dim < 0 else dim

    def axes(self, x: Value, dims: int | Sequence[int] | None) -> list[int]:
        """Dims as sorted indices; None or empty stands for all."""
        if dims is None:
            return list(range(len(x.shape)))
        if isinstance(dims, int):
            dims = [dims]
        if not dims:
            return list(range(len(x.shape)))
        return sorted({self.axis(x, d) for d in dims if x.shape})

    def require_equal(self, a: Size, b: Size, what: str) -> None:
        """Demand that two sizes agree: known, or by a guard; RuntimeError if they do not."""
        if a is b or (isinstance(a, int) and isinstance(b, int) and a == b):
            return
        if isinstance(a, int) and isinstance(b, int):
            raise RuntimeError(f"{what}: sizes {a} and {b} do not agree")
        if not self.shapes.dim(a).eq(b).expect_true():
            raise RuntimeError(f"{what}: sizes {a} and {b} do not agree")

    def is_at_least(self, a: Size, b: Size) -> bool:
        """Whether a >= b: known, or by a guard that an error is raised where it is not."""
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        return self.shapes.dim(a).ge(b).expect_true()

    def require_at_least(self, a: Size, b: Size, what: str) -> None:
        """Demand a >= b: known, or by a guard; IndexError if it is not so."""
        if not self.is_at_least(a, b):
            raise IndexError(f"{what}: {a} is less than {b}")

    def holds(self, a: Size, relation: str, b: Size) -> bool:
        """A comparison as a Python bool, guarded where it is not decided. relation: eq, ge, lt."""
        if isinstance(a, int) and isinstance(b, int):
            return {"eq": a == b, "ge": a >= b, "lt": a < b}[relation]
        return self.shapes.guard(getattr(self.shapes.dim(a), relation)(b), "branch")

    def known(self, a: Size, relation: str, b: Size) -> bool | None:
        """A comparison if it is decided; never guards."""
        if isinstance(a, int) and isinstance(b, int):
            return {"eq": a == b, "ge": a >= b, "lt": a < b}[relation]
        return getattr(self.shapes.dim(a), relation)(b).decide()

    def minimum(self, a: Size, b: Size) -> Size:
        """The lesser of two sizes."""
        return size_min(a, b)

    def maximum(self, a: Size, b: Size) -> Size:
        """The greater of two sizes."""
        return size_max(a, b)

    def product(self, sizes: Iterable[Size]) -> Size:
        """The number of elements of a shape."""
        return product(sizes)

    def quotient(self, total: Size, part: Size) -> Size:
        """total / part where it is known to be exact: also cancels what may be 0.

        A caller for whom part == 0 is an error (a -1 in a shape) is right with any answer there.
        """
        exact = exact_quotient(total, part)
        if exact is not None:
            return exact
        return 0 if isinstance(part, int) and part == 0 else total // part

    # -- scalars and element types ----------------------------------------------------------------
    def constant(self, value: bool | int | float, dtype: str) -> Value:
        """A rank-0 constant."""
        out = self.b.constant(value, dtype)
        self.scalars[out] = value
        return out

    def full(self, shape: Iterable[Size], value: Number, dtype: str) -> Value:
        """A tensor of one number."""
        return self.broadcast(self.scalar(value, dtype), shape)

    def scalar(self, x: Number, dtype: str) -> Value:
        """A scalar as a rank-0 value."""
        if isinstance(x, Dim):
            return self.b.convert(self.b.size(x), dtype)
        if isinstance(x, Real):
            return self.b.convert(self._real(x), dtype)
        if dtype in FLOATS:
            return self.constant(float(x), dtype)
        return self.constant(bool(x) if dtype == "i1" else int(x), dtype)

    def _real(self, x: Real) -> Value:
        """A float computed from sizes, as a rank-0 f64 value."""
        if x.kind == "const":
            return self.constant(x.args[0], "f64")
        if x.kind == "float":
            return self.b.convert(self.b.size(x.args[0]), "f64")
        name = _REAL.get(x.kind)
        if name is None:
            raise Unsupported(f"the float {x}", f"{x.kind} of sizes is not compiled")
        args = [self._real(a) for a in x.args]
        return self.b.unary(name, *args) if len(args) == 1 else self.b.binary(name, *args)

    def convert(self, x: Value, dtype: str) -> Value:
        """Element type conversion as torch has it: to bool means != 0."""
        if x.dtype == dtype:
            return x
        known = self.scalars.get(x)
        if known is not None and not x.shape:
            return self.scalar(known, dtype)
        if dtype == "i1":
            return self.b.compare("NE", x, self.full(x.shape, 0, x.dtype))
        return self.b.convert(x, dtype)

    # -- broadcasting -----------------------------------------------------------------------------
    def broadcast(
        self, x: Value, shape: Iterable[Size], dims: Sequence[int] | None = None
    ) -> Value:
        """x repeated to a shape; trailing dims line up unless `dims` says otherwise."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if dims is None:
            dims = range(len(shape) - len(x.shape), len(shape))
        key = (x, shape, tuple(dims))
        found = self._broadcasts.get(key)
        if found is None:
            found = self._broadcasts[key] = self.b.broadcast(x, shape, list(dims))
            if x in self.scalars:
                self.scalars[found] = self.scalars[x]
            iota = self.iotas.get(x)
            if iota is not None:
                self.iotas[found] = Iota(list(dims)[iota.axis], iota.start)
        return found

    def broadcast_shapes(self, *shapes: Shape) -> Shape:
        """The common shape, as torch has it; sizes that are not known to agree are guarded."""
        out = shapes[0]
        for shape in shapes[1:]:
            if shape != out:
                out = self._broadcast_two(out, shape)
        return out

    def _broadcast_two(self, a: Shape, b: Shape) -> Shape:
        if len(a) < len(b):
            a, b = b, a
        offset = len(a) - len(b)
        return (
            *a[:offset],
            *(self._broadcast_sizes(x, y) for x, y in zip(a[offset:], b, strict=True)),
        )

    def _broadcast_sizes(self, x: Size, y: Size) -> Size:
        if x is y or (isinstance(y, int) and y == 1):
            return x
        if isinstance(x, int) and x == 1:
            return y
        if self.known(x, "eq", y):
            return y if isinstance(y, int) else x
        for small, other in ((x, y), (y, x)):
            if self.known(1, "ge", small):
                return self._broadcast_small(small, other)
        hint_x, hint_y = size_hint(x), size_hint(y)
        if hint_x != hint_y and 1 in (hint_x, hint_y):
            one, other = (x, y) if hint_x == 1 else (y, x)
            self.require_equal(one, 1, "broadcast")
            return other
        self.require_equal(x, y, "broadcast")
        return y if isinstance(y, int) else x

    def _broadcast_small(self, small: Size, other: Size) -> Size:
        """The common size of one that is 0 or 1, such as that of `x[:1]`, and another.

        1 is repeated; 0 goes with 0 and 1 only, and gives 0. Both are the product of the sizes.
        """
        is_one = self.shapes.dim(small).eq(1)
        if not is_one.sym_or(self.shapes.dim(other).le(1)).expect_true():
            raise RuntimeError(f"broadcast: sizes {small} and {other} do not agree")
        return other if is_one.decide() else small * other  # pyright: ignore[reportOperatorIssue]

    def align(self, *operands: Value | Number, dtype: str | None = None) -> list[Value]:
        """Operands of an element-wise op: of one element type and one shape."""
        dtype = dtype or result_dtype(*operands)
        shape = self.broadcast_shapes(*(x.shape for x in operands if isinstance(x, Value)))
        return [self.operand(x, shape, dtype) for x in operands]

    def operand(self, x: Value | Number, shape: Shape, dtype: str) -> Value:
        """One operand, converted and broadcast."""
        value = self.convert(x, dtype) if isinstance(x, Value) else self.scalar(x, dtype)
        return self.broadcast(value, shape)

    # -- short forms ------------------------------------------------------------------------------
    def binary(
        self, name: str, x: Value | Number, y: Value | Number, dtype: str | None = None
    ) -> Value:
        """A StableHLO op on promoted and broadcast operands."""
        a, c = self.align(x, y, dtype=dtype)
        return self.b.binary(name, a, c)

    def unary(self, name: str, x: Value) -> Value:
        """A StableHLO op of one operand."""
        return self.b.unary(name, x)

    def compare(self, direction: str, x: Value | Number, y: Value | Number) -> Value:
        """A comparison on promoted and broadcast operands."""
        a, c = self.align(x, y)
        return self.b.compare(direction, a, c)

    def select(self, condition: Value, x: Value | Number, y: Value | Number) -> Value:
        """condition ? x : y on promoted and broadcast operands."""
        dtype = result_dtype(x, y)
        shape = self.broadcast_shapes(*(v.shape for v in (condition, x, y) if isinstance(v, Value)))
        return self.b.select(
            self.operand(condition, shape, "i1"),
            self.operand(x, shape, dtype),
            self.operand(y, shape, dtype),
        )

    def reduce(self, kind: str, x: Value, axes: Sequence[int], keepdim: bool = False) -> Value:
        """A reduction; `keepdim` leaves the reduced dims with size 1."""
        out = self.b.reduce(kind, x, axes) if axes else x
        if keepdim and axes:
            out = self.reshape(out, tuple(1 if i in axes else s for i, s in enumerate(x.shape)))
        return out

    def spread(self, x: Value, shape: Shape, axes: Sequence[int]) -> Value:
        """The result of a reduction over `axes`, repeated along them to the shape it came from."""
        return self.broadcast(x, shape, [i for i in range(len(shape)) if i not in axes])

    # -- layout -----------------------------------------------------------------------------------
    def reshape(self, x: Value, shape: Iterable[Size]) -> Value:
        """Same elements in row-major order."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        out = self.b.reshape(x, shape)
        if x in self.scalars:
            self.scalars[out] = self.scalars[x]
        iota = self.iotas.get(x)
        if iota is not None:
            axis = _same_axis(x.shape, shape, iota.axis)
            if axis is not None:
                self.iotas[out] = Iota(axis, iota.start)
        return out

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Dim i of the result is dim permutation[i] of x."""
        out = self.b.transpose(x, list(permutation))
        iota = self.iotas.get(x)
        if iota is not None and out is not x:
            self.iotas[out] = Iota(list(permutation).index(iota.axis), iota.start)
        return out

    def infer_shape(self, old: Shape, new: Sequence[Size]) -> Shape:
        """The shape that `view` is asked for: -1 filled in, the element counts required equal."""
        shape = list(new)
        total = self.product(old)
        unknown = [i for i, s in enumerate(shape) if isinstance(s, int) and s == -1]
        if unknown:
            rest = self.product(s for i, s in enumerate(shape) if i != unknown[0])
            if exact_quotient(total, rest) is None and unknown[0] > 0 and old:
                self._agree_on_batch(old[0], shape[0])
            shape[unknown[0]] = self.quotient(total, rest)
        self.require_equal(
            self.product(shape), total, f"shape {list(new)} is invalid for input of size {total}"
        )
        return tuple(shape)

    def _agree_on_batch(self, old: Size, new: Size) -> None:
        """`x.view(batch, -1)` with the batch of another tensor: guard that it is that of x too."""
        if old is not new and size_hint(old) == size_hint(new):
            self.require_equal(old, new, "view")

    def slice_axis(
        self,
        x: Value,
        axis: int,
        start: Size,
        limit: Size,
        step: int = 1,
        length: Size | None = None,
    ) -> Value:
        """x[..., start:limit:step, ...]; in range. `length` is limit - start in a simpler form."""
        if length is None:
            length = limit - start  # pyright: ignore[reportOperatorIssue]
        if step != 1:
            length = (length + (step - 1)) // step  # pyright: ignore[reportOptionalOperand]
        size = x.shape[axis]
        if isinstance(start, int) and start == 0 and step == 1 and (limit is size or limit == size):
            return x
        shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        starts = [start if i == axis else 0 for i in range(len(shape))]
        limits = [limit if i == axis else s for i, s in enumerate(x.shape)]
        strides = [step if i == axis else 1 for i in range(len(shape))]
        out = self.b.slice(x, starts, limits, strides, shape)
        iota = self.iotas.get(x)
        if iota is not None and step == 1:
            begin = iota.start + start if iota.axis == axis else iota.start  # pyright: ignore
            self.iotas[out] = Iota(iota.axis, begin)
        if x in self.scalars:
            self.scalars[out] = self.scalars[x]
        return out

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        """Values of one element type, one after the other."""
        return self.b.concatenate(list(xs), axis)

    def iota(self, shape: Iterable[Size], axis: int, dtype: str = "i64") -> Value:
        """The index along an axis; shared between calls."""
        shape = tuple(shape)
        key = ("iota", shape, axis, dtype)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self.b.iota(shape, axis, dtype)
            self.iotas[found] = Iota(axis, 0)
        return found


def _same_axis(old: Shape, new: Shape, axis: int) -> int | None:
    """Where an axis went in a reshape that only adds or drops dims of size 1."""

    def one(size: Size) -> bool:
        return isinstance(size, int) and size == 1

    kept = [i for i, s in enumerate(old) if not one(s)]
    target = [i for i, s in enumerate(new) if not one(s)]
    if [old[i] for i in kept] != [new[i] for i in target] or axis not in kept:
        return None
    return target[kept.index(axis)]
