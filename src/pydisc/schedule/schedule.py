"""Schedules: how a kernel program runs on a CPU. Plain data that prints as one line."""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydisc.fusion.kernel_program import KernelProgram, Size, is_zero


@dataclass(frozen=True)
class Param:
    """A run-time size of a kernel, by position among its size arguments."""

    index: int


@dataclass(frozen=True)
class Schedule:
    """One kernel, scheduled.

    kind: map (no reduction), row (the vector axis is reduced), column (it is kept), scan, dot.
    rows: axes that units of work are counted over; vector: the axis across lanes (-1: none);
    loops: axes looped over inside, outermost first; block: elements of the vector axis that
    a unit takes (0: all), of a dot: rows; unroll: vectors in flight in a reduction.
    Sizes are ints or Params, so equal schedules are equal kernels.
    """

    kind: str
    program: KernelProgram
    rows: tuple[int, ...]
    vector: int
    loops: tuple[int, ...] = ()
    block: int = 0
    unroll: int = 1
    rhs_weight: bool = False

    def __str__(self) -> str:
        p = self.program
        extents = ",".join(_extent(s) for s in p.axes)
        return (
            f"{self.kind}(axes=[{extents}] rows={list(self.rows)} vector={self.vector} "
            f"loops={list(self.loops)} block={self.block} unroll={self.unroll} "
            f"exprs={len(p.exprs)} in={len(p.inputs)} out={len(p.stores)})"
        )


@dataclass(frozen=True)
class ScheduledKernel:
    """A schedule with what its launch needs: size arguments, units of work, cost in elements."""

    schedule: Any
    """A Schedule, or a ChainSchedule."""
    params: tuple[Size, ...]
    units: Size
    work: Size
    inputs: tuple[int, ...]


def _extent(size: Any) -> str:
    return f"p{size.index}" if isinstance(size, Param) else str(size)


def parametrize(value: Any, params: list[Size]) -> Any:
    """Replace every dynamic size inside frozen data by a Param, in order of appearance."""
    if isinstance(value, int | str | float | bool | frozenset) or value is None:
        return value
    if isinstance(value, tuple):
        return tuple(parametrize(v, params) for v in value)
    if is_dataclass(value):
        changes = {f.name: parametrize(getattr(value, f.name), params) for f in fields(value)}
        return type(value)(**changes)
    for i, known in enumerate(params):
        if known is value:
            return Param(i)
    params.append(value)
    return Param(len(params) - 1)


def unit_stride(coefficient: Any) -> bool:
    """Whether a coefficient is the constant 1."""
    return isinstance(coefficient, int) and coefficient == 1


def constant_zero(coefficient: Any) -> bool:
    return is_zero(coefficient)
