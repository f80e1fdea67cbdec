"""Evaluating the expressions of a kernel program at a point of its loops.

A point fixes some axes at scalar indices and runs one axis across the lanes. Every value is a
vector; what does not depend on the vector axis is a splat. LLVM's optimiser does not run over the
result, so what a loop does not change is evaluated before it (`hoist`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydisc.artifact import program as abi
from pydisc.codegen.common.assembly_text import (
    PTR,
    Text,
    Val,
    byte_size,
    memory_type,
    register_type,
)
from pydisc.codegen.cpu.apply import apply
from pydisc.fusion.kernel_program import Expr, KernelProgram, Linear, Store
from pydisc.schedule.schedule import Param, constant_zero, unit_stride
from pydisc.support.errors import InternalError

_COMPUTED_BEFORE = frozenset({"reduce", "accumulator", "scan"})
"""Values that the loops around a point have computed, and that the point is given."""
_DIVISIONS = frozenset({"divide", "remainder"})


@dataclass
class Arguments:
    """The argument block of a kernel: error slot, output and input addresses, sizes (i64 each)."""

    t: Text
    program: KernelProgram
    block: Val
    param_count: int
    error: Val = field(init=False)
    outputs: list[Val] = field(init=False)
    inputs: list[Val] = field(init=False)
    params: list[Val] = field(init=False)

    def __post_init__(self) -> None:
        t = self.t
        stores, inputs = len(self.program.stores), len(self.program.inputs)

        def read(position: int, type_: str) -> Val:
            return t.load(t.at(self.block, position, "i64"), type_, align=8)

        self.error = read(0, PTR)
        self.outputs = [read(1 + i, PTR) for i in range(stores)]
        self.inputs = [read(1 + stores + i, PTR) for i in range(inputs)]
        self.params = [read(1 + stores + inputs + i, "i64") for i in range(self.param_count)]

    def size(self, size: int | Param) -> Val:
        """The value of a size."""
        return self.t.const(size) if isinstance(size, int) else self.params[size.index]

    def report(self, bad: Val, error: int) -> None:
        """Set the error slot if a scalar i1 is true."""
        with self.t.when(bad):
            self.t.store(self.t.const(error), self.error, align=8)

    def nothing_to_take(self) -> Val | None:
        """Whether rows of an empty table are asked for; None if that cannot be."""
        t, exprs = self.t, self.program.exprs
        result: Val | None = None
        for bound, row in dict.fromkeys((e.bound, e.args[0]) for e in exprs if e.op == "take"):
            if isinstance(bound, int) and bound:
                continue
            bad = t.compare("eq", self.size(bound), t.const(0))
            for axis in sorted(exprs[row].axes):
                extent = self.size(self.program.axes[axis])
                bad = t.and_(bad, t.compare("ne", extent, t.const(0)))
            result = bad if result is None else t.or_(result, bad)
        return result


@dataclass
class Point:
    """Where expressions are evaluated: scalar axes, the vector axis with its start and mask."""

    args: Arguments
    scalars: dict[int, Val]
    vector: int = -1
    start: Val | None = None
    mask: Val | None = None
    values: dict[int, Val] = field(default_factory=dict)
    pointers: dict[tuple[str, int, Linear], tuple[Val, frozenset[int]]] = field(
        default_factory=dict
    )

    @property
    def t(self) -> Text:
        return self.args.t

    def at(
        self,
        scalars: dict[int, Val] | None = None,
        start: Val | None = None,
        mask: Val | None = None,
    ) -> "Point":
        """A point inside this one: what is known here stays known there."""
        return Point(
            self.args,
            {**self.scalars, **(scalars or {})},
            self.vector,
            start or self.start,
            mask or self.mask,
            dict(self.values),
            dict(self.pointers),
        )

    # -- addresses -----------------------------------------------------------------------------
    def offset(self, form: Linear, axes: Iterable[int]) -> Val | None:
        """The part of a linear form that comes from some scalar axes; None if it is 0."""
        t = self.t
        total: Val | None = None
        for axis in axes:
            coefficient = form.coefficient(axis)
            if constant_zero(coefficient):
                continue
            index = self.scalars[axis]
            term = index if unit_stride(coefficient) else t.mul(index, self.args.size(coefficient))
            total = term if total is None else t.add(total, term)
        return total

    def _constant(self, form: Linear) -> Val | None:
        return None if constant_zero(form.offset) else self.args.size(form.offset)

    def pointer(self, base: Val, key: str, slot: int, form: Linear, dtype: str) -> Val:
        """The address at the scalar axes of this point (lane 0 at vector index 0)."""
        known = self.pointers.get((key, slot, form))
        element = memory_type(dtype)
        wanted = frozenset(a for a in form.axes if a in self.scalars)
        if known is None:
            offset = self._constant(form)
            if offset is not None:
                base = self.t.at(base, offset, element)
            known = (base, frozenset())
        pointer, done = known
        more = self.offset(form, sorted(wanted - done))
        if more is not None:
            pointer = self.t.at(pointer, more, element)
        self.pointers[key, slot, form] = (pointer, wanted)
        return pointer

    # -- values --------------------------------------------------------------------------------
    def evaluate(self, index: int) -> Val:
        """The vector of an expression at this point."""
        found = self.values.get(index)
        if found is None:
            expr = self.args.program.exprs[index]
            found = self.values[index] = self._evaluate(expr)
        return found

    def _evaluate(self, e: Expr) -> Val:
        t = self.t
        match e.op:
            case "const":
                return t.const(e.value, t.vector(register_type(e.dtype)))
            case "index":
                return self._index(e.index)
            case "load":
                base = self.args.inputs[e.slot]
                pointer = self.pointer(base, "in", e.slot, e.index, e.dtype)
                return self._read(pointer, e.index, e.dtype)
            case "take":
                return self._take(e)
            case "apply":
                exprs = self.args.program.exprs
                args = [self.evaluate(a) for a in e.args]
                if e.fn in _DIVISIONS and not args[1].is_float:
                    self._check_divisor(e, args[1])
                return apply(t, e.fn, args, [exprs[a].dtype for a in e.args], e.dtype)
            case _:
                raise InternalError(f"{e.op} is not evaluated at a point")

    def _index(self, form: Linear) -> Val:
        t = self.t
        value = self.offset(form, sorted(a for a in form.axes if a in self.scalars))
        constant = self._constant(form)
        if constant is not None:
            value = constant if value is None else t.add(value, constant)
        coefficient = form.coefficient(self.vector)
        if constant_zero(coefficient):
            return t.splat(value if value is not None else t.const(0))
        assert self.start is not None
        start = t.mul(self.start, self.args.size(coefficient))
        value = start if value is None else t.add(value, start)
        lanes = t.cast("extsi", t.lane_numbers(), "i64")
        return t.add(t.splat(value), t.mul(lanes, t.splat(self.args.size(coefficient))))

    def _read(self, pointer: Val, form: Linear, dtype: str) -> Val:
        """A vector whose lane 0 lies at vector index `start` from the pointer."""
        t = self.t
        coefficient = form.coefficient(self.vector)
        if constant_zero(coefficient):
            return t.splat(t.load_scalar(pointer, dtype))
        assert self.start is not None
        if unit_stride(coefficient):
            return t.load_lanes(t.at(pointer, self.start, memory_type(dtype)), dtype, self.mask)
        addresses = self._addresses(pointer, coefficient, dtype)
        return t.from_memory(self._gather(addresses, dtype), dtype)

    def _addresses(self, pointer: Val, coefficient: int | Param, dtype: str) -> Val:
        t = self.t
        assert self.start is not None
        step = t.splat(self.args.size(coefficient))
        lanes = t.add(t.splat(self.start), t.cast("extsi", t.lane_numbers(), "i64"))
        return self._vector_at(pointer, t.mul(lanes, step), dtype)

    def _vector_at(self, pointer: Val, offsets: Val, dtype: str) -> Val:
        t = self.t
        type_ = f"vector<{t.lanes}x{PTR}>"
        return t.op(
            f"llvm.getelementptr {pointer}[{offsets}] : ({PTR}, {offsets.type}) -> {type_}, "
            f"{memory_type(dtype)}",
            type_,
        )

    def _gather(self, addresses: Val, dtype: str) -> Val:
        t = self.t
        type_ = t.vector(memory_type(dtype))
        mask = self.mask or t.const(True, t.vector("i1"))
        fill = t.const(0, type_)
        return t.op(
            f"llvm.intr.masked.gather {addresses}, {mask}, {fill} "
            f"{{alignment = {byte_size(dtype)} : i32}} : "
            f"({addresses.type}, {mask.type}, {type_}) -> {type_}",
            type_,
        )

    def _take(self, e: Expr) -> Val:
        """Read a row by number; a number out of range is reported and reads row 0.

        There is a row 0: a kernel with an empty table does not get here (`nothing_to_take`).
        """
        t = self.t
        exprs = self.args.program.exprs
        row_expr = exprs[e.args[0]]
        base = self.pointer(self.args.inputs[e.slot], "take", e.slot, e.index, e.dtype)
        step, bound = self.args.size(e.stride), self.args.size(e.bound)
        if self.vector not in row_expr.axes:
            key = ("row", e.args[0], Linear((), e.slot))
            known = self.pointers.get(key)
            if known is None:
                known = (
                    self._checked_row(self.evaluate(e.args[0]), row_expr.dtype, bound),
                    frozenset(),
                )
                self.pointers[key] = known
            offset = t.mul(known[0], step)
            return self._read(t.at(base, offset, memory_type(e.dtype)), e.index, e.dtype)
        rows = t.convert(self.evaluate(e.args[0]), row_expr.dtype, "i64")
        bad = t.compare("uge", rows, t.splat(bound))
        self._report_lanes(bad, abi.INDEX_OUT_OF_RANGE)
        offsets = t.mul(t.select(bad, t.const(0, rows.type), rows), t.splat(step))
        coefficient = e.index.coefficient(self.vector)
        if not constant_zero(coefficient):
            assert self.start is not None
            lanes = t.add(t.splat(self.start), t.cast("extsi", t.lane_numbers(), "i64"))
            offsets = t.add(offsets, t.mul(lanes, t.splat(self.args.size(coefficient))))
        return t.from_memory(
            self._gather(self._vector_at(base, offsets, e.dtype), e.dtype), e.dtype
        )

    def _checked_row(self, rows: Val, dtype: str, bound: Val) -> Val:
        t = self.t
        row = t.extract(t.convert(rows, dtype, "i64"), 0)
        bad = t.compare("uge", row, bound)
        self.args.report(bad, abi.INDEX_OUT_OF_RANGE)
        return t.select(bad, t.const(0), row)

    def _check_divisor(self, e: Expr, divisor: Val) -> None:
        """Report lanes of an integer division that divide by 0; a constant is known not to be."""
        known = self.args.program.exprs[e.args[1]]
        if known.op != "const" or not known.value:
            zero = self.t.const(0, divisor.type)
            self._report_lanes(self.t.compare("eq", divisor, zero), abi.DIVISION_BY_ZERO)

    def _report_lanes(self, bad: Val, error: int) -> None:
        t = self.t
        if self.mask is not None:
            bad = t.and_(bad, self.mask)
        self.args.report(t.any_lane(bad), error)

    def reload(self, position: int, store: Store) -> Val:
        """Read back what this kernel has stored in an output at this point."""
        pointer = self.pointer(
            self.args.outputs[position], "out", position, store.index, store.dtype
        )
        return self._read(pointer, store.index, store.dtype)

    def store(self, position: int, store: Store, value: Val) -> None:
        """Write an output at this point."""
        t = self.t
        pointer = self.pointer(
            self.args.outputs[position], "out", position, store.index, store.dtype
        )
        coefficient = store.index.coefficient(self.vector)
        if constant_zero(coefficient):
            t.store_scalar(t.extract(value, 0), pointer, store.dtype)
            return
        assert self.start is not None
        if unit_stride(coefficient):
            at = t.at(pointer, self.start, memory_type(store.dtype))
            t.store_lanes(value, at, store.dtype, self.mask)
            return
        addresses = self._addresses(pointer, coefficient, store.dtype)
        mask = self.mask or t.const(True, t.vector("i1"))
        raw = t.to_memory(value, store.dtype)
        t.line(
            f"llvm.intr.masked.scatter {raw}, {addresses}, {mask} "
            f"{{alignment = {byte_size(store.dtype)} : i32}} : "
            f"{raw.type}, {mask.type} into {addresses.type}"
        )

    # -- before a loop -------------------------------------------------------------------------
    def hoist(self, wanted: Iterable[int], varying: frozenset[int], ready: set[int]) -> None:
        """Evaluate what the expressions need and a loop over the `varying` axes does not change.

        `ready` holds the reductions that are finished; an expression that needs another waits.
        """
        exprs = self.args.program.exprs
        for index in sorted(_closure(exprs, wanted, set(self.values))):
            e = exprs[index]
            if e.op in _COMPUTED_BEFORE or index in self.values:
                continue
            if not e.axes & varying:
                if _reductions(exprs, index) <= ready:
                    self.evaluate(index)
            elif e.op == "load":
                self.pointer(self.args.inputs[e.slot], "in", e.slot, e.index, e.dtype)
            elif e.op == "take" and not exprs[e.args[0]].axes & varying:
                if _reductions(exprs, e.args[0]) <= ready:
                    self._hoist_take(e)

    def _hoist_take(self, e: Expr) -> None:
        base = self.args.inputs[e.slot]
        self.pointer(base, "take", e.slot, e.index, e.dtype)
        exprs = self.args.program.exprs
        key = ("row", e.args[0], Linear((), e.slot))
        if key not in self.pointers:
            rows = self.evaluate(e.args[0])
            row = self._checked_row(rows, exprs[e.args[0]].dtype, self.args.size(e.bound))
            self.pointers[key] = (row, frozenset())

    def hoist_store(self, position: int, store: Store) -> None:
        """Compute the address of an output before a loop."""
        self.pointer(self.args.outputs[position], "out", position, store.index, store.dtype)


def _closure(exprs: tuple[Expr, ...], roots: Iterable[int], known: set[int]) -> set[int]:
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        index = stack.pop()
        if index in seen or index in known:
            continue
        seen.add(index)
        if exprs[index].op not in _COMPUTED_BEFORE:
            stack.extend(exprs[index].args)
    return seen


def closure(exprs: tuple[Expr, ...], roots: Iterable[int]) -> set[int]:
    """The expressions that roots need at the same point; reductions are leaves."""
    return _closure(exprs, roots, set())


def _reductions(exprs: tuple[Expr, ...], index: int) -> set[int]:
    return {i for i in _closure(exprs, [index], set()) if exprs[i].op in _COMPUTED_BEFORE}
