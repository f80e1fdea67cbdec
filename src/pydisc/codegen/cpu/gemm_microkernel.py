"""f32 matrix product: register-tile kernels and the blocked loop that drives them.

The right operand is packed (gemm_pack.py) into panels of NR columns, `[ceil(N / NR)][K][NR]`, so a
kernel reads it in one stream. The left operand is read in place; only k must have stride 1.
"""

from dataclasses import dataclass

from pydisc.codegen.common.assembly_text import I64, PTR, Text, Val
from pydisc.schedule.blocking import Blocking, default_blocking
from pydisc.targets.cpu import CpuTarget

MICROKERNEL_ARGS = (
    ("a", PTR),
    ("lda", I64),
    ("b", PTR),
    ("c", PTR),
    ("ldc", I64),
    ("k", I64),
    ("init", PTR),
    ("ldi", I64),
    ("soon", PTR),
)

PANELS_ARGS = (
    ("a", PTR),
    ("lda", I64),
    ("b", PTR),
    ("c", PTR),
    ("ldc", I64),
    ("m0", I64),
    ("m1", I64),
    ("N", I64),
    ("K", I64),
    ("p0", I64),
    ("p1", I64),
    ("init", PTR),
    ("epilogue", PTR),
    ("env", PTR),
)

EPILOGUE_ARGS = (
    ("env", PTR),
    ("tile", PTR),
    ("tile_ld", I64),
    ("m0", I64),
    ("rows", I64),
    ("n0", I64),
    ("cols", I64),
)


LINE = 64 // 4
"""Floats of a cache line."""

AHEAD = 8
"""Rows of a panel between the row that is used and the row that is fetched into L1."""

ROW_GAP = LINE
"""Floats between copied rows of A: rows that are a power of two apart would share cache sets."""


def emit_microkernels(t: Text, target: CpuTarget) -> None:
    """Emit `@mk_1 .. @mk_MR`: c[r x NR] = init[r x NR] + a[r x k] @ b[k x NR].

    `b` is one packed panel, aligned to a vector. A leading dimension `ldi` of 0 adds one row of
    `init` to every row. Leading dimensions count elements. The kernel also fetches k cache lines
    from `soon` on into L2: memory that is read next. Any address will do.
    """
    for rows in range(1, target.mr + 1):
        _Microkernel(t, target, rows).emit()
    _emit_copy_rows(t, target)


def _emit_copy_rows(t: Text, target: CpuTarget) -> None:
    """Emit `@copy_rows(a, lda, k, dst)`: MR rows of A side by side, k + ROW_GAP apart."""
    args = [("a", PTR), ("lda", I64), ("k", I64), ("dst", PTR)]
    step = 4 * t.lanes
    vector = t.vector("f32")
    with t.function("copy_rows", args, public=False) as (a, lda, k, dst):
        whole = t.sub(k, t.rem(k, t.const(step)))
        ld = t.add(k, t.const(ROW_GAP))
        with t.loop(t.const(0), t.const(target.mr)) as rows:
            source = t.at(a, t.mul(rows.index, lda))
            out = t.at(dst, t.mul(rows.index, ld))
            with t.loop(t.const(0), whole, step) as loop:
                here, there = t.at(source, loop.index), t.at(out, loop.index)
                for j in range(0, step, t.lanes):
                    t.store(t.load(t.at(here, j), vector), t.at(there, j))
            with t.loop(whole, k, t.lanes) as loop:
                mask = t.tail_mask(t.sub(k, loop.index))
                value = t.load_masked(t.at(source, loop.index), mask, vector)
                t.store_masked(value, t.at(out, loop.index), mask)


