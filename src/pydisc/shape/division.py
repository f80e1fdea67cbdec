"""Floor division of polynomials: exact, partial, or an atom. Never cancels what may be 0."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from pydisc.shape.dim import Dim, Monomial, leading_key

if TYPE_CHECKING:
    from pydisc.shape.context import ShapeContext

_STEPS = 64


def without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """monomial / factor, or None."""
    left = list(monomial)
    for index in factor:
        if index not in left:
            return None
        left.remove(index)
    return tuple(left)


def common_monomial(*dims: Dim) -> Monomial:
    """The greatest monomial that divides every term."""
    common: list[int] | None = None
    for dim in dims:
        for monomial, _ in dim.poly:
            if common is None:
                common = list(monomial)
            else:
                left = list(monomial)
                shared = []
                for index in common:
                    if index in left:
                        left.remove(index)
                        shared.append(index)
                common = shared
            if not common:
                return ()
    return tuple(common or ())


def divide_by_monomial(dim: Dim, factor: Monomial) -> Dim:
    """dim / factor, where factor divides every term."""
    out: dict[Monomial, int] = {}
    for monomial, coefficient in dim.poly:
        left = without(monomial, factor)
        assert left is not None
        out[left] = coefficient
    return dim.cx.from_terms(out)


def divide_with_rest(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """(q, r) with a == q * b + r identically; b's leading term divides no term of r."""
    cx = a.cx
    if not b.poly:
        return cx.node(0), a
    lead, lead_coefficient = max(b.poly, key=lambda term: leading_key(term[0]))
    left = dict(a.poly)
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for _ in range(_STEPS):
        if not left:
            break
        monomial = max(left, key=leading_key)
        coefficient = left[monomial]
        part = without(monomial, lead)
        times, remain = divmod(coefficient, lead_coefficient)
        if part is None or not times:
            rest[monomial] = left.pop(monomial)
            continue
        if remain:
            rest[monomial] = remain
        quotient[part] = times
        left[monomial] -= remain
        for m, c in b.poly:
            key = tuple(sorted(part + m))
            value = left.get(key, 0) - times * c
            if value:
                left[key] = value
            else:
                left.pop(key, None)
    for m, c in left.items():
        rest[m] = rest.get(m, 0) + c
    return cx.from_terms(quotient), cx.from_terms(rest)


def exact_quotient_node(a: Dim, b: Dim) -> Dim | None:
    """The polynomial q with q * b == a for all values of the symbols (0 included), or None."""
    if b.constant == 0:
        return None
    quotient, rest = divide_with_rest(a, b)
    return quotient if rest.constant == 0 else None


def floordiv(a: Dim, b: Dim) -> Dim:
    """a // b in canonical form."""
    facts = a.cx.facts
    a, b = facts.reduce(a), facts.reduce(b)
    if b.constant is not None:
        return _by_constant(a, b.constant)
    return _by_dim(a, b)


def _atom(a: Dim, b: Dim) -> Dim:
    hint = a.hint // b.hint if b.hint else 0
    return a.cx.atom_dim("floordiv", (a, b), hint)


def _by_dim(a: Dim, b: Dim) -> Dim:
    cx = a.cx
    if a.constant == 0:
        return a
    content = 0
    for _, c in (*a.poly, *b.poly):
        content = gcd(content, c)
    if content > 1:
        return _scaled(cx, a, content).floordiv(_scaled(cx, b, content))
    common = tuple(i for i in common_monomial(a, b) if cx.atoms[i].lo >= 1)
    if common:
        return divide_by_monomial(a, common).floordiv(divide_by_monomial(b, common))
    if cx.facts.is_zero(b) is False:
        quotient, rest = divide_with_rest(a, b)
        if rest.constant == 0:
            return quotient
        if cx.facts.is_nonneg(b.sub(1)):
            for whole in (0, -1):
                low = rest.sub(b.mul(whole))
                if cx.facts.is_nonneg(low) and cx.facts.is_nonneg(b.sub(low).sub(1)):
                    return quotient.add(whole)
        if quotient.constant != 0:
            return quotient.add(rest.floordiv(b))
    return _atom(a, b)


def _scaled(cx: ShapeContext, dim: Dim, content: int) -> Dim:
    return cx.from_terms({m: c // content for m, c in dim.poly})


def _by_constant(a: Dim, divisor: int) -> Dim:
    cx = a.cx
    if divisor == 0:
        raise ZeroDivisionError("a size divided by 0")
    if divisor < 0:
        return _by_constant(a.neg(), -divisor)
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in a.poly:
        whole[monomial], rest[monomial] = divmod(coefficient, divisor)
    quotient = cx.from_terms(whole)
    remainder = cx.from_terms(rest)
    if remainder.lo >= 0 and remainder.hi < divisor:
        return quotient
    shared = divisor
    for monomial, coefficient in remainder.poly:
        if monomial:
            shared = gcd(shared, coefficient)
    if shared > 1:
        # The constant is rounded down too: what it loses cannot carry over.
        remainder = cx.from_terms({m: c // shared for m, c in remainder.poly})
        divisor //= shared
        if divisor == 1:
            return quotient.add(remainder)
        return quotient.add(_by_constant(remainder, divisor))
    return quotient.add(_nested(remainder, divisor))


def _nested(a: Dim, divisor: int) -> Dim:
    """(x // m + k) // divisor is (x + k * m) // (m * divisor), for positive constants m."""
    cx = a.cx
    inner = [(m, c) for m, c in a.poly if m]
    if len(inner) == 1 and inner[0][1] == 1 and len(inner[0][0]) == 1:
        atom = cx.atoms[inner[0][0][0]]
        if atom.kind == "floordiv" and atom.args[1].constant is not None:
            step = atom.args[1].constant
            offset = next((c for m, c in a.poly if not m), 0)
            return _by_constant(atom.args[0].add(offset * step), step * divisor)
    return _atom(a, cx.node(divisor))
