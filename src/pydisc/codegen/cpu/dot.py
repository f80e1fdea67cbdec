"""Matrix products: the driver around `gemm_panels`, and the epilogue on a tile hot in L1."""

from dataclasses import dataclass

from pydisc.codegen.common.assembly_text import PTR, Text, Val
from pydisc.codegen.cpu.gemm_microkernel import EPILOGUE_ARGS
from pydisc.codegen.cpu.loops import SIGNATURE
from pydisc.codegen.cpu.point import Arguments, Point
from pydisc.fusion.kernel_program import Contraction, Expr, KernelProgram, Linear
from pydisc.schedule.schedule import Schedule
from pydisc.targets.cpu import CpuTarget


def emit_dot(t: Text, name: str, schedule: Schedule, param_count: int, target: CpuTarget) -> None:
    """Emit a dot schedule: `@name`, and `@name_epilogue` if it does more than the product."""
    _Dot(t, name, schedule, param_count, target).emit()


def block_height(t: Text, rows: Val, blocks: Val, mr: int) -> Val:
    """Rows of a block: all blocks alike, whole register tiles."""
    blocks = t.maximum(blocks, t.const(1))
    even = t.div(t.add(rows, t.sub(blocks, t.const(1))), blocks)
    return t.mul(t.div(t.add(even, t.const(mr - 1)), t.const(mr)), t.const(mr))


