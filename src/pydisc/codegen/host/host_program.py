"""The host program: `prepare` computes sizes, checks and offsets; `run_k` launches kernels.

Both take the call block (artifact/program.py). `prepare` leaves all values in slots, so that the
runtime can allocate outputs and arena before `run_k` does nothing but launch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydisc.artifact import program as abi
from pydisc.codegen.common.assembly_text import PTR, Text, Val
from pydisc.codegen.host.arena import ALIGNMENT, ArenaPlan
from pydisc.codegen.host.sizes import Size, SizeEmitter
from pydisc.codegen.host.weight_check import emit_weights_changed
from pydisc.shape import Cond

GRAIN = 16384
"""Elements of memory-bound work that are worth a thread.

Two threads then save more than a parallel region costs.
"""

LAUNCH_ARGS = (("kernel", PTR), ("args", PTR), ("units", "i64"), ("work", "i64"), ("block", PTR))
_KERNEL_TYPE = f"({PTR}, i64, i64, {PTR}) -> ()"


@dataclass
class Slots:
    """Hands out slots of the call block."""

    count: int = abi.FIXED_SLOTS
    values: dict[object, int] = field(default_factory=dict)

    def new(self, number: int = 1) -> int:
        """The first of `number` new slots in a row."""
        first = self.count
        self.count += number
        return first

    def value(self, size: Size) -> int:
        """The slot that holds a size."""
        found = self.values.get(size)
        if found is None:
            found = self.values[size] = self.new()
        return found


@dataclass(frozen=True)
class Where:
    """Where the address of a buffer comes from.

    kind: slot, weight (entry of the table), arena (a slot of the arena plan).
    """

    kind: str
    index: int


@dataclass(frozen=True)
class Launch:
    """One kernel launch: its arguments in order, its units of work and cost."""

    kernel: str
    buffers: tuple[Where, ...]
    params: tuple[Size, ...]
    units: Size
    work: Size


@dataclass(frozen=True)
class SizeCheck:
    """A size of an input that must equal what the program expects."""

    slot: int
    expected: Size


@dataclass
class HostProgram:
    """What `prepare` and the steps do."""

    slots: Slots
    symbols: dict[str, int]
    """The slot that holds each symbol: a size slot of an input, or of a framework result."""
    size_checks: list[SizeCheck] = field(default_factory=list)
    guards: list[tuple[Cond, bool]] = field(default_factory=list)
    arena: ArenaPlan = field(default_factory=lambda: ArenaPlan((), {}))
    arena_offsets: list[int] = field(default_factory=list)
    scratch: list[Size] = field(default_factory=list)
    steps: list[list[Launch]] = field(default_factory=list)
    outputs: list[tuple[int, Sequence[Size]]] = field(default_factory=list)


def emit_host(t: Text, host: HostProgram) -> None:
    """Emit `@prepare`, `@run_0` .., `@weights_changed` and the launch functions that they use."""
    _emit_parallel_body(t)
    _emit_launch(t)
    emit_weights_changed(t)
    for number, launches in enumerate(host.steps):
        for launch in launches:  # every size gets its slot before `prepare` is written
            for size in (*launch.params, launch.units, launch.work):
                if not isinstance(size, int):
                    host.slots.value(size)
        with t.function(f"run_{number}", [("block", PTR)]) as (block,):
            _emit_step(t, host, block, launches)
    with t.function("prepare", [("block", PTR)]) as (block,):
        _emit_prepare(t, host, block)


def _emit_parallel_body(t: Text) -> None:
    """What each thread of a parallel region runs: its share of the units."""
    with t.function("parallel_body", [("data", PTR)], public=False) as (data,):
        fields = [(0, PTR), (1, PTR), (2, "i64"), (3, PTR), (4, "i64"), (5, PTR)]
        kernel, args, units, scratch, stride, library = (
            t.load(t.at(data, i, "i64"), type_, align=8) for i, type_ in fields
        )
        number, count = (
            t.cast("extsi", _call_i32(t, t.load(t.at(library, i, "i64"), PTR, align=8)), "i64")
            for i in (abi.OMP_THREAD_NUM, abi.OMP_NUM_THREADS)
        )
        begin = t.div(t.mul(units, number), count)
        end = t.div(t.mul(units, t.add(number, t.const(1))), count)
        mine = t.at(scratch, t.mul(number, stride), "i8")
        t.call_pointer(kernel, [args, begin, end, mine])


def _call_i32(t: Text, function: Val) -> Val:
    return t.op(f"llvm.call {function}() : {PTR}, () -> i32", "i32")


def _emit_launch(t: Text) -> None:
    with t.function("launch", LAUNCH_ARGS, public=False) as (kernel, args, units, work, block):
        data = t.stack(6, "i64", align=8)

        def slot(number: int, type_: str) -> Val:
            return t.load(t.at(block, number, "i64"), type_, align=8)

        threads = slot(abi.THREADS, "i64")
        scratch = slot(abi.SCRATCH, PTR)
        useful = t.minimum(units, t.div(work, t.const(GRAIN)))
        team = t.minimum(threads, useful)
        with t.when(t.compare("gt", team, t.const(1))) as parallel:
            library = slot(abi.LIBRARY, PTR)
            stride = slot(abi.SCRATCH_BYTES, "i64")
            for i, value in enumerate((kernel, args, units, scratch, stride, library)):
                t.store(value, t.at(data, i, "i64"), align=8)
            body = _address(t, "parallel_body", f"({PTR}) -> ()")
            start = t.load(t.at(library, abi.GOMP_PARALLEL, "i64"), PTR, align=8)
            count = t.cast("trunci", team, "i32")
            t.call_pointer(start, [body, data, count, t.const(0, "i32")])
        with parallel.otherwise(), t.when(t.compare("gt", units, t.const(0))):
            t.call_pointer(kernel, [args, t.const(0), units, scratch])


def _address(t: Text, name: str, type_: str) -> Val:
    made = t.op(f"func.constant @{name} : {type_}", type_)
    return t.op(f"builtin.unrealized_conversion_cast {made} : {type_} to {PTR}", PTR)


def _emit_step(t: Text, host: HostProgram, block: Val, launches: Sequence[Launch]) -> None:
    size = max((1 + len(x.buffers) + len(x.params) for x in launches), default=1)
    args = t.stack(size, "i64", align=8)
    arena = t.load(t.at(block, abi.ARENA, "i64"), PTR, align=8)
    weights = t.load(t.at(block, abi.WEIGHTS, "i64"), PTR, align=8)
    t.store(t.at(block, abi.ERROR, "i64"), args, align=8)

    def slot(number: int, type_: str = "i64") -> Val:
        return t.load(t.at(block, number, "i64"), type_, align=8)

    def address(where: Where) -> Val:
        if where.kind == "slot":
            return slot(where.index, PTR)
        if where.kind == "weight":
            return t.load(t.at(weights, where.index, "i64"), PTR, align=8)
        return t.at(arena, slot(host.arena_offsets[where.index]), "i8")

    def value(size: Size) -> Val:
        return t.const(size) if isinstance(size, int) else slot(host.slots.value(size))

    for launch in launches:
        values = [*(address(b) for b in launch.buffers), *(value(p) for p in launch.params)]
        for position, item in enumerate(values):
            t.store(item, t.at(args, 1 + position, "i64"), align=8)
        kernel = _address(t, launch.kernel, _KERNEL_TYPE)
        t.call("launch", [kernel, args, value(launch.units), value(launch.work), block])


def _emit_prepare(t: Text, host: HostProgram, block: Val) -> None:
    def read(number: int) -> Val:
        return t.load(t.at(block, number, "i64"), "i64", align=8)

    def write(number: int, value: Val) -> None:
        t.store(value, t.at(block, number, "i64"), align=8)

    sizes = SizeEmitter(t, {name: read(slot) for name, slot in host.symbols.items()})
    status = t.const(0)
    conditions = [
        t.compare("eq", read(check.slot), sizes.size(check.expected)) for check in host.size_checks
    ]
    for cond, expected in host.guards:
        holds = sizes.condition(cond)
        conditions.append(holds if expected else t.xor(holds, t.const(True, "i1")))
    for number in range(len(conditions) - 1, -1, -1):  # the first failure wins
        status = t.select(conditions[number], status, t.const(1 + number))
    write(abi.STATUS, status)
    write(abi.ERROR, t.const(0))
    offset = t.const(0)
    for number, distinct in enumerate(host.arena.slots):
        write(host.arena_offsets[number], offset)
        largest = sizes.size(distinct[0])
        for size in distinct[1:]:
            largest = t.maximum(largest, sizes.size(size))
        padded = t.and_(t.add(largest, t.const(ALIGNMENT - 1)), t.const(-ALIGNMENT))
        offset = t.add(offset, padded)
    write(abi.ARENA_BYTES, offset)
    scratch = t.const(0)
    for size in host.scratch:
        scratch = t.maximum(scratch, sizes.size(size))
    write(abi.SCRATCH_BYTES, t.and_(t.add(scratch, t.const(127)), t.const(-64)))
    for first, shape in host.outputs:
        for i, size in enumerate(shape):
            write(first + i, sizes.size(size))
    for size, number in host.slots.values.items():
        write(number, sizes.size(size))  # type: ignore[arg-type]
