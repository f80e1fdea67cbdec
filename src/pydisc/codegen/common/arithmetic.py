"""Arithmetic in MLIR text: on scalars and vectors, by the type of the first operand."""

from collections.abc import Sequence

from pydisc.codegen.common.structure import Structure
from pydisc.codegen.common.values import Val, byte_size, lanes_of, register_type, with_element


class Arithmetic(Structure):
    """Emits arithmetic, comparisons, conversions, reductions of vectors."""

    def _binary(self, name: str, x: Val, y: Val) -> Val:
        return self.op(f"arith.{name} {x}, {y} : {x.type}", x.type)

    def add(self, x: Val, y: Val) -> Val:
        return self._binary("addf" if x.is_float else "addi", x, y)

    def sub(self, x: Val, y: Val) -> Val:
        return self._binary("subf" if x.is_float else "subi", x, y)

    def mul(self, x: Val, y: Val) -> Val:
        return self._binary("mulf" if x.is_float else "muli", x, y)

    def div(self, x: Val, y: Val, *, signed: bool = True) -> Val:
        """Float quotient, or integer quotient towards zero."""
        return self._binary("divf" if x.is_float else "divsi" if signed else "divui", x, y)

    def rem(self, x: Val, y: Val, *, signed: bool = True) -> Val:
        """Remainder with the sign of x, as C's fmod and %."""
        return self._binary("remf" if x.is_float else "remsi" if signed else "remui", x, y)

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

    def shift_left(self, x: Val, bits: int | Val) -> Val:
        """x * 2^bits, for at least 0 and fewer bits than x has."""
        bits = self.const(bits, x.type) if isinstance(bits, int) else bits
        return self._binary("shli", x, bits)

    def shift_right(self, x: Val, bits: int | Val, *, signed: bool = True) -> Val:
        """x / 2^bits rounded down, for at least 0 and fewer bits than x has."""
        bits = self.const(bits, x.type) if isinstance(bits, int) else bits
        return self._binary("shrsi" if signed else "shrui", x, bits)

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
