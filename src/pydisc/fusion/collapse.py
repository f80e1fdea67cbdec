"""Neighbouring axes that every access walks through as one become one axis."""

from collections.abc import Iterator
from dataclasses import replace

from pydisc.fusion.kernel_program import KernelProgram, Linear, Size
from pydisc.shape import prove_eq


def collapse_axes(program: KernelProgram) -> KernelProgram:
    """Merge axes (a, b) of one group where every linear form has coef(a) == coef(b) * extent(b)."""
    groups = [list(program.outer), list(program.inner)]
    contraction = program.contraction
    if contraction is not None:
        groups = [list(g) for g in (contraction.batch, contraction.m, contraction.n, contraction.k)]
    extents = list(program.axes)
    forms = list(_forms(program))
    dropped: dict[int, int] = {}
    for group in groups:
        position = len(group) - 2
        while position >= 0:
            a, b = group[position], group[position + 1]
            if all(_walks_as_one(f, a, b, extents[b]) for f in forms):
                extents[b] = extents[a] * extents[b]
                extents[a] = 1
                dropped[a] = b
                del group[position]
            position -= 1
    if not dropped:
        return program
    return _without(program, dropped, extents, groups)


def _forms(program: KernelProgram) -> Iterator[Linear]:
    for expr in program.exprs:
        if expr.op in ("load", "take", "index"):
            yield expr.index
    for store in program.stores:
        yield store.index
    if program.contraction is not None:
        yield program.contraction.lhs
        yield program.contraction.rhs


def _walks_as_one(form: Linear, a: int, b: int, extent: Size) -> bool:
    return prove_eq(form.coefficient(a), form.coefficient(b) * extent)


def _without(
    program: KernelProgram, dropped: dict[int, int], extents: list[Size], groups: list[list[int]]
) -> KernelProgram:
    def keep(form: Linear) -> Linear:
        return Linear(tuple(t for t in form.terms if t[0] not in dropped), form.offset)

    def remaining(axes: frozenset[int]) -> frozenset[int]:
        return frozenset(a for a in axes if a not in dropped)

    exprs = tuple(
        replace(
            e,
            index=keep(e.index),
            axes=remaining(e.axes),
            reduced=tuple(a for a in e.reduced if a not in dropped),
        )
        for e in program.exprs
    )
    stores = tuple(replace(s, index=keep(s.index)) for s in program.stores)
    contraction = program.contraction
    outer = tuple(a for a in program.outer if a not in dropped)
    inner = tuple(a for a in program.inner if a not in dropped)
    if contraction is not None:
        batch, m, n, k = (tuple(g) for g in groups)
        contraction = replace(
            contraction,
            lhs=keep(contraction.lhs),
            rhs=keep(contraction.rhs),
            batch=batch,
            m=m,
            n=n,
            k=k,
        )
    return replace(
        program,
        axes=tuple(extents),
        outer=outer,
        inner=inner,
        exprs=exprs,
        stores=stores,
        contraction=contraction,
    )