@dataclass
class _Dot:
    t: Text
    name: str
    schedule: Schedule
    param_count: int
    target: CpuTarget

    @property
    def program(self) -> KernelProgram:
        return self.schedule.program

    @property
    def contraction(self) -> Contraction:
        assert self.program.contraction is not None
        return self.program.contraction

    @property
    def m_axis(self) -> int:
        return self.schedule.loops[0] if self.schedule.loops else -1

    def __post_init__(self) -> None:
        exprs = self.program.exprs
        self.sum = next(i for i, e in enumerate(exprs) if e.op == "accumulator")
        """The expression that the sums of the tile are: the product, or the product plus a bias."""
        self.bias = self._find_bias()
        stores = self.program.stores
        self.has_epilogue = [store.expr for store in stores] != [self.sum]

    def _find_bias(self) -> Expr | None:
        """A row that is added to the product first: the sums start with it, at no cost.

        The micro-kernels read whole panels of it, so only a multiple of their width will do.
        """
        exprs = self.program.exprs
        vector = self.schedule.vector
        columns = self.program.axes[vector] if vector >= 0 else 0
        users = [i for i, e in enumerate(exprs) if self.sum in e.args]
        stored = any(store.expr == self.sum for store in self.program.stores)
        if stored or len(users) != 1 or not isinstance(columns, int) or columns % self.target.nr:
            return None
        user = exprs[users[0]]
        if user.op != "apply" or user.fn != "add" or user.args[0] == user.args[1]:
            return None
        other = exprs[user.args[1] if user.args[0] == self.sum else user.args[0]]
        if other.op != "load" or other.index.terms != ((vector, 1),) or other.dtype != "f32":
            return None
        self.sum = users[0]
        return other

    def emit(self) -> None:
        t = self.t
        if self.has_epilogue:
            with t.function(f"{self.name}_epilogue", EPILOGUE_ARGS, public=False) as values:
                self._epilogue(*values)
        with t.function(self.name, SIGNATURE, header=str(self.schedule)) as (
            block,
            begin,
            end,
            scratch,
        ):
            self._driver(
                Arguments(t, self.program, block, self.param_count), block, begin, end, scratch
            )

    def _extent(self, args: Arguments, axis: int) -> Val:
        return args.size(self.program.axes[axis]) if axis >= 0 else self.t.const(1)

    def _driver(self, args: Arguments, block_args: Val, begin: Val, end: Val, scratch: Val) -> None:
        t, c = self.t, self.contraction
        batch = self.schedule.rows
        env = t.stack(1 + len(batch), "i64", align=8)
        t.store(block_args, env, align=8)
        columns = self._extent(args, self.schedule.vector)
        depth = self._extent(args, c.k[0] if c.k else -1)
        nr = t.const(self.target.nr)
        panels = t.div(t.add(columns, t.const(self.target.nr - 1)), nr)
        rows = self._extent(args, self.m_axis)
        limit = t.const(self.schedule.block)
        blocks = t.div(t.add(rows, t.sub(limit, t.const(1))), limit)
        height = block_height(t, rows, blocks, self.target.mr)
        with t.when(t.compare("lt", begin, end)):
            first = t.div(begin, panels)
            last = t.div(t.sub(end, t.const(1)), panels)
            with t.loop(first, t.add(last, t.const(1))) as loop:
                base = t.mul(loop.index, panels)
                p0 = t.maximum(t.sub(begin, base), t.const(0))
                p1 = t.minimum(t.sub(end, base), panels)
                m0 = t.mul(t.rem(loop.index, blocks), height)
                m1 = t.minimum(t.add(m0, height), rows)
                point = Point(args, self._indices(args, t.div(loop.index, blocks)))
                for position, axis in enumerate(batch):
                    t.store(point.scalars[axis], t.at(env, 1 + position, "i64"), align=8)
                a = point.pointer(args.inputs[c.lhs_slot], "a", 0, self._without(c.lhs, c.k), "f32")
                rhs = args.inputs[c.rhs_slot]
                if not self.schedule.rhs_weight:
                    self._pack(args, point, depth, columns, scratch, p0, p1)
                    rhs = scratch
                store = self.program.stores[0]
                out = point.pointer(args.outputs[0], "c", 0, store.index, store.dtype)
                lda = self._stride(args, c.lhs, (self.m_axis,))
                ldc = self._stride(args, store.index, (self.m_axis,))
                null = t.null()
                epilogue = self._epilogue_address() if self.has_epilogue else null
                init = null
                if self.bias is not None:
                    source = args.inputs[self.bias.slot]
                    init = point.pointer(source, "init", 0, self.bias.index, "f32")
                work = [a, lda, rhs, out, ldc, m0, m1, columns, depth, p0, p1, init, epilogue, env]
                t.call("gemm_panels", work)

    def _pack(
        self,
        args: Arguments,
        point: Point,
        depth: Val,
        columns: Val,
        scratch: Val,
        p0: Val,
        p1: Val,
    ) -> None:
        """Pack the panels [p0, p1) of a right operand that only exists at run time."""
        c = self.contraction
        rhs = args.inputs[c.rhs_slot]
        source = point.pointer(rhs, "b", 0, self._without(c.rhs, c.k), "f32")
        stride_k = self._stride(args, c.rhs, c.k)
        stride_n = self._stride(args, c.rhs, c.n)
        self.t.call("pack_b", [source, stride_k, stride_n, depth, columns, scratch, p0, p1])

    def _epilogue_address(self) -> Val:
        t = self.t
        types = ", ".join(type_ for _, type_ in EPILOGUE_ARGS)
        made = t.op(f"func.constant @{self.name}_epilogue : ({types}) -> ()", f"({types}) -> ()")
        return t.op(f"builtin.unrealized_conversion_cast {made} : ({types}) -> () to {PTR}", PTR)

    @staticmethod
    def _without(form: Linear, axes: tuple[int, ...]) -> Linear:
        return Linear(tuple(term for term in form.terms if term[0] not in axes), form.offset)

    def _stride(self, args: Arguments, form: Linear, axes: tuple[int, ...]) -> Val:
        """The step of a form along the one axis of a group; an absent axis has extent 1."""
        if not axes or axes[0] < 0:
            return self.t.const(1)
        return args.size(form.coefficient(axes[0]))

    def _indices(self, args: Arguments, number: Val) -> dict[int, Val]:
        t, batch = self.t, self.schedule.rows
        indices: dict[int, Val] = {}
        for position in range(len(batch) - 1, -1, -1):
            axis = batch[position]
            if position == 0:
                indices[axis] = number
            else:
                extent = args.size(self.program.axes[axis])
                indices[axis] = t.rem(number, extent)
                number = t.div(number, extent)
        return indices

    def _epilogue(
        self, env: Val, tile: Val, tile_ld: Val, m0: Val, rows: Val, n0: Val, cols: Val
    ) -> None:
        """Rows of a tile: the sums in, the outputs out."""
        t = self.t
        args = Arguments(t, self.program, t.load(env, PTR, align=8), self.param_count)
        fixed = {
            axis: t.load(t.at(env, 1 + position, "i64"), "i64")
            for position, axis in enumerate(self.schedule.rows)
        }
        vector, m = self.schedule.vector, self.m_axis
        stores = self.program.stores
        outputs = [store.expr for store in stores]
        varying = frozenset({m, vector})
        batch_point = Point(args, fixed, vector)
        batch_point.hoist(outputs, varying, set())
        for position, store in enumerate(stores):
            batch_point.hoist_store(position, store)
        with t.loop(t.const(0), rows) as loop:
            scalars = {m: t.add(m0, loop.index)} if m >= 0 else {}
            row = batch_point.at(scalars=scalars)
            row.hoist(outputs, frozenset({vector}), set())
            for position, store in enumerate(stores):
                row.hoist_store(position, store)
            source = t.at(tile, t.mul(loop.index, tile_ld))

            def vectors(j: Val, mask: Val | None = None) -> None:
                point = row.at(start=t.add(n0, j), mask=mask)
                point.values[self.sum] = t.load(t.at(source, j), t.vector("f32"))
                values = [point.evaluate(output) for output in outputs]
                for position, value in enumerate(values):
                    point.store(position, stores[position], value)

            nr = t.const(self.target.nr)
            with t.when(t.compare("eq", cols, nr)) as whole:
                for j in range(0, self.target.nr, t.lanes):
                    vectors(t.const(j))
            with whole.otherwise(), t.loop(t.const(0), cols, t.lanes) as inner:
                vectors(inner.index, t.tail_mask(t.sub(cols, inner.index)))