@dataclass
class _Microkernel:
    t: Text
    target: CpuTarget
    rows: int

    @property
    def columns(self) -> int:
        """Vectors in a row of the tile."""
        return self.target.nr // self.target.vector_lanes_f32

    @property
    def sets(self) -> int:
        """Independent accumulators of an element: a FMA takes 4 cycles, 2 start in each."""
        tile = self.rows * self.columns
        free = self.target.registers - self.columns - 1
        sets = 1
        while sets * tile < 8 and 2 * sets * tile <= free:
            sets *= 2
        return sets

    def emit(self) -> None:
        t = self.t
        unroll = max(self.sets, 4)
        with t.function(f"mk_{self.rows}", MICROKERNEL_ARGS, public=False) as values:
            a, lda, b, c, ldc, k, init, ldi, self.soon = values
            self.a = [t.at(a, t.mul(t.const(i), lda)) for i in range(self.rows)]
            zero = t.const(0.0, t.vector("f32"))
            acc = [
                t.load(t.at(row, j * t.lanes), zero.type)
                for row in (t.at(init, t.mul(t.const(i), ldi)) for i in range(self.rows))
                for j in range(self.columns)
            ]
            tile = len(acc)
            acc += [zero] * (tile * (self.sets - 1))
            whole = t.sub(k, t.rem(k, t.const(unroll)))
            with t.loop(t.const(0), whole, unroll, acc) as loop:
                loop.carry(*self._steps(loop.index, b, loop.carried, unroll))
            acc = loop.results
            while len(acc) > tile:
                half = len(acc) // 2
                acc = [t.add(x, y) for x, y in zip(acc[:half], acc[half:], strict=True)]
            with t.loop(whole, k, 1, acc) as loop:
                loop.carry(*self._steps(loop.index, b, loop.carried, 1))
            for i in range(self.rows):
                row = t.at(c, t.mul(t.const(i), ldc))
                for j in range(self.columns):
                    t.store(loop.results[i * self.columns + j], t.at(row, j * t.lanes))

    def _steps(self, k: Val, b: Val, carried: list[Val], count: int) -> list[Val]:
        """`count` rank-1 updates, spread over the accumulator sets.

        Hardware fetches lines in order too, but not over the end of a page, and not early enough.
        """
        t, acc = self.t, list(carried)
        tile = self.rows * self.columns
        sets = len(acc) // tile
        row = t.at(b, t.mul(k, t.const(self.target.nr)))
        a = [t.at(x, k) for x in self.a]
        soon = t.at(self.soon, t.mul(k, t.const(LINE)))
        for step in range(count):
            base = tile * (step % sets)
            vectors = [
                t.load(t.at(row, step * self.target.nr + j * t.lanes), t.vector("f32"), 4 * t.lanes)
                for j in range(self.columns)
            ]
            for line in range(0, self.target.nr, LINE):
                t.prefetch(t.at(row, (step + AHEAD) * self.target.nr + line))
            t.prefetch(t.at(soon, step * LINE), locality=2)
            for i in range(self.rows):
                x = t.splat(t.load(t.at(a[i], step), "f32"))
                for j in range(self.columns):
                    n = base + i * self.columns + j
                    acc[n] = t.fma(x, vectors[j], acc[n])
        return acc


COPY_PANELS = 8
"""Panels from which on copying A pays: each panel reads the copy once."""


def emit_gemm_panels(t: Text, target: CpuTarget, blocking: Blocking | None = None) -> None:
    """Emit `@gemm_panels`, see PANELS_ARGS: rows [m0, m1) times panels [p0, p1) of the packed B.

    C = init + A @ B. `a` and `c` point at row 0; `init` is a row of ceil(N / NR) * NR floats or
    null (zeros). When `epilogue` is not null it is called (EPILOGUE_ARGS) for each finished tile,
    which is hot in L1: the tile is a part of C, but for the columns of a ragged last panel it is
    a buffer of NR columns, of which the epilogue must write the first `cols` to C itself.
    Without an epilogue those columns are copied to C. Needs the micro-kernels in the same module.
    """
    _PanelLoop(t, target, blocking or default_blocking(target)).emit()


