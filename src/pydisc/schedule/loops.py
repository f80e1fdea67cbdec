"""Schedules of memory-bound kernels: maps, row reductions, column reductions; scans in scan.py."""

from dataclasses import replace

from pydisc.fusion.collapse import collapse_axes
from pydisc.fusion.kernel_program import KernelProgram
from pydisc.schedule.memory_bound import COLUMN_VECTORS, finish, is_column, work
from pydisc.schedule.scan import schedule_scan
from pydisc.schedule.schedule import Schedule, ScheduledKernel
from pydisc.shape import product, size_min

MAP_BLOCK = 4096
"""Elements of a map over one axis that a unit of work takes."""


def schedule_loops(program: KernelProgram, lanes: int) -> ScheduledKernel:
    """The schedule of a kernel without a contraction."""
    program = collapse_axes(program)
    outer, inner = list(program.outer), list(program.inner)
    if not outer and not inner:
        outer = [len(program.axes)]
        program = replace(program, axes=(*program.axes, 1), outer=tuple(outer))
    if not inner:
        return _map(program, outer)
    if any(e.op == "scan" for e in program.exprs):
        return schedule_scan(program, outer, inner, lanes)
    if is_column(program, outer, inner):
        return _column(program, outer, inner, lanes)
    return _row(program, outer, inner)


def _map(program: KernelProgram, outer: list[int]) -> ScheduledKernel:
    rows, vector = outer[:-1], outer[-1]
    extent = program.axes[vector]
    rows_count = product([program.axes[a] for a in rows])
    block = 0
    units = rows_count * size_min(extent, 1)  # without elements no row is looked at
    if not rows:
        block = MAP_BLOCK
        units = (extent + (block - 1)) // block
    return finish(
        Schedule("map", program, tuple(rows), vector, block=block), units, work(program, outer)
    )


def _row(program: KernelProgram, outer: list[int], inner: list[int]) -> ScheduledKernel:
    applies = sum(e.op == "apply" for e in program.exprs)
    unroll = 4 if applies <= 16 else 2
    schedule = Schedule(
        "row", program, tuple(outer), inner[-1], loops=tuple(inner[:-1]), unroll=unroll
    )
    units = product([program.axes[a] for a in outer])
    return finish(schedule, units, work(program, [*outer, *inner]))


def _column(
    program: KernelProgram, outer: list[int], inner: list[int], lanes: int
) -> ScheduledKernel:
    rows, vector = outer[:-1], outer[-1]
    block = lanes * COLUMN_VECTORS
    blocks = (program.axes[vector] + (block - 1)) // block
    units = product([program.axes[a] for a in rows]) * blocks
    schedule = Schedule("column", program, tuple(rows), vector, loops=tuple(inner), block=block)
    return finish(schedule, units, work(program, [*outer, *inner]))
