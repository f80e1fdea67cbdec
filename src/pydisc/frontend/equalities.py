"""Sizes that a trace proves to be one: found among its guards, merged for the next trace."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydisc.frontend.captured import InputEquality
from pydisc.shape import Dim, Guard, Size


def equalities(guards: Sequence[Guard]) -> list[tuple[InputEquality, str, Size | str]]:
    """Guards `symbol == symbol` and `symbol == constant` that hold: (report, symbol, equal to).

    Two guards `a >= b` and `b >= a` are one too.
    """
    found: list[tuple[InputEquality, str, Size | str]] = []
    at_least: set[Dim] = set()
    for guard in guards:
        if guard.kind == "specialize":
            continue
        cond = guard.cond if guard.value else guard.cond.sym_not()
        if cond.kind == "ge":
            at_least.add(cond.args[0])
        if cond.kind == "eq" or (cond.kind == "ge" and cond.args[0].neg() in at_least):
            pair = _equal_pair(cond.args[0])
            if pair is not None:
                found.append((InputEquality(f"{pair[0]} == {pair[1]}", guard.where), *pair))
    return found


def _equal_pair(dim: Dim) -> tuple[str, Size | str] | None:
    names: list[tuple[str, int]] = []
    constant = 0
    for atoms, coefficient in dim.terms:
        if not atoms:
            constant = coefficient
        elif len(atoms) == 1 and atoms[0].kind == "sym" and abs(coefficient) == 1:
            names.append((atoms[0].name, coefficient))
        else:
            return None
    if len(names) == 1:
        return names[0][0], -constant * names[0][1]
    if len(names) == 2 and not constant and names[0][1] == -names[1][1]:
        return names[1][0], names[0][0]
    return None


def merge(equal: dict[str, Size | str], found: Sequence[tuple[Any, str, Size | str]]) -> None:
    for _, name, other in found:
        old, new = (
            resolve(equal, name),
            resolve(equal, other) if isinstance(other, str) else other,
        )
        if isinstance(old, str):
            if old != new:
                equal[old] = new
        elif isinstance(new, str):
            equal[new] = old


def resolve(equal: Mapping[str, Size | str], name: str) -> Size | str:
    """What stands for a symbol after the merges: a symbol's name, or an int."""
    at: Size | str = name
    while isinstance(at, str) and at in equal:
        at = equal[at]
    return at
