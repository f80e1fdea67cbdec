"""Writing MLIR text: typed values, hoisted constants, nested loops and branches."""

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

PTR = "!llvm.ptr"
I64 = "i64"

_MEMORY = {"i1": "i8", "ui8": "i8", "bf16": "i16"}  # LLVM moves bf16 vectors through f32
_BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1}


@dataclass(frozen=True, slots=True)
class Val:
    """An SSA value: its name and its MLIR type."""

    name: str
    type: str

    def __str__(self) -> str:
        return self.name

    @property
    def element(self) -> str:
        """The element type of a vector, the type itself of a scalar."""
        return element_of(self.type)

    @property
    def is_float(self) -> bool:
        return self.element[0] in "fb"


def element_of(type_: str) -> str:
    """`vector<8xf32>` and `f32` give `f32`."""
    return type_[type_.index("x") + 1 : -1] if type_.startswith("vector<") else type_


def with_element(type_: str, element: str) -> str:
    """The type with the same lanes and another element."""
    if type_.startswith("vector<"):
        return f"{type_[: type_.index('x')]}x{element}>"
    return element


def lanes_of(type_: str) -> int:
    """Lanes of a vector type; 1 for a scalar."""
    return int(type_[7 : type_.index("x")]) if type_.startswith("vector<") else 1


def memory_type(dtype: str) -> str:
    """How one element of a tensor lies in memory: i1 tensors are bytes."""
    return _MEMORY.get(dtype, dtype)


def byte_size(dtype: str) -> int:
    """Bytes of one element in memory."""
    return _BYTES[memory_type(dtype)]


def register_type(dtype: str) -> str:
    """The element type that arithmetic on this dtype uses: MLIR integers carry no sign."""
    return "i8" if dtype == "ui8" else dtype


_MANTISSA = {"f32": ("<f", 8), "f64": ("<d", 16)}


def literal(value: float | int | bool, element: str) -> str:
    """A scalar attribute: floats exactly, by their bits when not finite."""
    if element == "i1":
        return "true" if value else "false"
    if element[0] not in "fb":
        return str(int(value))
    value = float(value)
    if math.isfinite(value):
        return f"{value:.17e}"
    if element in _MANTISSA:
        code, digits = _MANTISSA[element]
        return f"0x{int.from_bytes(struct.pack(code, value), 'little'):0{digits}X}"
    bits = struct.unpack("<I", struct.pack("<f", value))[0] >> 16  # bf16: the top of an f32
    if element == "f16":
        bits = struct.unpack("<H", struct.pack("<e", value))[0]
    return f"0x{bits:04X}"


@dataclass
class Loop:
    """A loop while its body is written; `results` is valid after the block."""

    index: Val
    carried: list[Val]
    results: list[Val]
    _next: list[Val] | None = None

    def carry(self, *values: Val) -> None:
        """Say what the next iteration sees as `carried`."""
        self._next = list(values)