@dataclass
class _PanelLoop:
    t: Text
    target: CpuTarget
    blocking: Blocking

    def emit(self) -> None:
        t, nr = self.t, self.target.nr
        zeros = f"dense<0.0> : tensor<{nr}xf32>"
        t.top_level(
            f"llvm.mlir.global internal constant @gemm_zeros({zeros}) "
            f"{{alignment = 64 : i64}} : !llvm.array<{nr} x f32>"
        )
        with t.function("gemm_panels", PANELS_ARGS) as args:
            (self.a, self.lda, self.b, self.c, self.ldc, m0, m1, self.N, self.K, p0, p1) = args[:11]
            init, self.epilogue, self.env = args[11:]
            null = t.null()
            zero = t.const(0)
            self.has_epilogue = self._differs(self.epilogue, null)
            has_init = self._differs(init, null)
            self.init = t.select(has_init, init, t.address_of("gemm_zeros"))
            self.init_step = t.select(has_init, t.const(nr), zero)
            self.whole_panels = t.div(self.N, t.const(nr))
            # partial sums of a ragged panel between blocks of k
            self.buffer = t.stack(self.blocking.mc * nr)
            self.rows_buffer = t.stack(self.blocking.mc * (self.blocking.kc + 8 + ROW_GAP))
            self.copies = t.compare("ge", t.sub(p1, p0), t.const(COPY_PANELS))
            kc = self._k_step()
            # one pass even when K is 0, so that C = init is written
            k_end = t.maximum(self.K, t.const(1))
            with t.loop(m0, m1, self.blocking.mc) as rows:
                m_end = t.minimum(m1, t.add(rows.index, t.const(self.blocking.mc)))
                with t.loop(zero, k_end, kc) as depth:
                    self.k0 = depth.index
                    self.kl = t.minimum(t.sub(self.K, self.k0), kc)
                    self.first = t.compare("eq", self.k0, zero)
                    self.last = t.compare("ge", t.add(self.k0, kc), self.K)
                    self._copy_rows(rows.index, m_end)
                    with t.loop(p0, p1) as panels:
                        self._panel(panels.index, rows.index, m_end)

    def _copy_rows(self, m: Val, m_end: Val) -> None:
        """Copy the whole tiles of a block of A, so that every panel reads them in one stream."""
        t, mr = self.t, self.target.mr
        self.copy_ld = t.add(self.kl, t.const(ROW_GAP))
        with t.when(self.copies):
            rows = t.sub(m_end, m)
            a = t.at(t.at(self.a, self.k0), t.mul(m, self.lda))
            with t.loop(t.const(0), t.sub(rows, t.rem(rows, t.const(mr))), mr) as loop:
                out = t.at(self.rows_buffer, t.mul(loop.index, self.copy_ld))
                t.call("copy_rows", [t.at(a, t.mul(loop.index, self.lda)), self.lda, self.kl, out])

    def _differs(self, x: Val, y: Val) -> Val:
        return self.t.op(f'llvm.icmp "ne" {x}, {y} : {PTR}', "i1")

    def _k_step(self) -> Val:
        """Blocks of equal length, rounded to 8: K / ceil(K / KC)."""
        t, kc = self.t, self.blocking.kc
        one = t.const(1)
        blocks = t.maximum(t.div(t.add(self.K, t.const(kc - 1)), t.const(kc)), one)
        length = t.div(t.add(self.K, t.sub(blocks, one)), blocks)
        rounded = t.and_(t.add(length, t.const(7)), t.const(-8))
        return t.maximum(rounded, t.const(8))

    def _panel(self, p: Val, m: Val, m_end: Val) -> None:
        t, nr = self.t, self.target.nr
        n0 = t.mul(p, t.const(nr))
        ragged = t.compare("ge", p, self.whole_panels)
        panel = t.at(self.b, t.add(t.mul(n0, self.K), t.mul(self.k0, t.const(nr))))
        bias = t.at(self.init, t.mul(p, self.init_step))
        whole = t.at(t.at(self.c, n0), t.mul(m, self.ldc))
        tile = t.select(ragged, self.buffer, whole)
        ld = t.select(ragged, t.const(nr), self.ldc)
        ldi = t.select(self.first, t.const(0), ld)
        a = t.at(t.at(self.a, self.k0), t.mul(m, self.lda))
        cols = t.minimum(t.sub(self.N, n0), t.const(nr))
        work = t.and_(self.last, t.or_(self.has_epilogue, ragged))
        rows = t.sub(m_end, m)
        rest = t.rem(rows, t.const(self.target.mr))
        full = t.sub(rows, rest)

        # lines of the next panel: a tile fetches one for each k
        lines = nr // LINE
        next_panel = t.at(panel, t.mul(t.const(nr), self.K))
        slice_ = t.mul(self.kl, t.const(LINE))

        def tile_at(i: Val, rows: Val, kernels: list[int], a: Val, lda: Val) -> None:
            c = t.at(tile, t.mul(i, ld))
            init = t.select(self.first, bias, c)
            number = t.div(i, t.const(self.target.mr))
            fetches = t.compare("lt", number, t.const(lines))
            soon = t.select(fetches, t.at(next_panel, t.mul(number, slice_)), panel)
            args = [t.at(a, t.mul(i, lda)), lda, panel, c, ld, self.kl, init, ldi, soon]
            self._dispatch(rows, kernels, args)
            with t.when(work):
                self._finish(c, ld, t.add(m, i), rows, n0, cols)

        tile_rows = t.const(self.target.mr)
        source = t.select(self.copies, self.rows_buffer, a)
        source_ld = t.select(self.copies, self.copy_ld, self.lda)
        with t.loop(t.const(0), full, self.target.mr) as loop:
            tile_at(loop.index, tile_rows, [self.target.mr], source, source_ld)
        with t.when(t.compare("gt", rest, t.const(0))):
            tile_at(full, rest, list(range(1, self.target.mr)), a, self.lda)

    def _dispatch(self, rows: Val, kernels: list[int], args: list[Val]) -> None:
        """Call the kernel for the number of rows: a search in halves."""
        t = self.t
        if len(kernels) == 1:
            t.call(f"mk_{kernels[0]}", args)
            return
        middle = len(kernels) // 2
        with t.when(t.compare("lt", rows, t.const(kernels[middle]))) as branch:
            self._dispatch(rows, kernels[:middle], args)
        with branch.otherwise():
            self._dispatch(rows, kernels[middle:], args)

    def _finish(self, tile: Val, ld: Val, m: Val, rows: Val, n0: Val, cols: Val) -> None:
        t = self.t
        with t.when(self.has_epilogue) as branch:
            t.call_pointer(self.epilogue, [self.env, tile, ld, m, rows, n0, cols])
        with branch.otherwise(), t.loop(t.const(0), rows) as loop:
            source = t.at(tile, t.mul(loop.index, ld))
            row = t.at(t.at(self.c, n0), t.mul(t.add(m, loop.index), self.ldc))
            with t.loop(t.const(0), cols, t.lanes) as inner:
                mask = t.tail_mask(t.sub(cols, inner.index))
                value = t.load(t.at(source, inner.index), t.vector("f32"))
                t.store_masked(value, t.at(row, inner.index), mask)
