"""Schedules of scans: running sums and the like along an axis, in one pass over the data."""

from pydisc.fusion.kernel_program import KernelProgram
from pydisc.schedule.memory_bound import COLUMN_VECTORS, finish, is_column, work
from pydisc.schedule.schedule import Schedule, ScheduledKernel
from pydisc.shape import product


def schedule_scan(
    program: KernelProgram, outer: list[int], inner: list[int], lanes: int
) -> ScheduledKernel:
    """Lanes run across the scanned axis where the data is contiguous there, else along it."""
    cost = work(program, [*outer, *inner])
    if is_column(program, outer, inner):
        rows, vector = outer[:-1], outer[-1]
        block = lanes * COLUMN_VECTORS
        blocks = (program.axes[vector] + (block - 1)) // block
        schedule = Schedule("scan", program, tuple(rows), vector, loops=tuple(inner), block=block)
        return finish(schedule, product([program.axes[a] for a in rows]) * blocks, cost)
    schedule = Schedule("scan", program, tuple(outer), inner[-1], loops=tuple(inner[:-1]))
    return finish(schedule, product([program.axes[a] for a in outer]), cost)
