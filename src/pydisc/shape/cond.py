"""Conditions on sizes, hash-consed and in negation normal form; and the guards made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydisc.shape.sym_node import SymNode
from pydisc.support.source import SourceLine

if TYPE_CHECKING:
    from pydisc.shape.context import ShapeContext


_LAYOUT_SOURCE = "TensorImpl.h"
"""The file from which torch asks whether a tensor is contiguous, dense, channels-last."""


class Cond(SymNode):
    """A condition. Python's truth value of it is refused: ask `decide()`, or guard.

    kind       args           holds if
    "const"    (bool,)
    "eq"       (Dim,)         dim == 0
    "ge"       (Dim,)         dim >= 0
    "and"      (Cond, Cond)
    "or"       (Cond, Cond)
    "not"      (Cond,)        the "eq", "eq_real" in it does not
    "eq_real", "lt_real", "le_real"   (Real, Real)
    """

    __slots__ = ("_answer", "_asked", "args", "cx", "hint", "id", "kind")

    pytype = bool

    def __init__(self, cx: ShapeContext, kind: str, args: tuple[Any, ...]) -> None:
        self.cx = cx
        self.kind = kind
        self.args = args
        self.id = len(cx.conds)
        self.hint: bool = self._value([a if kind == "const" else a.hint for a in args])
        self._answer: bool | None = None
        self._asked = -1

    def _value(self, values: list[Any]) -> bool:
        match self.kind, values:
            case "const", [a]:
                return a
            case "eq", [a]:
                return a == 0
            case "ge", [a]:
                return a >= 0
            case "not", [a]:
                return not a
            case "and", [a, b]:
                return a and b
            case "or", [a, b]:
                return a or b
            case "eq_real", [a, b]:
                return a == b
            case "lt_real", [a, b]:
                return a < b
            case "le_real", [a, b]:
                return a <= b
        raise AssertionError(self.kind)

    def evaluate(self, env: Mapping[str, int]) -> bool:
        """Whether it holds where symbols have the values `env`."""
        return self._value([a if self.kind == "const" else a.evaluate(env) for a in self.args])

    def symbols(self) -> set[str]:
        """Names of the symbols in it."""
        if self.kind == "const":
            return set()
        return set().union(*(a.symbols() for a in self.args))

    def decide(self) -> bool | None:
        """True or False if it is so for all sizes that the facts allow, else None."""
        if self._answer is None and self._asked != self.cx.facts.version:
            self._asked = self.cx.facts.version
            self._answer = self.cx.facts.decide(self)
        return self._answer

    @property
    def constant(self) -> bool | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """`decide()`."""
        return self.decide()

    def __str__(self) -> str:
        from pydisc.shape.expression import cond_text

        return cond_text(self)

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of '{self}' depends on sizes: use decide() or guard_bool()")

    # -- logic -----------------------------------------------------------------------------------
    def sym_not(self) -> Cond:
        """The opposite."""
        cx = self.cx
        match self.kind:
            case "const":
                return cx.boolean(not self.args[0])
            case "ge":
                return cx.is_nonneg(self.args[0].neg().sub(1))
            case "and":
                return self.args[0].sym_not().sym_or(self.args[1].sym_not())
            case "or":
                return self.args[0].sym_not().sym_and(self.args[1].sym_not())
            case "not":
                return self.args[0]
            case "lt_real":
                return cx.cond("le_real", (self.args[1], self.args[0]))
            case "le_real":
                return cx.cond("lt_real", (self.args[1], self.args[0]))
        return cx.cond("not", (self,))

    def sym_and(self, other: Cond) -> Cond:
        """Both."""
        mine, theirs = self.decide(), other.decide()
        if mine is True or theirs is False or self is other:
            return other
        if theirs is True or mine is False:
            return self
        a, b = (self, other) if self.id < other.id else (other, self)
        return self.cx.cond("and", (a, b))

    def sym_or(self, other: Cond) -> Cond:
        """One of them, or both."""
        mine, theirs = self.decide(), other.decide()
        if mine is True or theirs is False or self is other:
            return self
        if theirs is True or mine is False:
            return other
        a, b = (self, other) if self.id < other.id else (other, self)
        return self.cx.cond("or", (a, b))

    and_ = __and__ = sym_and
    or_ = __or__ = sym_or
    __invert__ = sym_not

    def eq(self, other: Cond) -> Cond:
        """Both or neither."""
        return self.sym_and(other).sym_or(self.sym_not().sym_and(other.sym_not()))

    def ne(self, other: Cond) -> Cond:
        """One but not both."""
        return self.eq(other.sym_not())

    def sym_ite(self, then: Any, otherwise: Any) -> Any:
        """`then` where it holds, else `otherwise`: Dims or Conds."""
        answer = self.decide()
        if answer is not None or then is otherwise:
            return then if answer is not False else otherwise
        if isinstance(then, Cond):
            return self.sym_and(then).sym_or(self.sym_not().sym_and(otherwise))
        hint = then.hint if self.hint else otherwise.hint
        if then.is_float():
            return self.cx.real_node("ite", (self, then, otherwise), hint)
        return self.cx.atom_dim("ite", (self, then, otherwise), hint)

    # -- the SymNode protocol --------------------------------------------------------------------
    def is_bool(self) -> bool:
        """Yes."""
        return True

    def is_constant(self) -> bool:
        """Whether torch should make a plain bool of it at once, by a guard if need be."""
        return self.cx.eager_bool or self.decide() is not None

    def maybe_as_bool(self) -> bool | None:
        """`decide()`."""
        return self.decide()

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        """A Python bool: decided, or the hint with a guard that Python branched on it.

        A question about a tensor's layout is answered for sizes in general, without a guard: the
        program computes on values, and either layout is right where they differ (sizes 0 and 1).
        """
        if file.endswith(_LAYOUT_SOURCE):
            return self.generic()
        return self.cx.guard(self, "branch")

    def bool_(self) -> bool:
        """`guard_bool`."""
        return self.guard_bool()

    def guard_int(self, file: str = "", line: int = 0) -> int:
        """`guard_bool` as an int."""
        return int(self.guard_bool())

    def expect_true(self, file: str = "", line: int = 0) -> bool:
        """Demand it: a guard that an op needs it. False if it is known, or hinted, not to hold."""
        answer = self.decide()
        if answer is None and self.hint:
            return self.cx.guard(self, "assert")
        return bool(answer)

    def soft(self, default: bool) -> bool:
        """Decided, or `default` without a guard: the caller is right with either answer."""
        answer = self.decide()
        return default if answer is None else answer

    def guard_or_false(self, file: str = "", line: int = 0) -> bool:
        """`soft(False)`."""
        return self.soft(False)

    def guard_or_true(self, file: str = "", line: int = 0) -> bool:
        """`soft(True)`."""
        return self.soft(True)

    def generic(self) -> bool:
        """Decided, or as it is for sizes in general: what may differ, differs. No guard."""
        answer = self.decide()
        if answer is not None:
            return answer
        match self.kind:
            case "eq":
                return False
            case "not":
                return not self.args[0].generic()
            case "and":
                return all(a.generic() for a in self.args)
            case "or":
                return any(a.generic() for a in self.args)
        return self.hint

    def guard_size_oblivious(self, file: str = "", line: int = 0) -> bool:
        """`generic()`."""
        return self.generic()

    def statically_known_true(self, file: str = "", line: int = 0) -> bool:
        """Whether it is decided to hold."""
        return self.decide() is True


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that the program needs because the trace took it for `value`.

    `kind`: "assert": an op demanded it (shapes must agree); "branch": Python branched on it;
    "specialize": Python made a plain number of a size.
    """

    cond: Cond
    value: bool
    kind: str
    where: SourceLine

    def holds(self, env: Mapping[str, int]) -> bool:
        """Whether the program is valid where symbols have the values `env`."""
        return self.cond.evaluate(env) == self.value

    def __str__(self) -> str:
        text = str(self.cond if self.value else self.cond.sym_not())
        return f"{text}  ({self.kind}, {self.where})"
