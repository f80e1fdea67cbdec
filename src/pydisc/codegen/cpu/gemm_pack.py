"""Packing the right operand of a matrix product into panels for the micro-kernels."""

from dataclasses import dataclass

from pydisc.codegen.common.assembly_text import I64, PTR, Text, Val
from pydisc.targets.cpu import CpuTarget

PACK_ARGS = (
    ("src", PTR),
    ("stride_k", I64),
    ("stride_n", I64),
    ("K", I64),
    ("N", I64),
    ("dst", PTR),
    ("p0", I64),
    ("p1", I64),
)


def emit_pack_b(t: Text, target: CpuTarget) -> None:
    """Emit `@pack_b`, see PACK_ARGS: panels [p0, p1) of B[K][N] into `[ceil(N / NR)][K][NR]`.

    Columns beyond N are zeros. Strides count elements. `dst` must be aligned to a vector. Copies
    rows when n has stride 1, transposes squares in registers when k has, gathers otherwise.
    """
    with t.function("pack_b", PACK_ARGS) as (src, stride_k, stride_n, K, N, dst, p0, p1):
        packer = _Packer(t, target.nr, stride_k, stride_n, K)
        nr = t.const(target.nr)
        one = t.const(1)
        with t.loop(p0, p1) as panels:
            n0 = t.mul(panels.index, nr)
            columns = t.minimum(t.sub(N, n0), nr)
            panel = t.at(dst, t.mul(n0, K))
            source = t.at(src, t.mul(n0, stride_n))
            with t.when(t.compare("eq", stride_n, one)) as rows:
                packer.copy_rows(source, panel, columns)
            with rows.otherwise():
                with t.when(t.compare("eq", stride_k, one)) as transposed:
                    packer.transpose(source, panel, columns)
                with transposed.otherwise():
                    packer.gather(source, panel, columns)


@dataclass
class _Packer:
    t: Text
    nr: int
    stride_k: Val
    stride_n: Val
    K: Val

    def copy_rows(self, source: Val, panel: Val, columns: Val) -> None:
        t = self.t
        vector = t.vector("f32")
        with t.when(t.compare("eq", columns, t.const(self.nr))) as full:
            with t.loop(t.const(0), self.K) as loop:
                row = t.at(source, t.mul(loop.index, self.stride_k))
                out = t.at(panel, t.mul(loop.index, t.const(self.nr)))
                for j in range(0, self.nr, t.lanes):
                    t.store(t.load(t.at(row, j), vector), t.at(out, j), 4 * t.lanes)
        with full.otherwise():
            masks = [
                t.tail_mask(t.maximum(t.sub(columns, t.const(j)), t.const(0)))
                for j in range(0, self.nr, t.lanes)
            ]
            with t.loop(t.const(0), self.K) as loop:
                row = t.at(source, t.mul(loop.index, self.stride_k))
                out = t.at(panel, t.mul(loop.index, t.const(self.nr)))
                for j, mask in zip(range(0, self.nr, t.lanes), masks, strict=True):
                    t.store(t.load_masked(t.at(row, j), mask, vector), t.at(out, j), 4 * t.lanes)

    def transpose(self, source: Val, panel: Val, columns: Val) -> None:
        """Squares of VL x VL go through registers; the rest of K and N goes element by element."""
        t = self.t
        lanes = t.const(t.lanes)
        whole_k = t.sub(self.K, t.rem(self.K, lanes))
        whole_n = t.sub(columns, t.rem(columns, lanes))
        with t.loop(t.const(0), whole_n, t.lanes) as j:
            rows = [
                t.at(source, t.mul(t.add(j.index, t.const(i)), self.stride_n))
                for i in range(t.lanes)
            ]
            out = t.at(panel, j.index)
            with t.loop(t.const(0), whole_k, t.lanes) as k:
                square = [t.load(t.at(row, k.index), t.vector("f32")) for row in rows]
                first = t.at(out, t.mul(k.index, t.const(self.nr)))
                for i, column in enumerate(transpose_square(t, square)):
                    t.store(column, t.at(first, i * self.nr), 4 * t.lanes)
        self._elements(source, panel, whole_k, self.K, t.const(0), whole_n)
        self._elements(source, panel, t.const(0), self.K, whole_n, columns)
        self._zeros(panel, columns)

    def gather(self, source: Val, panel: Val, columns: Val) -> None:
        zero = self.t.const(0)
        self._elements(source, panel, zero, self.K, zero, columns)
        self._zeros(panel, columns)

    def _elements(self, source: Val, panel: Val, k0: Val, k1: Val, n0: Val, n1: Val) -> None:
        t = self.t
        with t.loop(k0, k1) as k:
            row = t.at(source, t.mul(k.index, self.stride_k))
            out = t.at(panel, t.mul(k.index, t.const(self.nr)))
            with t.loop(n0, n1) as n:
                value = t.load(t.at(row, t.mul(n.index, self.stride_n)), "f32")
                t.store(value, t.at(out, n.index))

    def _zeros(self, panel: Val, columns: Val) -> None:
        t = self.t
        with t.when(t.compare("lt", columns, t.const(self.nr))), t.loop(t.const(0), self.K) as k:
            out = t.at(panel, t.mul(k.index, t.const(self.nr)))
            with t.loop(columns, t.const(self.nr)) as n:
                t.store(t.const(0.0, "f32"), t.at(out, n.index))


def transpose_square(t: Text, rows: list[Val]) -> list[Val]:
    """Transpose VL vectors of VL lanes by log2(VL) rounds of two-input shuffles."""
    width = len(rows)
    step = 1
    while step < width:
        low = [i if not i & step else i - step + width for i in range(width)]
        high = [i + step if not i & step else i + width for i in range(width)]
        swapped = list(rows)
        for r in range(width):
            if not r & step:
                a, b = rows[r], rows[r + step]
                swapped[r], swapped[r + step] = t.shuffle(a, b, low), t.shuffle(a, b, high)
        rows = swapped
        step *= 2
    return rows
