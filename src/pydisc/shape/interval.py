"""Closed integer ranges with infinite ends, and what arithmetic does to them."""

Bound = int | float
"""An int, or plus or minus infinity."""
Range = tuple[Bound, Bound]

INF = float("inf")
EVERYTHING: Range = (-INF, INF)


def _times(x: Bound, y: Bound) -> Bound:
    return x * y if x and y else 0


def multiply(a: Range, b: Range) -> Range:
    """The range of x * y."""
    if a[0] >= 0 and b[0] >= 0:
        return _times(a[0], b[0]), _times(a[1], b[1])
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _divide(x: Bound, y: Bound) -> Bound:
    """x // y at a corner, y >= 1."""
    if x in (INF, -INF):
        return x
    if y == INF:
        return 0 if x >= 0 else -1
    return x // y


def _divide_by_positive(a: Range, b: Range) -> Range:
    low = _divide(a[0], b[1] if a[0] >= 0 else b[0])
    high = _divide(a[1], b[0] if a[1] >= 0 else b[1])
    return low, high


def floordiv(a: Range, b: Range) -> Range:
    """The range of x // y, where x // 0 is 0."""
    parts: list[Range] = []
    if b[1] >= 1:
        parts.append(_divide_by_positive(a, (max(b[0], 1), b[1])))
    if b[0] <= 0 <= b[1]:
        parts.append((0, 0))
    if b[0] <= -1:
        parts.append(_divide_by_positive((-a[1], -a[0]), (max(-b[1], 1), -b[0])))
    return min(p[0] for p in parts), max(p[1] for p in parts)


def hull(a: Range, b: Range) -> Range:
    """The smallest range that holds both."""
    return min(a[0], b[0]), max(a[1], b[1])
