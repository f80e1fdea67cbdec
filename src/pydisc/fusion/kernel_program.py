"""The scalar program of one kernel: what is computed at each point of an iteration space.

A fusion region is written over tensors; a kernel loops over *axes*. Here each tensor op has become
an expression at a point, and every layout op (broadcast, transpose, reshape, slice) has folded into
the *linear forms* by which the kernel addresses its inputs and outputs.
"""

from dataclasses import dataclass
from typing import Any

Size = Any
"""int | Dim."""


@dataclass(frozen=True, slots=True)
class Linear:
    """offset + sum(coefficient * axis): an index, or an address in elements. Axes ascend."""

    terms: tuple[tuple[int, Size], ...] = ()
    offset: Size = 0

    def __add__(self, other: "Linear") -> "Linear":
        total = dict(self.terms)
        for axis, coefficient in other.terms:
            total[axis] = total[axis] + coefficient if axis in total else coefficient
        kept = tuple(sorted((a, c) for a, c in total.items() if not is_zero(c)))
        return Linear(kept, self.offset + other.offset)

    def scaled(self, factor: Size) -> "Linear":
        """Every coefficient and the offset times a size."""
        if is_zero(factor):
            return Linear()
        return Linear(tuple((a, c * factor) for a, c in self.terms), self.offset * factor)

    def coefficient(self, axis: int) -> Size:
        """The coefficient of an axis; 0 if it does not occur."""
        return next((c for a, c in self.terms if a == axis), 0)

    @property
    def axes(self) -> frozenset[int]:
        return frozenset(a for a, _ in self.terms)


def is_zero(size: Size) -> bool:
    return isinstance(size, int) and size == 0


@dataclass(frozen=True, slots=True)
class Expr:
    """One value at a point.

    op        what it is                       fields
    load      an element of an input           slot, index
    take      one of a row chosen at run time  slot, index, stride, bound; args: the row number
    const     a constant                       value
    index     an integer                       index
    apply     an element-wise function         fn, args
    reduce    over the axes `reduced`          fn, args
    scan      up to here along them            fn, args
    accumulator   the sum of the contraction

    `axes` are those that the value depends on.
    """

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    fn: str = ""
    value: Any = None
    slot: int = -1
    index: Linear = Linear()
    stride: Size = 0
    bound: Size = 0
    reduced: tuple[int, ...] = ()
    axes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Store:
    """An output of the kernel: expression `expr` goes to element `index` of the output buffer."""

    expr: int
    index: Linear
    dtype: str


@dataclass(frozen=True, slots=True)
class Contraction:
    """The sum over k of a * b. `lhs`, `rhs` are addresses; groups list axes, outermost first."""

    lhs_slot: int
    lhs: Linear
    rhs_slot: int
    rhs: Linear
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """A kernel before scheduling.

    `axes[i]` is the extent of axis i. `outer` and `inner` list axes from the outermost; `inner` are
    those that reductions and scans run over. `inputs` are tensor ids of the graph, by slot.
    """

    axes: tuple[Size, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    exprs: tuple[Expr, ...]
    inputs: tuple[int, ...]
    input_dtypes: tuple[str, ...]
    stores: tuple[Store, ...]
    contraction: Contraction | None = None
