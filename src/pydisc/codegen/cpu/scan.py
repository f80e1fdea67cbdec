"""Scans: one pass along an axis that carries the running values, with everything around them.

Lanes run across the scanned axis, each with a running value of its own, or along it: then a vector
is scanned in log2(lanes) steps inside its register, and its last lane goes on to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydisc.codegen.common.assembly_text import Text, Val, register_type
from pydisc.codegen.cpu.apply import is_signed
from pydisc.codegen.cpu.neutral import neutral
from pydisc.codegen.cpu.point import Point
from pydisc.fusion.kernel_program import Expr, KernelProgram
from pydisc.schedule.schedule import Schedule


def emit_scan(schedule: Schedule, point: Point, low: Val, high: Val) -> None:
    """Emit a unit of work of a scan; `low` to `high` is its part of the vector axis."""
    scan = _Scan(schedule, point.args.program, point.t)
    scan.across(point, low, high) if scan.is_across else scan.along(point, high)


@dataclass
class _Scan:
    schedule: Schedule
    program: KernelProgram
    t: Text

    def __post_init__(self) -> None:
        exprs, stores = self.program.exprs, self.program.stores
        inner = frozenset(self.program.inner)
        self.scans = [i for i, e in enumerate(exprs) if e.op == "scan"]
        """In order: an expression comes after those that it needs."""
        self.is_across = self.schedule.vector not in inner
        self.stores = [i for i, store in enumerate(stores) if store.index.axes & inner]
        self.row_stores = [i for i in range(len(stores)) if i not in self.stores]

    def _neutrals(self) -> list[Val]:
        t, exprs = self.t, [self.program.exprs[i] for i in self.scans]
        return [t.const(neutral(e.fn, e.dtype), t.vector(register_type(e.dtype))) for e in exprs]

    def _begin(self, point: Point) -> None:
        """What a row has once: its outputs that are not scanned, and all that does not vary."""
        program = self.program
        for position in self.row_stores:
            store = program.stores[position]
            point.store(position, store, point.evaluate(store.expr))
        wanted = [program.exprs[i].args[0] for i in self.scans]
        wanted += [program.stores[i].expr for i in self.stores]
        point.hoist(wanted, frozenset({*self.schedule.loops, *self.program.inner}), set())
        for position in self.stores:
            point.hoist_store(position, program.stores[position])

    def _step(self, point: Point, sums: Sequence[Val]) -> list[Val]:
        """Scan one vector, store what is computed from it, and give the sums for the next."""
        after: list[Val] = []
        for index, total in zip(self.scans, sums, strict=True):
            e = self.program.exprs[index]
            value = point.evaluate(e.args[0])
            if not self.is_across:
                value = self._inside(e, value, point.mask)
            value = self._combine(e, total, value)
            point.values[index] = value
            if not self.is_across:
                value = self.t.splat(self.t.extract(value, self.t.lanes - 1))
            after.append(value)
        for position in self.stores:
            store = self.program.stores[position]
            point.store(position, store, point.evaluate(store.expr))
        return after

    def _combine(self, e: Expr, x: Val, y: Val) -> Val:
        return self.t.combine(e.fn, x, y, signed=is_signed(e.dtype))

    def _inside(self, e: Expr, value: Val, mask: Val | None) -> Val:
        """The scan of one vector: each step adds the lane 1, 2, 4, ... before."""
        t, lanes = self.t, self.t.lanes
        start = t.const(neutral(e.fn, e.dtype), value.type)
        if mask is not None:
            value = t.select(mask, value, start)
        distance = 1
        while distance < lanes:
            picks = [i if i < distance else lanes + i - distance for i in range(lanes)]
            value = self._combine(e, t.shuffle(start, value, picks), value)
            distance *= 2
        return value

    def _nest(self, point: Point, loops: Sequence[int], sums: list[Val], high: Val) -> list[Val]:
        """Loops over the outer digits of the scanned axis, then the steps along the last one."""
        t = self.t
        if not loops:
            return self._step(point, sums) if self.is_across else self._row(point, sums, high)
        extent = point.args.size(self.program.axes[loops[0]])
        with t.loop(t.const(0), extent, 1, sums) as loop:
            inside = point.at(scalars={loops[0]: loop.index})
            loop.carry(*self._nest(inside, loops[1:], loop.carried, high))
        return loop.results

    def across(self, point: Point, low: Val, high: Val) -> None:
        """Each lane scans its own column."""
        t = self.t
        lanes = t.const(t.lanes)

        def columns(at: Val, mask: Val | None = None) -> None:
            inside = point.at(start=at, mask=mask)
            self._begin(inside)
            self._nest(inside, self.schedule.loops, self._neutrals(), high)

        whole = t.sub(high, t.rem(t.sub(high, low), lanes))
        with t.loop(low, whole, lanes) as loop:
            columns(loop.index)
        with t.when(t.compare("lt", whole, high)):
            columns(whole, t.tail_mask(t.sub(high, whole)))

    def along(self, point: Point, high: Val) -> None:
        """All lanes scan one row."""
        self._begin(point)
        self._nest(point, self.schedule.loops, self._neutrals(), high)

    def _row(self, point: Point, sums: list[Val], high: Val) -> list[Val]:
        t = self.t
        lanes = t.const(t.lanes)
        whole = t.sub(high, t.rem(high, lanes))
        with t.loop(t.const(0), whole, lanes, sums) as loop:
            loop.carry(*self._step(point.at(start=loop.index), loop.carried))
        totals = loop.results
        with t.when(t.compare("lt", whole, high), [v.type for v in totals]) as branch:
            tail = point.at(start=whole, mask=t.tail_mask(t.sub(high, whole)))
            branch.give(*self._step(tail, totals))
        with branch.otherwise():
            branch.give(*totals)
        return branch.results
