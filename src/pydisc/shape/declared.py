"""Dims as users declare them: a name with a range, expressions of such names, checks of a call.

`Dim("seq", max=512, multiple_of=8)` is what `pydisc.compile(model, dims=...)` takes. It is plain
data, before any trace; a trace turns it into a symbol with guards.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydisc.shape.context import RESERVED, ShapeContext
from pydisc.shape.dim import Size

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_TAKEN = re.compile(r"S\d+")
"""What a trace calls the dims that nobody declared."""


class DimExpression:
    """An expression of declared dims and integers, such as `seq + past`."""

    def __init__(self, sign: str, operands: tuple[DimExpression | int, ...]) -> None:
        self.sign = sign
        self.operands = operands

    @property
    def dims(self) -> frozenset[DeclaredDim]:
        """The dims that occur."""
        return frozenset(d for x in self.operands if isinstance(x, DimExpression) for d in x.dims)

    def evaluate(self, sizes: Mapping[str, Size]) -> Size:
        """Its value, as a number or as a symbolic size, given that of each dim by name."""
        left, right = (
            x.evaluate(sizes) if isinstance(x, DimExpression) else x for x in self.operands
        )
        if self.sign in ("//", "%") and isinstance(right, int) and right == 0:
            return 0 if self.sign == "//" else left  # as everywhere in the algebra of sizes
        return _OPERATIONS[self.sign](left, right)

    def __str__(self) -> str:
        parts = [
            f"({x})" if isinstance(x, DimExpression) and x.operands else str(x)
            for x in self.operands
        ]
        return f" {self.sign} ".join(parts)

    __repr__ = __str__

    def _with(self, sign: str, other: Any, *, swapped: bool = False) -> DimExpression:
        if not isinstance(other, int | DimExpression):
            return NotImplemented
        return DimExpression(sign, (other, self) if swapped else (self, other))

    def __add__(self, other: DimExpression | int) -> DimExpression:
        return self._with("+", other)

    def __radd__(self, other: int) -> DimExpression:
        return self._with("+", other, swapped=True)

    def __sub__(self, other: DimExpression | int) -> DimExpression:
        return self._with("-", other)

    def __rsub__(self, other: int) -> DimExpression:
        return self._with("-", other, swapped=True)

    def __mul__(self, other: DimExpression | int) -> DimExpression:
        return self._with("*", other)

    def __rmul__(self, other: int) -> DimExpression:
        return self._with("*", other, swapped=True)

    def __floordiv__(self, other: DimExpression | int) -> DimExpression:
        return self._with("//", other)

    def __mod__(self, other: DimExpression | int) -> DimExpression:
        return self._with("%", other)


class DeclaredDim(DimExpression):
    """A dim with a name: the same name in two places is the same size.

    min, max: the sizes that calls may have, both included. multiple_of: what divides all of them.
    A call outside is refused with a ValueError; the compiled code relies on it.
    """

    def __init__(
        self, name: str, *, min: int = 0, max: int | None = None, multiple_of: int = 1
    ) -> None:
        if not name.isidentifier() or name in RESERVED or _TAKEN.fullmatch(name):
            raise ValueError(f"Dim: {name!r} is not an identifier, or is taken; use another name")
        if min < 0 or (max is not None and max < min):
            raise ValueError(f"Dim {name}: the range [{min}, {max}] is empty or negative")
        if multiple_of < 1:
            raise ValueError(f"Dim {name}: multiple_of must be at least 1, not {multiple_of}")
        super().__init__("", ())
        self.name = name
        self.min = min
        self.max = max
        self.multiple_of = multiple_of

    @property
    def dims(self) -> frozenset[DeclaredDim]:
        """Itself."""
        return frozenset((self,))

    def evaluate(self, sizes: Mapping[str, Size]) -> Size:
        """The size of that name."""
        return sizes[self.name]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Dim({self.name}: {self.range_text()})"

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.min, self.max, self.multiple_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeclaredDim) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def range_text(self) -> str:
        """Its range, for messages."""
        high = "any" if self.max is None else str(self.max)
        multiple = f", a multiple of {self.multiple_of}" if self.multiple_of > 1 else ""
        return f"{self.min} to {high}{multiple}"

    def admits(self, size: int) -> bool:
        """Whether a call may have this size."""
        high = size if self.max is None else self.max
        return self.min <= size <= high and size % self.multiple_of == 0

    def guard(self, cx: ShapeContext, size: Size) -> None:
        """Guard what stands for it in a trace to its range."""
        dim = cx.dim(size)
        cx.guard(dim.ge(self.min), "declared")
        if self.max is not None:
            cx.guard(dim.le(self.max), "declared")
        if self.multiple_of > 1:
            cx.guard(dim.mod(self.multiple_of).eq(0), "declared")


Declaration = DimExpression | int
"""What one dim of an argument is declared to be: an expression, or a static size."""


@dataclass(frozen=True)
class DeclaredDims:
    """What the user declares of arguments: by name of the argument and number of the dim."""

    arguments: Mapping[str, Mapping[int, Declaration]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_name: dict[str, DeclaredDim] = {}
        plain: set[str] = set()
        for argument, axes in self.arguments.items():
            for axis, declared in axes.items():
                if not isinstance(axis, int) or not isinstance(declared, DimExpression | int):
                    raise ValueError(
                        f"dims[{argument!r}][{axis!r}]: expected the number of a dim and a "
                        f"pydisc.Dim, an expression of Dims or an int, not {declared!r}"
                    )
                if isinstance(declared, int):
                    continue
                if isinstance(declared, DeclaredDim):
                    plain.add(declared.name)
                for dim in declared.dims:
                    if by_name.setdefault(dim.name, dim) != dim:
                        raise ValueError(
                            f"dims: {by_name[dim.name]!r} and {dim!r} have one name; "
                            "use one Dim object for both"
                        )
        missing = by_name.keys() - plain
        if missing:
            raise ValueError(
                f"dims: {', '.join(sorted(missing))} occurs in expressions only; declare one dim "
                "of an argument to be it"
            )

    def of(self, argument: str, axis: int, rank: int) -> Declaration | None:
        """What is declared of one dim; dims may be counted from the end."""
        axes = self.arguments.get(argument)
        if not axes:
            return None
        return axes.get(axis, axes.get(axis - rank))

    def check(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Compare the shapes of a call's tensors with what was declared; ValueError if they differ.

        Names the argument, the dim, its size and what it should be.
        """
        self._check_places(shapes)
        places = [
            (f"argument {argument}, dim {axis}", shape[axis], declared)
            for argument, shape in shapes.items()
            for axis in range(len(shape))
            if (declared := self.of(argument, axis, len(shape))) is not None
        ]
        sizes: dict[str, int] = {}
        first: dict[str, str] = {}
        for place, size, declared in places:
            if not isinstance(declared, DeclaredDim):
                continue
            if not declared.admits(size):
                raise ValueError(
                    f"{place} ({declared.name}): size {size} is outside its declared range "
                    f"{declared.range_text()}"
                )
            if sizes.setdefault(declared.name, size) != size:
                raise ValueError(
                    f"{place} ({declared.name}): size {size}, but {first[declared.name]} is "
                    f"the same dim and has size {sizes[declared.name]}"
                )
            first.setdefault(declared.name, place)
        for place, size, declared in places:
            wanted = declared if isinstance(declared, int) else declared.evaluate(sizes)
            if size != wanted:
                static = isinstance(declared, int)
                said = f"static as {declared}" if static else f"as {declared}, which is {wanted}"
                raise ValueError(f"{place}: size {size}, declared {said}")

    def _check_places(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Every argument and dim that was declared occurs in the call."""
        for argument, axes in self.arguments.items():
            if argument not in shapes:
                known = ", ".join(shapes) or "none"
                raise ValueError(
                    f"dims[{argument!r}]: this call has no such tensor argument; it has {known}"
                )
            rank = len(shapes[argument])
            for axis in axes:
                if not -rank <= axis < rank:
                    raise ValueError(f"dims[{argument!r}]: no dim {axis}; the rank is {rank}")
