"""Schedules of memory-bound kernels: maps, row reductions and column reductions."""

from collections.abc import Sequence
from dataclasses import replace

from pydisc.fusion.collapse import collapse_axes
from pydisc.fusion.graph import TRANSCENDENTAL
from pydisc.fusion.kernel_program import KernelProgram, Size
from pydisc.schedule.schedule import Schedule, ScheduledKernel, parametrize, unit_stride
from pydisc.shape import product

MAP_BLOCK = 4096
"""Elements of a map over one axis that a unit of work takes."""
COLUMN_VECTORS = 4
"""Vectors of a column reduction that a unit of work takes: one cache line or more a row."""
COSTLY = TRANSCENDENTAL | {"erf", "divide", "sqrt", "rsqrt"}


def schedule_loops(program: KernelProgram, lanes: int) -> ScheduledKernel:
    """The schedule of a kernel without a contraction."""
    program = collapse_axes(program)
    outer, inner = list(program.outer), list(program.inner)
    if not outer and not inner:
        outer = [len(program.axes)]
        program = replace(program, axes=(*program.axes, 1), outer=tuple(outer))
    if not inner:
        return _map(program, outer)
    if _is_column(program, outer, inner):
        return _column(program, outer, inner, lanes)
    return _row(program, outer, inner)


def _finish(schedule: Schedule, units: Size, work: Size) -> ScheduledKernel:
    params: list[Size] = []
    inputs = schedule.program.inputs
    anonymous = replace(schedule.program, inputs=tuple(range(len(inputs))))
    key = parametrize(replace(schedule, program=anonymous), params)
    return ScheduledKernel(key, tuple(params), units, work, inputs)


def _work(program: KernelProgram, axes: Sequence[int]) -> Size:
    """Elements times a weight for costly functions."""
    weight = 1 + 4 * sum(e.op == "apply" and e.fn in COSTLY for e in program.exprs)
    return product([program.axes[a] for a in axes]) * weight


def _map(program: KernelProgram, outer: list[int]) -> ScheduledKernel:
    rows, vector = outer[:-1], outer[-1]
    extent = program.axes[vector]
    rows_count = product([program.axes[a] for a in rows])
    block = 0
    units = rows_count
    if not rows:
        block = MAP_BLOCK
        units = (extent + (block - 1)) // block
    return _finish(
        Schedule("map", program, tuple(rows), vector, block=block), units, _work(program, outer)
    )


def _row(program: KernelProgram, outer: list[int], inner: list[int]) -> ScheduledKernel:
    applies = sum(e.op == "apply" for e in program.exprs)
    unroll = 4 if applies <= 16 else 2
    schedule = Schedule(
        "row", program, tuple(outer), inner[-1], loops=tuple(inner[:-1]), unroll=unroll
    )
    units = product([program.axes[a] for a in outer])
    return _finish(schedule, units, _work(program, [*outer, *inner]))


def _is_column(program: KernelProgram, outer: list[int], inner: list[int]) -> bool:
    """Whether lanes run along the last kept axis: more inputs are contiguous there than inside."""
    if not outer:
        return False
    loads = [e for e in program.exprs if e.op in ("load", "take") and e.axes & set(inner)]
    along_kept = sum(unit_stride(e.index.coefficient(outer[-1])) for e in loads)
    along_inner = sum(unit_stride(e.index.coefficient(inner[-1])) for e in loads)
    return along_kept > along_inner


def _column(
    program: KernelProgram, outer: list[int], inner: list[int], lanes: int
) -> ScheduledKernel:
    rows, vector = outer[:-1], outer[-1]
    block = lanes * COLUMN_VECTORS
    blocks = (program.axes[vector] + (block - 1)) // block
    units = product([program.axes[a] for a in rows]) * blocks
    schedule = Schedule("column", program, tuple(rows), vector, loops=tuple(inner), block=block)
    return _finish(schedule, units, _work(program, [*outer, *inner]))
