"""What the schedules of memory-bound kernels share: their cost, and which way lanes run."""

from collections.abc import Sequence
from dataclasses import replace

from pydisc.fusion.graph import TRANSCENDENTAL
from pydisc.fusion.kernel_program import KernelProgram, Size
from pydisc.schedule.schedule import Schedule, ScheduledKernel, parametrize, unit_stride
from pydisc.shape import product

COLUMN_VECTORS = 4
"""Vectors of a column reduction that a unit of work takes: one cache line or more a row."""
COSTLY = TRANSCENDENTAL | frozenset(
    "erf exp2 log2 log10 asin acos atan sinh cosh asinh acosh atanh divide sqrt rsqrt".split()
)
"""Functions that cost several times what an addition does."""


def finish(schedule: Schedule, units: Size, work: Size) -> ScheduledKernel:
    """The kernel of a schedule: its run-time sizes become parameters."""
    params: list[Size] = []
    inputs = schedule.program.inputs
    anonymous = replace(schedule.program, inputs=tuple(range(len(inputs))))
    key = parametrize(replace(schedule, program=anonymous), params)
    return ScheduledKernel(key, tuple(params), units, work, inputs)


def work(program: KernelProgram, axes: Sequence[int]) -> Size:
    """Elements times a weight for costly functions."""
    weight = 1 + 4 * sum(e.op == "apply" and e.fn in COSTLY for e in program.exprs)
    return product([program.axes[a] for a in axes]) * weight


def is_column(program: KernelProgram, outer: list[int], inner: list[int]) -> bool:
    """Whether lanes run along the last kept axis: more inputs are contiguous there than inside."""
    if not outer:
        return False
    loads = [e for e in program.exprs if e.op in ("load", "take") and e.axes & set(inner)]
    along_kept = sum(unit_stride(e.index.coefficient(outer[-1])) for e in loads)
    along_inner = sum(unit_stride(e.index.coefficient(inner[-1])) for e in loads)
    return along_kept > along_inner
