"""The frame of MLIR text: functions, lines, hoisted constants, nested loops and branches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydisc.codegen.common.values import I64, PTR, Val, element_of, literal


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

    text: "Structure"
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


class Structure:
    """Collects the functions of one MLIR module, line by line.

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
