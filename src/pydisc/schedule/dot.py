"""The schedule of a matrix product with its epilogue."""

from dataclasses import replace

from pydisc.fusion.kernel_program import KernelProgram, Size
from pydisc.schedule.blocking import default_blocking
from pydisc.schedule.schedule import Schedule, ScheduledKernel, parametrize
from pydisc.shape import product
from pydisc.targets.cpu import CpuTarget

FLOPS_PER_ELEMENT = 32
"""Multiply-adds that take as long as one element of a memory-bound kernel."""

READS_PER_ELEMENT = 8
"""Elements of the right operand that are read in the time of one, in a stream."""


def schedule_dot(
    program: KernelProgram, target: CpuTarget, weights: frozenset[int]
) -> ScheduledKernel:
    """Units of work are panels of NR columns, for each block of rows of each batch element.

    Threads take neighbouring units, so that with many rows each has rows of its own and with few
    rows columns of its own.

    `program` has collapsed axes, one axis for k and one for n. A right operand that is a weight is
    packed once, ahead of the calls; another is packed by each unit into scratch memory.
    """
    contraction = program.contraction
    assert contraction is not None
    *outer_m, m = contraction.m or (-1,)
    n = contraction.n[0] if contraction.n else -1
    extents = program.axes
    batch = (*contraction.batch, *outer_m)
    columns: Size = extents[n] if n >= 0 else 1
    panels = (columns + (target.nr - 1)) // target.nr
    rows: Size = extents[m] if m >= 0 else 1
    block = default_blocking(target).mc
    units = product([extents[a] for a in batch]) * ((rows + (block - 1)) // block) * panels
    every = (*contraction.batch, *contraction.m, *contraction.n, *contraction.k)
    work = product([extents[a] for a in every]) // FLOPS_PER_ELEMENT
    right = (*contraction.batch, *contraction.n, *contraction.k)
    work = work + product([extents[a] for a in right]) // READS_PER_ELEMENT
    weight = program.inputs[contraction.rhs_slot] in weights and contraction.rhs.axes <= {
        *contraction.n,
        *contraction.k,
    }
    schedule = Schedule(
        "dot", program, batch, n, loops=(m,) if m >= 0 else (), block=block, rhs_weight=weight
    )
    params: list[Size] = []
    anonymous = replace(program, inputs=tuple(range(len(program.inputs))))
    key = parametrize(replace(schedule, program=anonymous), params)
    return ScheduledKernel(key, tuple(params), units, work, program.inputs)


def scratch_floats(program: KernelProgram, target: CpuTarget) -> Size:
    """f32 elements of scratch that a thread needs to pack the right operand."""
    contraction = program.contraction
    assert contraction is not None
    columns = product([program.axes[a] for a in contraction.n])
    depth = product([program.axes[a] for a in contraction.k])
    return (columns + (target.nr - 1)) // target.nr * target.nr * depth
