"""Chains: a dot, a row kernel and a dot that run together, some rows of one matrix at a time.

Attention is one: scores, softmax, and the product with the values. Run one after the other, they
pass whole score matrices through memory, one for each head. In a chain a unit of work is a block of
rows of one matrix: the scores of those rows stay in scratch memory of the thread, in L2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydisc.fusion.kernel_program import Linear, Size
from pydisc.schedule.schedule import Param, Schedule, ScheduledKernel
from pydisc.shape import product, prove_eq

CHAIN_ROWS = 96
"""Rows of a block: whole register tiles; with a thousand columns they still fit L2."""


@dataclass(frozen=True)
class ChainSchedule:
    """Three kernels over the same rows. The first two results live in scratch memory only.

    parts: dot, row kernel, dot. `scores_slot`: the input of the row kernel that is the first
    result; the second result is the left operand of the second dot. Params of the parts follow
    each other: those of part i start at `first_param[i]`.
    """

    parts: tuple[Schedule, Schedule, Schedule]
    scores_slot: int
    first_param: tuple[int, int, int]
    kind: str = "chain"

    @property
    def block(self) -> int:
        """Rows of a unit of work."""
        return self.parts[0].block

    def __str__(self) -> str:
        return "chain(" + "; ".join(map(str, self.parts)) + ")"


def schedule_chain(
    kernels: Sequence[ScheduledKernel], scores: int, weights: int
) -> ScheduledKernel | None:
    """The chain of a dot, a row kernel and a dot, or None if they do not form one.

    `scores`, `weights`: the tensors that pass between them; nothing else may need these.
    """
    first, rows, second = kernels
    matrix = _product_of_rows(first)
    if matrix is None or not _same_rows(rows, scores, matrix) or rows.inputs.count(scores) != 1:
        return None
    if not _left_operand(second, weights, matrix):
        return None
    parts = tuple(
        replace(k.schedule, block=CHAIN_ROWS) if k.schedule.kind == "dot" else k.schedule
        for k in kernels
    )
    counts = [len(k.params) for k in kernels]
    schedule = ChainSchedule(
        parts, rows.inputs.index(scores), (0, counts[0], counts[0] + counts[1])
    )
    blocks = (matrix.rows + (CHAIN_ROWS - 1)) // CHAIN_ROWS
    inputs = tuple(t for k in kernels for t in k.inputs if t not in (scores, weights))
    params = tuple(p for k in kernels for p in k.params)
    work = first.work + rows.work + second.work
    return ScheduledKernel(schedule, params, matrix.batch * blocks, work, inputs)


def scores_floats(kernel: ScheduledKernel) -> Size:
    """f32 elements of a block of scores."""
    first = kernel.schedule.parts[0]
    (n,) = first.program.contraction.n
    return _actual(first.program.axes[n], kernel.params) * CHAIN_ROWS


@dataclass(frozen=True)
class _Matrices:
    """How many matrices, and their sizes."""

    batch: Size
    rows: Size
    columns: Size


def _product_of_rows(kernel: ScheduledKernel) -> _Matrices | None:
    """The matrices that a dot computes, if it stores nothing else and row by row."""
    schedule = kernel.schedule
    program = schedule.program
    c = program.contraction
    if c is None or schedule.rhs_weight or len(program.stores) != 1:
        return None
    if len(schedule.loops) != 1 or len(c.n) != 1 or len(c.k) != 1 or c.dtype != "f32":
        return None
    axes = (*schedule.rows, schedule.loops[0], c.n[0])
    sizes = [_actual(program.axes[a], kernel.params) for a in axes]
    (store,) = program.stores
    if store.dtype != "f32" or not _row_major(store.index, axes, sizes, kernel.params):
        return None
    return _Matrices(product(sizes[:-2]), sizes[-2], sizes[-1])


def _same_rows(kernel: ScheduledKernel, scores: int, matrix: _Matrices) -> bool:
    """Whether a row kernel maps each row of the matrices to a row of its one result."""
    schedule = kernel.schedule
    program = schedule.program
    if schedule.kind != "row" or schedule.loops or len(program.stores) != 1:
        return False
    if scores not in kernel.inputs:
        return False
    slot = kernel.inputs.index(scores)
    axes = (*schedule.rows, schedule.vector)
    sizes = [_actual(program.axes[a], kernel.params) for a in axes]
    (store,) = program.stores
    accesses = [e.index for e in program.exprs if e.slot == slot]
    if store.dtype != "f32" or any(e.slot == slot and e.op != "load" for e in program.exprs):
        return False
    return (
        prove_eq(product(sizes[:-1]), matrix.batch * matrix.rows)
        and prove_eq(sizes[-1], matrix.columns)
        and all(_row_major(f, axes, sizes, kernel.params) for f in (*accesses, store.index))
    )


def _left_operand(kernel: ScheduledKernel, weights: int, matrix: _Matrices) -> bool:
    """Whether a dot multiplies the matrices from the left, in the same order of rows."""
    schedule = kernel.schedule
    program = schedule.program
    c = program.contraction
    if c is None or schedule.rhs_weight or len(schedule.loops) != 1:
        return False
    if len(c.k) != 1 or len(c.n) != 1 or kernel.inputs.count(weights) != 1:
        return False
    slot = kernel.inputs.index(weights)
    if c.lhs_slot != slot or c.rhs_slot == slot or any(e.slot == slot for e in program.exprs):
        return False
    axes = (*schedule.rows, schedule.loops[0], c.k[0])
    sizes = [_actual(program.axes[a], kernel.params) for a in axes]
    return (
        prove_eq(product(sizes[:-2]), matrix.batch)
        and prove_eq(sizes[-2], matrix.rows)
        and prove_eq(sizes[-1], matrix.columns)
        and _row_major(c.lhs, axes, sizes, kernel.params)
    )


def _row_major(
    index: Linear, axes: Sequence[int], sizes: Sequence[Size], params: Sequence[Size]
) -> bool:
    """Whether an address runs over these axes, outermost first, without gaps."""
    if not prove_eq(_actual(index.offset, params), 0) or not index.axes <= set(axes):
        return False
    step: Size = 1
    for axis, size in zip(reversed(axes), reversed(sizes), strict=True):
        if isinstance(size, int) and size == 1:
            continue
        if not prove_eq(_actual(index.coefficient(axis), params), step):
            return False
        step = step * size
    return True


def _actual(size: Any, params: Sequence[Size]) -> Size:
    """A size of a schedule as the program has it."""
    return params[size.index] if isinstance(size, Param) else size
