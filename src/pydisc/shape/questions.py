"""Questions about sizes, which are ints or Dims."""

from collections.abc import Iterable

from pydisc.shape.dim import Dim, Size, unwrap
from pydisc.shape.division import exact_quotient_node


def dim_eq(a: Size, b: Size) -> bool | None:
    """Whether two sizes are equal always (True), never (False), or it is not known (None)."""
    if a is b:
        return True
    if isinstance(a, Dim):
        return a.eq(b).decide()
    if isinstance(b, Dim):
        return b.eq(a).decide()
    return a == b


def prove_eq(a: Size, b: Size) -> bool:
    """Whether two sizes are known to be equal."""
    return dim_eq(a, b) is True


def prove_ge(a: Size, b: Size) -> bool:
    """Whether a >= b is known."""
    difference = a - b
    if isinstance(difference, Dim):
        return difference.cx.facts.is_nonneg(difference)
    return difference >= 0


def divisible(size: Size, by: Size) -> bool:
    """Whether a size is known to be a multiple of another: size == k * by for an integer k."""
    if isinstance(size, int) and isinstance(by, int):
        return size % by == 0 if by else size == 0
    cx = size.cx if isinstance(size, Dim) else by.cx  # pyright: ignore[reportAttributeAccessIssue]
    reduced = cx.facts.reduce(cx.dim(size))
    return exact_quotient_node(reduced, cx.facts.reduce(cx.dim(by))) is not None


def exact_quotient(a: Size, b: Size) -> Size | None:
    """The q with q * b == a identically, sizes of 0 included; None if there is no such polynomial.

    Unlike `a // b` it does not need b >= 1: 4*s over s is 4, which where s is 0 is one of many
    right answers. Use it to split a size into factors; use `//` for what a program computes.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    cx = a.cx if isinstance(a, Dim) else b.cx  # pyright: ignore[reportAttributeAccessIssue]
    found = exact_quotient_node(cx.dim(a), cx.dim(b))
    if found is None:
        found = exact_quotient_node(cx.facts.reduce(cx.dim(a)), cx.facts.reduce(cx.dim(b)))
    return None if found is None else unwrap(found)


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes; 1 of none."""
    out: Size = 1
    for size in sizes:
        out = out * size
    return out


def size_max(a: Size, b: Size) -> Size:
    """The greater of two sizes."""
    if isinstance(a, Dim):
        return unwrap(a.sym_max(b))
    return unwrap(b.sym_max(a)) if isinstance(b, Dim) else max(a, b)


def size_min(a: Size, b: Size) -> Size:
    """The lesser of two sizes."""
    if isinstance(a, Dim):
        return unwrap(a.sym_min(b))
    return unwrap(b.sym_min(a)) if isinstance(b, Dim) else min(a, b)


def size_hint(size: Size) -> int:
    """The size at which the trace runs."""
    return size.hint if isinstance(size, Dim) else size


def sizes_hint(sizes: Iterable[Size]) -> tuple[int, ...]:
    """The shape at which the trace runs."""
    return tuple(size_hint(s) for s in sizes)
