"""Chains of kernels: each unit of work runs all parts on its rows, with scratch in between."""

from dataclasses import dataclass

from pydisc.codegen.common.assembly_text import PTR, Text, Val
from pydisc.codegen.cpu.dot import block_height
from pydisc.codegen.cpu.loops import SIGNATURE
from pydisc.fusion.kernel_program import Size
from pydisc.schedule.chain import ChainSchedule
from pydisc.schedule.schedule import Param
from pydisc.targets.cpu import CpuTarget

_BYTES = 4


def emit_chain(
    t: Text,
    name: str,
    chain: ChainSchedule,
    parts: tuple[str, ...],
    param_counts: tuple[int, ...],
    target: CpuTarget,
) -> None:
    """Emit `@name`. `parts`: the functions of its kernels, which have `param_counts` parameters.

    The argument block holds those of the parts one after the other, without the results that pass
    between them; scratch memory: two blocks of rows, then what the parts need.
    """
    with t.function(name, SIGNATURE, header=str(chain)) as (block, begin, end, scratch):
        _Chain(t, chain, parts, param_counts, target, block, scratch).emit(begin, end)


@dataclass
class _Chain:
    t: Text
    chain: ChainSchedule
    parts: tuple[str, ...]
    param_counts: tuple[int, ...]
    target: CpuTarget
    block: Val
    scratch: Val

    def __post_init__(self) -> None:
        second = self.chain.parts[2]
        contraction = second.program.contraction
        assert contraction is not None
        outputs = [len(s.program.stores) for s in self.chain.parts]
        self.missing: dict[tuple[int, int], str] = {
            (0, 0): "scores",
            (1, outputs[1] + self.chain.scores_slot): "scores",
            (1, 0): "weights",
            (2, outputs[2] + contraction.lhs_slot): "weights",
        }
        """Which buffers of the parts are scratch: (part, position) to the block of rows it is."""
        self.buffers = [outputs[i] + len(s.program.inputs) for i, s in enumerate(self.chain.parts)]
        self.outer_buffers = sum(self.buffers) - len(self.missing)

    def _size(self, part: int, size: Size | Param) -> Val:
        if isinstance(size, int):
            return self.t.const(size)
        position = 1 + self.outer_buffers + self.chain.first_param[part] + size.index
        return self._read(position, "i64")

    def _read(self, position: int, type_: str) -> Val:
        return self.t.load(self.t.at(self.block, position, "i64"), type_, align=8)

    def emit(self, begin: Val, end: Val) -> None:
        t = self.t
        first, _, second = self.chain.parts
        c1, c2 = first.program.contraction, second.program.contraction
        assert c1 is not None
        assert c2 is not None
        rows = self._size(0, first.program.axes[first.loops[0]])
        columns = self._size(0, first.program.axes[c1.n[0]])
        nr = self.target.nr
        panels = [
            t.div(t.add(size, t.const(nr - 1)), t.const(nr))
            for size in (columns, self._size(2, second.program.axes[c2.n[0]]))
        ]
        limit = t.const(self.chain.block)
        blocks = t.div(t.add(rows, t.sub(limit, t.const(1))), limit)
        height = block_height(t, rows, blocks, self.target.mr)
        bytes_ = t.mul(t.mul(columns, limit), t.const(_BYTES))
        bytes_ = t.and_(t.add(bytes_, t.const(63)), t.const(-64))
        weights = t.at(self.scratch, bytes_, "i8")
        rest = t.at(weights, bytes_, "i8")
        blocks_of_rows = {"scores": self.scratch, "weights": weights}
        arguments = self._arguments()
        with t.loop(begin, end) as units:
            unit = units.index
            matrix = t.mul(t.div(unit, blocks), rows)
            low = t.mul(t.rem(unit, blocks), height)
            high = t.minimum(t.add(low, height), rows)
            with t.when(t.compare("lt", low, high)):
                before = t.mul(t.mul(t.add(matrix, low), columns), t.const(-_BYTES))
                for (part, position), which in self.missing.items():
                    pointer = t.at(blocks_of_rows[which], before, "i8")
                    t.store(pointer, t.at(arguments[part], 1 + position, "i64"), align=8)
                after = t.add(unit, t.const(1))
                ranges = [
                    (t.mul(unit, panels[0]), t.mul(after, panels[0])),
                    (t.add(matrix, low), t.add(matrix, high)),
                    (t.mul(unit, panels[1]), t.mul(after, panels[1])),
                ]
                for part, (start, stop) in enumerate(ranges):
                    t.call(self.parts[part], [arguments[part], start, stop, rest])

    def _arguments(self) -> list[Val]:
        """An argument block for each part, complete but for what is scratch."""
        t = self.t
        blocks = []
        position = 1
        for part, count in enumerate(self.buffers):
            own = t.stack(1 + count + self.param_counts[part], "i64", align=8)
            t.store(self._read(0, PTR), own, align=8)
            for i in range(count):
                if (part, i) not in self.missing:
                    t.store(self._read(position, PTR), t.at(own, 1 + i, "i64"), align=8)
                    position += 1
            for i in range(self.param_counts[part]):
                t.store(self._size(part, Param(i)), t.at(own, 1 + count + i, "i64"), align=8)
            blocks.append(own)
        return blocks
