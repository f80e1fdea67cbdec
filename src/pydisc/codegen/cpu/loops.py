"""Memory-bound kernels: maps, row reductions and column reductions with everything around them.

Scans are in scan.py.

A row kernel makes several passes over a row that stays in L1: each pass computes all reductions
whose inputs are known, several vectors in flight; the last one stores. Costly values that two
passes need are kept in the output row meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydisc.artifact import program as abi
from pydisc.codegen.common.assembly_text import PTR, Text, Val, register_type
from pydisc.codegen.cpu.apply import is_signed
from pydisc.codegen.cpu.neutral import neutral
from pydisc.codegen.cpu.point import Arguments, Point, closure
from pydisc.codegen.cpu.scan import emit_scan
from pydisc.fusion.kernel_program import KernelProgram
from pydisc.ir.types import FLOATS
from pydisc.schedule.memory_bound import COSTLY
from pydisc.schedule.schedule import Schedule, unit_stride

SIGNATURE = (("args", PTR), ("begin", "i64"), ("end", "i64"), ("scratch", PTR))
"""Every kernel: its argument block, the units of work to do, scratch memory of this thread."""

Body = Callable[[Point, list[Val]], list[Val]]
"""Emits the inside of a reduction loop: sums so far to sums."""

CASCADE = 64
"""Numbers that are added one by one before their sum is added to others."""


def emit_loops(t: Text, name: str, schedule: Schedule, param_count: int) -> None:
    """Emit the function of a map, row or column schedule."""
    with t.function(name, SIGNATURE, header=str(schedule)) as (block, begin, end, _):
        args = Arguments(t, schedule.program, block, param_count)
        _Loops(t, schedule, args).emit(begin, end)


@dataclass
class _Loops:
    t: Text
    schedule: Schedule
    args: Arguments

    @property
    def program(self) -> KernelProgram:
        return self.schedule.program

    def emit(self, begin: Val, end: Val) -> None:
        t, s = self.t, self.schedule
        nothing = self.args.nothing_to_take()
        if nothing is not None:
            self.args.report(nothing, abi.INDEX_OUT_OF_RANGE)
            end = t.select(nothing, begin, end)
        with t.loop(begin, end) as units:
            unit = units.index
            extent = self.args.size(self.program.axes[s.vector])
            low, high = t.const(0), extent
            if s.block:
                count = t.const(s.block)
                if s.rows:
                    blocks = t.div(t.add(extent, t.const(s.block - 1)), count)
                    number = t.rem(unit, blocks)
                    unit = t.div(unit, blocks)
                else:
                    number = unit
                low = t.mul(number, count)
                high = t.minimum(t.add(low, count), extent)
            point = Point(self.args, self._indices(unit), s.vector)
            if s.kind == "map":
                self._map(point, low, high)
            elif s.kind == "row":
                self._row(point, extent)
            elif s.kind == "scan":
                emit_scan(self.schedule, point, low, high)
            else:
                self._column(point, low, high)

    def _indices(self, unit: Val) -> dict[int, Val]:
        """Take a unit number apart into the indices of the row axes."""
        t, rows = self.t, self.schedule.rows
        indices: dict[int, Val] = {}
        for position in range(len(rows) - 1, -1, -1):
            axis = rows[position]
            if position == 0:
                indices[axis] = unit
            else:
                extent = self.args.size(self.program.axes[axis])
                indices[axis] = t.rem(unit, extent)
                unit = t.div(unit, extent)
        return indices

    # -- vector loops --------------------------------------------------------------------------
    def _vectors(self, point: Point, low: Val, high: Val, body: Callable[[Point], None]) -> None:
        """Run `body(point)` over whole vectors, then over the masked rest."""
        t = self.t
        lanes = t.const(t.lanes)
        whole = t.add(low, t.sub(t.sub(high, low), t.rem(t.sub(high, low), lanes)))
        with t.loop(low, whole, lanes) as loop:
            body(point.at(start=loop.index))
        with t.when(t.compare("lt", whole, high)):
            body(point.at(start=whole, mask=t.tail_mask(t.sub(high, whole))))

    def _store_all(self, point: Point, which: Sequence[int]) -> None:
        for position in which:
            store = self.program.stores[position]
            point.store(position, store, point.evaluate(store.expr))

    def _map(self, point: Point, low: Val, high: Val) -> None:
        stores = self.program.stores
        varying = frozenset({self.schedule.vector})
        point.hoist([s.expr for s in stores], varying, set())
        for position, store in enumerate(stores):
            point.hoist_store(position, store)
        self._vectors(point, low, high, lambda p: self._store_all(p, range(len(stores))))

    # -- reductions ----------------------------------------------------------------------------
    def _stages(self) -> list[list[int]]:
        """Reductions by depth: each stage needs only those before it."""
        depth: list[int] = []
        stages: dict[int, list[int]] = {}
        for index, e in enumerate(self.program.exprs):
            below = max((depth[a] for a in e.args), default=0)
            depth.append(below + 1 if e.op == "reduce" else below)
            if e.op == "reduce":
                stages.setdefault(depth[index], []).append(index)
        return [stages[d] for d in sorted(stages)]

    def _roots(self, stage: Sequence[int]) -> list[int]:
        return [self.program.exprs[r].args[0] for r in stage]

    def _neutrals(self, stage: Sequence[int]) -> list[Val]:
        exprs = [self.program.exprs[r] for r in stage]
        t = self.t
        return [t.const(neutral(e.fn, e.dtype), t.vector(register_type(e.dtype))) for e in exprs]

    def _combine(
        self, stage: Sequence[int], sums: Sequence[Val], values: Sequence[Val]
    ) -> list[Val]:
        exprs = [self.program.exprs[r] for r in stage]
        return [
            self.t.combine(e.fn, total, value, signed=is_signed(e.dtype))
            for e, total, value in zip(exprs, sums, values, strict=True)
        ]

    def _nest(self, point: Point, loops: Sequence[int], sums: list[Val], body: Body) -> list[Val]:
        """Scalar loops over axes around `body(point, sums) -> sums`."""
        if not loops:
            return body(point, sums)
        t = self.t
        extent = self.args.size(self.program.axes[loops[0]])
        with t.loop(t.const(0), extent, 1, sums) as loop:
            inside = point.at(scalars={loops[0]: loop.index})
            loop.carry(*self._nest(inside, loops[1:], loop.carried, body))
        return loop.results

    def _reduce_nest(
        self, point: Point, loops: Sequence[int], stage: Sequence[int], sums: list[Val], body: Body
    ) -> list[Val]:
        """`_nest` around a reduction whose sums of floats are cascades: see `_cascade`."""
        if not loops:
            return body(point, sums)
        t = self.t
        size = self.program.axes[loops[0]]

        def some(low: Val, high: Val, sums: list[Val]) -> list[Val]:
            with t.loop(low, high, 1, sums) as loop:
                inside = point.at(scalars={loops[0]: loop.index})
                loop.carry(*self._reduce_nest(inside, loops[1:], stage, loop.carried, body))
            return loop.results

        levels = self._levels(stage, size, 1)
        return self._cascade(t.const(0), self.args.size(size), 1, levels, stage, sums, some)

    def _levels(self, stage: Sequence[int], size: Any, step: int) -> int:
        """Levels of the cascade of a stage: only sums and products of floats need one."""
        exprs = [self.program.exprs[r] for r in stage]
        if not any(e.dtype in FLOATS and e.fn in ("add", "multiply") for e in exprs):
            return 0
        blocks = (step * CASCADE, step * CASCADE**2)
        return sum(not isinstance(size, int) or size > block for block in blocks)

    def _cascade(
        self,
        low: Val,
        high: Val,
        step: int,
        levels: int,
        stage: Sequence[int],
        sums: list[Val],
        some: Callable[[Val, Val, list[Val]], list[Val]],
    ) -> list[Val]:
        """Reduce from `low` to `high` in blocks of CASCADE^levels steps that start anew each.

        n numbers added one by one lose n units in the worst case, blocks of blocks 2 CASCADE and
        n / CASCADE^2.
        """
        if not levels:
            return some(low, high, sums)
        t = self.t
        size = t.const(step * CASCADE**levels)
        with t.loop(low, high, size, sums) as loop:
            end = t.minimum(t.add(loop.index, size), high)
            block = self._cascade(
                loop.index, end, step, levels - 1, stage, self._neutrals(stage), some
            )
            loop.carry(*self._combine(stage, loop.carried, block))
        return loop.results

    def _split_stores(self, inner: frozenset[int]) -> tuple[list[int], list[int]]:
        """Outputs with a value for each element, and outputs with one for each row."""
        stores = self.program.stores
        element = [i for i, store in enumerate(stores) if store.index.axes & inner]
        return element, [i for i in range(len(stores)) if i not in element]

    def _row(self, point: Point, extent: Val) -> None:
        t, s, program = self.t, self.schedule, self.program
        inner = frozenset({*s.loops, s.vector})
        element, per_row = self._split_stores(inner)
        kept = self._kept_values(element)
        for position in element:
            point.hoist_store(position, program.stores[position])
        done: set[int] = set()
        for stage in self._stages():
            self._row_stage(point, stage, extent, kept, done)
            done |= set(stage)
        point.hoist([store.expr for store in program.stores], inner, done)
        self._store_all(point, per_row)
        if element:

            def finish(p: Point, _: list[Val]) -> list[Val]:
                def store(q: Point) -> None:
                    self._recall(q, kept, done)
                    self._store_all(q, element)

                self._vectors(p, t.const(0), extent, store)
                return []

            self._nest(point, s.loops, [], finish)

    def _kept_values(self, element: Sequence[int]) -> dict[int, int]:
        """Costly values that several passes need, each with an output row that can hold it."""
        exprs, s = self.program.exprs, self.schedule
        inner = frozenset({*s.loops, s.vector})
        passes = [self._roots(stage) for stage in self._stages()]
        passes.append([self.program.stores[i].expr for i in element])
        needed: dict[int, int] = {}
        for roots in passes:
            for index in closure(exprs, roots):
                e = exprs[index]
                if e.op == "apply" and e.fn in COSTLY and e.axes & inner:
                    needed[index] = needed.get(index, 0) + 1
        stores = self.program.stores
        free = [i for i in element if unit_stride(stores[i].index.coefficient(s.vector))]
        kept: dict[int, int] = {}
        # Outermost first: keeping a value makes what it is computed from unnecessary.
        for index in sorted((i for i, n in needed.items() if n > 1), reverse=True):
            home = next((i for i in free if stores[i].dtype == exprs[index].dtype), None)
            if home is not None:
                kept[index] = home
                free.remove(home)
        return kept

    def _computed(self, done: set[int]) -> set[int]:
        """Values of elements that the passes for finished reductions have computed."""
        return closure(self.program.exprs, self._roots(sorted(done)))

    def _recall(self, point: Point, kept: dict[int, int], done: set[int]) -> None:
        """Read back values that an earlier pass has kept in an output row."""
        for index in kept.keys() & self._computed(done):
            position = kept[index]
            point.values[index] = point.reload(position, self.program.stores[position])

    def _row_stage(
        self, point: Point, stage: Sequence[int], extent: Val, kept: dict[int, int], done: set[int]
    ) -> None:
        t, s, program = self.t, self.schedule, self.program
        roots = self._roots(stage)
        point.hoist(roots, frozenset({*s.loops, s.vector}), done)
        new = (closure(program.exprs, roots) & kept.keys()) - self._computed(done)

        def step(p: Point, sums: Sequence[Val]) -> list[Val]:
            self._recall(p, kept, done)
            values = [p.evaluate(root) for root in roots]
            for index in sorted(new):
                p.store(kept[index], program.stores[kept[index]], p.evaluate(index))
            if p.mask is not None:
                fill = self._neutrals(stage)
                values = [t.select(p.mask, v, n) for v, n in zip(values, fill, strict=True)]
            return self._combine(stage, sums, values)

        def along(p: Point, sums: list[Val]) -> list[Val]:
            return self._fold(p, stage, extent, sums, step)

        sums = self._reduce_nest(point, s.loops, stage, self._neutrals(stage), along)
        for r, total in zip(stage, sums, strict=True):
            e = program.exprs[r]
            point.values[r] = t.splat(t.reduce(e.fn, total, signed=is_signed(e.dtype)))

    def _fold(
        self, point: Point, stage: Sequence[int], extent: Val, sums: list[Val], step: Body
    ) -> list[Val]:
        """Fold a row into sums: several vectors in flight, then single ones, then a masked rest."""
        t, unroll, width = self.t, self.schedule.unroll, len(stage)
        lanes, stride = t.const(t.lanes), t.const(t.lanes * unroll)
        bulk = t.sub(extent, t.rem(extent, stride))
        whole = t.sub(extent, t.rem(extent, lanes))

        def fly(low: Val, high: Val, sums: list[Val]) -> list[Val]:
            flights = [*sums, *(self._neutrals(stage) * (unroll - 1))]
            with t.loop(low, high, stride, flights) as loop:
                out: list[Val] = []
                for u in range(unroll):
                    at = t.add(loop.index, t.const(u * t.lanes)) if u else loop.index
                    out += step(point.at(start=at), loop.carried[u * width : (u + 1) * width])
                loop.carry(*out)
            totals = loop.results[:width]
            for u in range(1, unroll):
                totals = self._combine(stage, totals, loop.results[u * width : (u + 1) * width])
            return totals

        span = t.lanes * unroll
        levels = self._levels(stage, self.program.axes[self.schedule.vector], span)
        totals = self._cascade(t.const(0), bulk, span, levels, stage, sums, fly)
        with t.loop(bulk, whole, lanes, totals) as rest:
            rest.carry(*step(point.at(start=rest.index), rest.carried))
        totals = rest.results
        with t.when(t.compare("lt", whole, extent), [v.type for v in totals]) as branch:
            tail = point.at(start=whole, mask=t.tail_mask(t.sub(extent, whole)))
            branch.give(*step(tail, totals))
        with branch.otherwise():
            branch.give(*totals)
        return branch.results

    def _column(self, point: Point, low: Val, high: Val) -> None:
        s, program = self.schedule, self.program
        inner = frozenset(s.loops)
        element, per_row = self._split_stores(inner)

        def body(p: Point) -> None:
            done: set[int] = set()
            for stage in self._stages():
                roots = self._roots(stage)
                p.hoist(roots, inner, done)

                def step(q: Point, sums: list[Val], stage=stage, roots=roots) -> list[Val]:
                    return self._combine(stage, sums, [q.evaluate(root) for root in roots])

                sums = self._reduce_nest(p, s.loops, stage, self._neutrals(stage), step)
                p.values.update(zip(stage, sums, strict=True))
                done |= set(stage)
            self._store_all(p, per_row)
            if element:
                p.hoist([program.stores[i].expr for i in element], inner, done)

                def finish(q: Point, _: list[Val]) -> list[Val]:
                    self._store_all(q, element)
                    return []

                self._nest(p, s.loops, [], finish)

        self._vectors(point, low, high, body)
