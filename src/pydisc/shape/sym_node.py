"""The SymNode protocol: what `torch.SymInt`, `SymBool` and `SymFloat` ask of the object they wrap.

torch only needs the methods, not a base class, so this room stays free of torch. The methods named
`guard_*` turn a symbolic answer into a Python value: they answer with the hint and record a guard.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydisc.shape.cond import Cond
    from pydisc.shape.context import ShapeContext
    from pydisc.shape.dim import Dim
    from pydisc.shape.real import Real


class SymNode:
    """What the three kinds of node share."""

    __slots__ = ()

    cx: ShapeContext
    hint: Any
    constant: Any
    if TYPE_CHECKING:

        def symbols(self) -> set[builtins.str]: ...

    @property
    def shape_env(self) -> Any:
        """What Python helpers of torch call in place of a ShapeEnv; the frontend sets it."""
        return self.cx.shape_env

    @property
    def expr(self) -> Any:
        """The expression: the node itself."""
        return self

    @property
    def _expr(self) -> Any:
        return self

    @property
    def _hint(self) -> Any:
        return self.hint

    @property
    def is_number(self) -> bool:
        """Whether it is a constant."""
        return self.constant is not None

    @property
    def is_symbol(self) -> bool:
        """False: nothing here is a sympy symbol."""
        return False

    @property
    def free_symbols(self) -> set[builtins.str]:
        """Names of the symbols in it."""
        return self.symbols()

    def require_hint(self, fallback: Any = None) -> Any:
        """The hint; there always is one."""
        return self.hint

    def is_int(self) -> bool:
        """Whether it stands behind a SymInt."""
        return False

    def is_float(self) -> bool:
        """Whether it stands behind a SymFloat."""
        return False

    def is_bool(self) -> bool:
        """Whether it stands behind a SymBool."""
        return False

    def is_nested_int(self) -> bool:
        """Never."""
        return False

    def nested_int(self) -> None:
        """None: not a ragged size."""
        return None

    def nested_int_coeff(self) -> None:
        """None: not a ragged size."""
        return None

    def is_symbolic(self) -> bool:
        """Always."""
        return True

    def is_constant(self) -> bool:
        """Whether the value is known."""
        return self.constant is not None

    def has_hint(self) -> bool:
        """No, although there is one: torch would branch on it to tell a tensor's layout.

        With it, `is_contiguous()` of a permuted tensor asks whether sizes are 0 or 1 and so puts
        guards on them; without, torch takes the path that asks what holds for sizes in general.
        """
        return False

    def maybe_as_int(self) -> int | None:
        """The value if it is a known int."""
        return None

    def maybe_as_float(self) -> float | None:
        """The value if it is a known float."""
        return None

    def maybe_as_bool(self) -> bool | None:
        """The value if it is a known bool."""
        return None

    def wrap_int(self, value: int) -> Dim:
        """A constant of the same context."""
        return self.cx.node(value)

    def wrap_float(self, value: float) -> Real:
        """A constant of the same context."""
        return self.cx.real(value)

    def wrap_bool(self, value: bool) -> Cond:
        """A constant of the same context."""
        return self.cx.boolean(value)

    def clone(self) -> Any:
        """Itself: nodes never change."""
        return self

    def _graph_repr(self) -> builtins.str:
        return builtins.str(self)

    def str(self) -> builtins.str:
        """Its text."""
        return builtins.str(self)


class IntNode(SymNode):
    """What `torch.SymInt` asks of a Dim, besides arithmetic and relations."""

    __slots__ = ()

    constant: int | None
    hint: int
    pytype = int

    if TYPE_CHECKING:

        def add(self, other: Any) -> Dim: ...
        def mul(self, other: Any) -> Dim: ...
        def neg(self) -> Dim: ...
        def floordiv(self, other: Any) -> Dim: ...
        def sym_max(self, other: Any) -> Dim: ...
        def eq(self, other: Any) -> Cond: ...
        def ge(self, other: Any) -> Cond: ...

    def is_int(self) -> bool:
        """Yes."""
        return True

    def maybe_as_int(self) -> int | None:
        """The value if it is constant."""
        return self.constant

    # -- guards --------------------------------------------------------------------------------
    def guard_int(self, file: builtins.str = "", line: int = 0) -> int:
        """The hint as a Python int: the program is specialised to it."""
        if self.constant is None:
            self.cx.guard(self.eq(self.hint), "specialize")
        return self.hint

    def int_(self) -> int:
        """`guard_int`."""
        return self.guard_int()

    def guard_float(self, file: builtins.str = "", line: int = 0) -> float:
        """`guard_int` as a float."""
        return float(self.guard_int())

    def guard_bool(self, file: builtins.str = "", line: int = 0) -> bool:
        """Whether it is not 0; guarded."""
        return self.eq(0).sym_not().guard_bool()

    def bool_(self) -> bool:
        """`guard_bool`."""
        return self.guard_bool()

    def expect_size(self, file: builtins.str = "", line: int = 0) -> bool:
        """Demand that it is not negative."""
        return self.ge(0).expect_true()

    # -- arithmetic that Dim's own operators do not have -----------------------------------------
    def pos(self) -> Any:
        """Itself."""
        return self

    def abs(self) -> Any:
        """The absolute value."""
        return self.sym_max(self.neg())

    def int_floordiv(self, other: Any) -> Dim:
        """self // other."""
        return self.floordiv(other)

    def int_truediv(self, other: Any) -> Real:
        """self / other."""
        return self.sym_float().truediv(other.sym_float())

    truediv = int_truediv
    float_truediv = int_truediv

    def float_pow(self, other: Any) -> Real:
        """self ** other, as floats."""
        return self.sym_float().pow(other)

    def pow_by_natural(self, other: Any) -> Dim:
        """self ** other; the exponent is specialised."""
        out = self.cx.node(1)
        for _ in range(other.guard_int("", 0)):
            out = self.mul(out)
        return out

    pow = pow_by_natural

    def sym_sum(self, args: Sequence[Any]) -> Dim:
        """The sum of nodes."""
        out = self.cx.node(0)
        for arg in args:
            out = out.add(arg)
        return out

    def lshift(self, other: Any) -> Dim:
        """self << other; the shift is specialised."""
        return self.mul(self.cx.node(2).pow_by_natural(other))

    def rshift(self, other: Any) -> Dim:
        """self >> other; the shift is specialised."""
        return self.floordiv(self.cx.node(2).pow_by_natural(other))

    def bitwise_and(self, other: Any) -> Dim:
        """self & other; both are specialised."""
        return self.cx.node(self.guard_int() & other.guard_int())

    def bitwise_or(self, other: Any) -> Dim:
        """self | other; both are specialised."""
        return self.cx.node(self.guard_int() | other.guard_int())

    def bitwise_xor(self, other: Any) -> Dim:
        """self ^ other; both are specialised."""
        return self.cx.node(self.guard_int() ^ other.guard_int())

    def sym_float(self) -> Real:
        """As a float."""
        return self.cx.real_of(cast("Dim", self))

    def sym_int(self) -> Any:
        """Itself."""
        return self

    floor = ceil = trunc = sym_int

    def round(self, ndigits: int | None = None) -> Any:
        """Itself."""
        return self

    def is_integer(self) -> Cond:
        """Yes."""
        return self.wrap_bool(True)

    # -- layout predicates of a tensor with these sizes and strides: structural -------------------
    def _is_packed(
        self, sizes: Sequence[Any], strides: Sequence[Any], order: Iterable[int]
    ) -> bool:
        """Whether elements lie without gaps when dims are walked in `order`, fastest first."""
        expected = self.cx.node(1)
        for axis in order:
            if sizes[axis].constant != 1:
                if strides[axis] is not expected:
                    return False
                expected = expected.mul(sizes[axis])
        return True

    def is_contiguous(self, sizes: Sequence[Any], strides: Sequence[Any]) -> Cond:
        """Row-major without gaps."""
        return self.wrap_bool(self._is_packed(sizes, strides, range(len(sizes) - 1, -1, -1)))

    def is_channels_last_contiguous_2d(self, sizes: Sequence[Any], strides: Sequence[Any]) -> Cond:
        """NHWC without gaps."""
        packed = len(sizes) == 4 and self._is_packed(sizes, strides, (1, 3, 2, 0))
        return self.wrap_bool(packed)

    def is_channels_last_contiguous_3d(self, sizes: Sequence[Any], strides: Sequence[Any]) -> Cond:
        """NDHWC without gaps."""
        packed = len(sizes) == 5 and self._is_packed(sizes, strides, (1, 4, 3, 2, 0))
        return self.wrap_bool(packed)

    def is_channels_last_strides_2d(self, sizes: Sequence[Any], strides: Sequence[Any]) -> Cond:
        """NHWC and not also row-major (torch takes an ambiguous layout for row-major)."""
        yes = self.is_channels_last_contiguous_2d(sizes, strides)
        return yes.sym_and(self.is_contiguous(sizes, strides).sym_not())

    def is_channels_last_strides_3d(self, sizes: Sequence[Any], strides: Sequence[Any]) -> Cond:
        """NDHWC and not also row-major."""
        yes = self.is_channels_last_contiguous_3d(sizes, strides)
        return yes.sym_and(self.is_contiguous(sizes, strides).sym_not())

    def is_non_overlapping_and_dense(self, sizes: Sequence[Any], strides: Sequence[Any]) -> Cond:
        """Without gaps in some order of the dims."""
        left = [a for a in range(len(sizes)) if sizes[a].constant != 1]
        expected = self.cx.node(1)
        while left:
            axis = next((a for a in left if strides[a] is expected), None)
            if axis is None:
                return self.wrap_bool(False)
            left.remove(axis)
            expected = expected.mul(sizes[axis])
        return self.wrap_bool(True)