@dataclass
class Branch:
    """An if with results: write both arms, each ending in `give`."""

    text: "Text"
    results: list[Val]
    _given: list[Val] = field(default_factory=list)
    _end: int = -1

    def give(self, *values: Val) -> None:
        """Say what this arm's results are."""
        self._given = list(values)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The arm for false."""
        lines = self.text._lines
        if len(lines) != self._end:
            raise ValueError("`otherwise` must follow the end of its `when`")
        lines[-1] = "} else {"
        self._given = []
        yield
        self.text._yield(self._given)
        lines.append("}")


class Text:
    """Collects the functions of one MLIR module.

    `lanes` is the number of lanes of every vector: of 32-bit floats a full register, of other
    element types whatever LLVM makes of it.
    """

    def __init__(self, lanes: int, features: Sequence[str] = ()) -> None:
        self.lanes = lanes
        self.features = frozenset(features)
        self._done: list[str] = []
        self._lines: list[str] = []
        self._constants: dict[tuple[str, str], Val] = {}
        self._constant_lines: list[str] = []
        self._count = 0
        self._declared: dict[str, str] = {}

    # module level ---------------------------------------------------------------------------

    @contextmanager
    def function(
        self,
        name: str,
        args: Sequence[tuple[str, str]],
        results: Sequence[str] = (),
        *,
        public: bool = True,
        noinline: bool = True,
        header: str = "",
    ) -> Iterator[list[Val]]:
        """A function; `args` are (name, type). Leave with `ret` if it has results."""
        values = [Val(f"%{arg}", type_) for arg, type_ in args]
        self._lines, self._constants, self._constant_lines, self._count = [], {}, [], 0
        self._returned = False
        yield values
        if not self._returned:
            self.ret()
        signature = ", ".join(f"{v.name}: {v.type}" for v in values)
        arrow = f" -> ({', '.join(results)})" if results else ""
        # `private` alone would still be a global symbol of the object
        marks = [] if public else ["llvm.linkage = #llvm.linkage<internal>"]
        marks += ['passthrough = ["noinline"]'] if noinline else []
        attributes = f" attributes {{{', '.join(marks)}}}" if marks else ""
        visibility = "" if public else "private "
        self._done.extend(f"// {line}" for line in header.splitlines())
        self._done.append(f"func.func {visibility}@{name}({signature}){arrow}{attributes} {{")
        self._done += self._constant_lines
        self._done += self._lines
        self._done.append("}")

    def declare(self, name: str, args: Sequence[str], results: Sequence[str] = ()) -> None:
        """Declare a function that is defined elsewhere; once is enough, twice does no harm."""
        arrow = f" -> ({', '.join(results)})" if results else ""
        self._declared[name] = f"func.func private @{name}({', '.join(args)}){arrow}"

    def top_level(self, text: str) -> None:
        """Add text as it is, such as a global."""
        self._done.append(text)

    def module(self) -> str:
        """The whole module."""
        return "\n".join(["module {", *self._declared.values(), *self._done, "}", ""])

    # lines ----------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Add one operation without results."""
        self._lines.append(text)

    def op(self, text: str, type_: str) -> Val:
        """Add one operation with one result of the given type."""
        self._count += 1
        value = Val(f"%{self._count}", type_)
        self._lines.append(f"{value.name} = {text}")
        return value

    def comment(self, text: str) -> None:
        """A remark in the emitted code."""
        self._lines.append(f"// {text}")

    def vector(self, element: str) -> str:
        """The vector type of this text with that element."""
        return f"vector<{self.lanes}x{element}>"

    def const(self, value: float | int | bool, type_: str = I64) -> Val:
        """A constant, a splat for a vector type; it is made once, at the function's entry."""
        text = literal(value, element_of(type_))
        key = (text, type_)
        if key not in self._constants:
            self._constants[key] = made = Val(f"%c{len(self._constants)}", type_)
            attribute = f"dense<{text}>" if type_.startswith("vector<") else text
            suffix = "" if type_ == "i1" else f" : {type_}"
            self._constant_lines.append(f"{made.name} = arith.constant {attribute}{suffix}")
        return self._constants[key]

    def lane_numbers(self) -> Val:
        """0, 1, 2, ... as a vector of i32."""
        type_ = self.vector("i32")
        key = ("lanes", type_)
        if key not in self._constants:
            self._constants[key] = made = Val(f"%c{len(self._constants)}", type_)
            numbers = ", ".join(map(str, range(self.lanes)))
            self._constant_lines.append(
                f"{made.name} = arith.constant dense<[{numbers}]> : {type_}"
            )
        return self._constants[key]

    def null(self) -> Val:
        """The null pointer."""
        return self.op(f"llvm.mlir.zero : {PTR}", PTR)

    def address_of(self, symbol: str) -> Val:
        """The address of a global."""
        return self.op(f"llvm.mlir.addressof @{symbol} : {PTR}", PTR)

    def call(self, name: str, args: Sequence[Val], results: Sequence[str] = ()) -> list[Val]:
        """Call a function of this module or a declared one."""
        types = ", ".join(v.type for v in args)
        tail = f"@{name}({', '.join(map(str, args))}) : ({types}) -> ({', '.join(results)})"
        return self._results(f"func.call {tail}", results)

    def call_pointer(self, function: Val, args: Sequence[Val]) -> None:
        """Call through a pointer to a function without results."""
        types = ", ".join(v.type for v in args)
        self.line(f"llvm.call {function}({', '.join(map(str, args))}) : {PTR}, ({types}) -> ()")

    def ret(self, *values: Val) -> None:
        """Return from the function; nothing may follow."""
        self._returned = True
        types = f" : {', '.join(v.type for v in values)}" if values else ""
        self.line(f"func.return {', '.join(map(str, values))}{types}")

    def _results(self, text: str, types: Sequence[str]) -> list[Val]:
        if not types:
            self.line(text)
            return []
        self._count += 1
        name = f"%{self._count}"
        if len(types) == 1:
            self.line(f"{name} = {text}")
            return [Val(name, types[0])]
        self.line(f"{name}:{len(types)} = {text}")
        return [Val(f"{name}#{i}", type_) for i, type_ in enumerate(types)]

    # structure ------------------------------------------------------------------------------

    @contextmanager
    def loop(
        self, lower: Val, upper: Val, step: Val | int = 1, carried: Sequence[Val] = ()
    ) -> Iterator[Loop]:
        """`for index in range(lower, upper, step)` over i64, with values carried along."""
        step = self.const(step) if isinstance(step, int) else step
        self._count += 1
        name = f"%{self._count}"
        index = Val(f"%i{self._count}", I64)
        types = [v.type for v in carried]
        inner = [Val(f"%x{self._count}_{n}", type_) for n, type_ in enumerate(types)]
        heads = f"scf.for {index} = {lower} to {upper} step {step}"
        many = f":{len(types)}" if len(types) > 1 else ""
        if carried:
            pairs = ", ".join(f"{x} = {v}" for x, v in zip(inner, carried, strict=True))
            heads = f"{name}{many} = {heads} iter_args({pairs}) -> ({', '.join(types)})"
        self.line(f"{heads} : i64 {{")
        outside = [Val(f"{name}#{n}" if many else name, type_) for n, type_ in enumerate(types)]
        loop = Loop(index, inner, outside, [] if not carried else None)
        yield loop
        if loop._next is None:
            raise ValueError("a loop that carries values must say what it carries on")
        self._yield(loop._next)
        self.line("}")

    @contextmanager
    def when(self, condition: Val, results: Sequence[str] = ()) -> Iterator[Branch]:
        """`if condition:`; continue with `with branch.otherwise():` for else."""
        self._count += 1
        name = f"%{self._count}"
        many = f":{len(results)}" if len(results) > 1 else ""
        arrow = f" -> ({', '.join(results)})" if results else ""
        head = f"{name}{many} = " if results else ""
        self.line(f"{head}scf.if {condition}{arrow} {{")
        outside = [Val(f"{name}#{n}" if many else name, t) for n, t in enumerate(results)]
        branch = Branch(self, outside)
        yield branch
        self._yield(branch._given)
        self.line("}")
        branch._end = len(self._lines)

    def _yield(self, values: Sequence[Val]) -> None:
        if values:
            types = ", ".join(v.type for v in values)
            self.line(f"scf.yield {', '.join(map(str, values))} : {types}")

    # memory ---------------------------------------------------------------------------------

    def at(self, base: Val, index: Val | int, element: str = "f32") -> Val:
        """The address of an element: base + index * size of `element`."""
        if isinstance(index, int):
            if index == 0:
                return base
            return self.op(f"llvm.getelementptr {base}[{index}] : ({PTR}) -> {PTR}, {element}", PTR)
        return self.op(
            f"llvm.getelementptr {base}[{index}] : ({PTR}, {index.type}) -> {PTR}, {element}", PTR
        )

    def load(self, pointer: Val, type_: str, align: int = 0) -> Val:
        """Load a scalar, or a vector that need not be aligned unless `align` says so."""
        align = align or byte_size(element_of(type_)) if element_of(type_) in _BYTES else 8
        return self.op(
            f"llvm.load {pointer} {{alignment = {align} : i64}} : {PTR} -> {type_}", type_
        )

    def store(self, value: Val, pointer: Val, align: int = 0) -> None:
        """Store a scalar or a vector."""
        align = align or byte_size(value.element) if value.element in _BYTES else 8
        self.line(
            f"llvm.store {value}, {pointer} {{alignment = {align} : i64}} : {value.type}, {PTR}"
        )

    def load_masked(self, pointer: Val, mask: Val, type_: str, fill: Val | None = None) -> Val:
        """Load the lanes that the mask names and touch no other byte."""
        fill = fill or self.const(0, type_)
        align = byte_size(element_of(type_))
        return self.op(
            f"llvm.intr.masked.load {pointer}, {mask}, {fill} {{alignment = {align} : i32}} : "
            f"({PTR}, {mask.type}, {type_}) -> {type_}",
            type_,
        )

    def store_masked(self, value: Val, pointer: Val, mask: Val) -> None:
        """Store the lanes that the mask names and touch no other byte."""
        align = byte_size(value.element)
        self.line(
            f"llvm.intr.masked.store {value}, {pointer}, {mask} {{alignment = {align} : i32}} : "
            f"{value.type}, {mask.type} into {PTR}"
        )

    def load_lanes(self, pointer: Val, dtype: str, mask: Val | None = None) -> Val:
        """Load a vector of tensor elements; i1 comes as a vector of i1, bytes in memory."""
        type_ = self.vector(memory_type(dtype))
        loaded = self.load_masked(pointer, mask, type_) if mask else self.load(pointer, type_)
        return self.from_memory(loaded, dtype)

    def store_lanes(self, value: Val, pointer: Val, dtype: str, mask: Val | None = None) -> None:
        """Store a vector of tensor elements."""
        value = self.to_memory(value, dtype)
        if mask:
            self.store_masked(value, pointer, mask)
        else:
            self.store(value, pointer)

    def load_scalar(self, pointer: Val, dtype: str) -> Val:
        """Load one tensor element."""
        return self.from_memory(self.load(pointer, memory_type(dtype)), dtype)

    def store_scalar(self, value: Val, pointer: Val, dtype: str) -> None:
        """Store one tensor element."""
        self.store(self.to_memory(value, dtype), pointer)

    def from_memory(self, value: Val, dtype: str) -> Val:
        """What `load` gave, as arithmetic wants it."""
        if dtype == "bf16":
            return self.cast("bitcast", value, "bf16")
        return self.compare("ne", value, self.const(0, value.type)) if dtype == "i1" else value

    def to_memory(self, value: Val, dtype: str) -> Val:
        """An arithmetic value, as it lies in memory."""
        if dtype == "bf16":
            return self.cast("bitcast", value, "i16")
        return self.cast("extui", value, "i8") if dtype == "i1" else value

    def stack(self, count: int, element: str = "f32", align: int = 64) -> Val:
        """A buffer on the stack that lives as long as the function. Not inside a loop."""
        size = self.const(count)
        return self.op(
            f"llvm.alloca {size} x {element} {{alignment = {align} : i64}} : (i64) -> {PTR}", PTR
        )

    def prefetch(self, pointer: Val, locality: int = 3) -> None:
        """Ask for a cache line to be read; 3 = into every level, 0 = not to be kept."""
        self.line(
            f'"llvm.intr.prefetch"({pointer}) <{{cache = 1 : i32, hint = {locality} : i32, '
            f"rw = 0 : i32}}> : ({PTR}) -> ()"
        )

    # arithmetic, by the type of the first operand ----------------------------------------------

    def _binary(self, name: str, x: Val, y: Val) -> Val:
        return self.op(f"arith.{name} {x}, {y} : {x.type}", x.type)

    def add(self, x: Val, y: Val) -> Val:
        return self._binary("addf" if x.is_float else "addi", x, y)

    def sub(self, x: Val, y: Val) -> Val:
        return self._binary("subf" if x.is_float else "subi", x, y)

    def mul(self, x: Val, y: Val) -> Val:
        return self._binary("mulf" if x.is_float else "muli", x, y)

    def div(self, x: Val, y: Val) -> Val:
        """Float quotient, or signed integer quotient towards zero."""
        return self._binary("divf" if x.is_float else "divsi", x, y)

    def rem(self, x: Val, y: Val) -> Val:
        """Remainder with the sign of x, as C's fmod and %."""
        return self._binary("remf" if x.is_float else "remsi", x, y)

    def maximum(self, x: Val, y: Val, *, signed: bool = True) -> Val:
        """The larger; NaN if one is NaN."""
        if x.is_float:
            return self.op(f"arith.maximumf {x}, {y} fastmath<nsz> : {x.type}", x.type)
        return self._binary("maxsi" if signed else "maxui", x, y)

    def minimum(self, x: Val, y: Val, *, signed: bool = True) -> Val:
        """The smaller; NaN if one is NaN."""
        if x.is_float:
            return self.op(f"arith.minimumf {x}, {y} fastmath<nsz> : {x.type}", x.type)
        return self._binary("minsi" if signed else "minui", x, y)

    def and_(self, x: Val, y: Val) -> Val:
        return self._binary("andi", x, y)

    def or_(self, x: Val, y: Val) -> Val:
        return self._binary("ori", x, y)

    def xor(self, x: Val, y: Val) -> Val:
        return self._binary("xori", x, y)

    def shift_left(self, x: Val, bits: int) -> Val:
        return self._binary("shli", x, self.const(bits, x.type))

    def shift_right(self, x: Val, bits: int, *, signed: bool = True) -> Val:
        return self._binary("shrsi" if signed else "shrui", x, self.const(bits, x.type))

    def neg(self, x: Val) -> Val:
        if x.is_float:
            return self.op(f"arith.negf {x} : {x.type}", x.type)
        return self.sub(self.const(0, x.type), x)

    def fma(self, x: Val, y: Val, z: Val) -> Val:
        """x * y + z, rounded once."""
        return self.op(f"math.fma {x}, {y}, {z} : {x.type}", x.type)

    def math(self, name: str, x: Val, *more: Val) -> Val:
        """An operation of the math dialect: sqrt, absf, floor, exp, erf, ..."""
        return self.op(f"math.{name} {', '.join(map(str, (x, *more)))} : {x.type}", x.type)

    def compare(self, predicate: str, x: Val, y: Val) -> Val:
        """Integers: eq ne slt sle sgt sge ult ...; floats: oeq une olt ole ogt oge uno ...

        The plain names eq ne lt le gt ge do the right thing on both (ne is true for NaN).
        """
        if x.is_float:
            full = {"eq": "oeq", "ne": "une"}.get(predicate)
            full = full or (f"o{predicate}" if predicate in ("lt", "le", "gt", "ge") else predicate)
        else:
            full = f"s{predicate}" if predicate in ("lt", "le", "gt", "ge") else predicate
        name = "cmpf" if x.is_float else "cmpi"
        type_ = with_element(x.type, "i1")
        return self.op(f"arith.{name} {full}, {x}, {y} : {x.type}", type_)

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        """Lane by lane `x if condition else y`; a scalar condition picks whole vectors."""
        types = x.type
        if condition.type.startswith("vector<"):
            types = f"{condition.type}, {x.type}"
        return self.op(f"arith.select {condition}, {x}, {y} : {types}", x.type)

    def cast(self, name: str, x: Val, element: str) -> Val:
        """An arith cast: bitcast extf truncf sitofp fptosi extsi extui trunci ..."""
        type_ = with_element(x.type, element)
        return self.op(f"arith.{name} {x} : {x.type} to {type_}", type_)

    def convert(self, x: Val, source: str, target: str) -> Val:
        """Convert between tensor dtypes with torch's meaning."""
        if source == target or register_type(source) == register_type(target) == "i8":
            return x
        if target == "i1":
            return self.compare("ne", x, self.const(0, x.type))
        if source == "bf16":
            bits = self.cast("extui", self.cast("bitcast", x, "i16"), "i32")
            return self.convert(
                self.cast("bitcast", self.shift_left(bits, 16), "f32"), "f32", target
            )
        if target == "bf16":
            return self._to_bf16(self.convert(x, source, "f32"))
        if source[0] == "f":
            return self._from_float(x, source, target)
        unsigned = source in ("i1", "ui8")
        if target[0] == "f":
            if target == "f16":  # through f32: every integer beyond 2^24 is infinite in f16
                return self.cast("truncf", self.convert(x, source, "f32"), "f16")
            return self.cast("uitofp" if unsigned else "sitofp", x, target)
        if int(register_type(target)[1:]) < int(register_type(source)[1:]):
            return self.cast("trunci", x, register_type(target))
        return self.cast("extui" if unsigned else "extsi", x, register_type(target))

    def _from_float(self, x: Val, source: str, target: str) -> Val:
        if (source, target) == ("f64", "f16"):
            return self.cast("truncf", self.cast("truncf", x, "f32"), "f16")
        if target[0] == "f":
            return self.cast(
                "extf" if byte_size(target) > byte_size(source) else "truncf", x, target
            )
        if source == "f16":
            return self._from_float(self.cast("extf", x, "f32"), "f32", target)
        if target == "i64":
            return self.cast("fptosi", x, "i64")
        wide = self.cast("fptosi", x, "i32")
        return wide if target == "i32" else self.cast("trunci", wide, register_type(target))

    def _to_bf16(self, x: Val) -> Val:
        """Round to nearest even by integer arithmetic, which every CPU has; NaN stays NaN."""
        bits = self.cast("bitcast", x, "i32")
        odd = self.and_(self.shift_right(bits, 16, signed=False), self.const(1, bits.type))
        rounded = self.add(bits, self.add(odd, self.const(0x7FFF, bits.type)))
        quiet = self.or_(bits, self.const(0x400000, bits.type))
        chosen = self.select(self.compare("uno", x, x), quiet, rounded)
        half = self.cast("trunci", self.shift_right(chosen, 16, signed=False), "i16")
        return self.cast("bitcast", half, "bf16")

    # vectors --------------------------------------------------------------------------------

    def splat(self, x: Val) -> Val:
        """Every lane = the scalar x."""
        type_ = self.vector(x.type)
        return self.op(f"vector.broadcast {x} : {x.type} to {type_}", type_)

    def extract(self, x: Val, lane: int) -> Val:
        """One lane of a vector."""
        return self.op(f"vector.extract {x}[{lane}] : {x.element} from {x.type}", x.element)

    def shuffle(self, x: Val, y: Val, lanes: Sequence[int]) -> Val:
        """Pick lanes of x followed by y."""
        type_ = f"vector<{len(lanes)}x{x.element}>"
        return self.op(f"llvm.shufflevector {x}, {y} {list(lanes)} : {x.type}", type_)

    def tail_mask(self, count: Val) -> Val:
        """Lanes 0 .. count-1, for a count (i64) of at least 0."""
        clipped = self.minimum(count, self.const(self.lanes))
        wide = self.splat(self.cast("trunci", clipped, "i32"))
        return self.compare("lt", self.lane_numbers(), wide)

    def any_lane(self, mask: Val) -> Val:
        """Whether one lane is true, as a scalar i1."""
        return self.op(f"vector.reduction <or>, {mask} : {mask.type} into i1", "i1")

    def combine(self, kind: str, x: Val, y: Val, *, signed: bool = True) -> Val:
        """One step of a reduction: add multiply maximum minimum and or."""
        match kind:
            case "add":
                return self.add(x, y)
            case "multiply":
                return self.mul(x, y)
            case "maximum":
                return self.maximum(x, y, signed=signed)
            case "minimum":
                return self.minimum(x, y, signed=signed)
            case "and":
                return self.and_(x, y)
            case "or":
                return self.or_(x, y)
            case _:
                raise ValueError(f"no reduction is called {kind!r}")

    def reduce(self, kind: str, x: Val, *, signed: bool = True) -> Val:
        """Combine all lanes into a scalar, pairwise."""
        while (width := lanes_of(x.type)) > 1:
            low = self.shuffle(x, x, range(width // 2))
            high = self.shuffle(x, x, range(width // 2, width))
            x = self.combine(kind, low, high, signed=signed)
        return self.extract(x, 0)
