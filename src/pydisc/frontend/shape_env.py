"""What Python helpers inside torch call on `node.shape_env`, answered by our own sizes."""

from typing import Any

from pydisc.shape import Cond, Dim


class ShapeEnvShim:
    """The few entry points of torch's ShapeEnv that operator code uses."""

    _translation_validation_enabled = False
    prefer_deferred_runtime_asserts_over_guards = False
    frozen = False
    unbacked_var_to_val: dict[Any, Any] = {}  # noqa: RUF012 - read-only, as torch expects it

    def evaluate_sym_node(
        self, node: Any, size_oblivious: bool = False, fallback_value: Any = None
    ) -> Any:
        """A Python value for a node, guarded unless a fallback is offered."""
        if isinstance(node, Cond):
            if fallback_value is not None:
                return node.soft(fallback_value)
            return node.guard_size_oblivious() if size_oblivious else node.guard_bool()
        return node.guard_int() if isinstance(node, Dim) else node.guard_float()

    def _maybe_evaluate_static(self, expr: Any, **_: Any) -> Any:
        return expr.decide() if isinstance(expr, Cond) else expr.constant

    def guard_or_defer_runtime_assert(self, expr: Any, message: str, fx_node: Any = None) -> bool:
        """Demand a condition."""
        return expr.expect_true()

    def optimization_hint(self, expr: Any, fallback: Any = None) -> Any:
        """The size at which the trace runs."""
        return expr.hint

    def size_hint(self, expr: Any, **_: Any) -> Any:
        """The size at which the trace runs."""
        return expr.hint

    def has_hint(self, expr: Any) -> bool:
        """Always."""
        return True

    def is_unbacked_symint(self, expr: Any) -> bool:
        """Never: every size comes from an input."""
        return False

    def bound_sympy(self, expr: Any) -> Any:
        """The range of a size, in torch's own class."""
        import sympy
        from torch.utils._sympy.value_ranges import ValueRanges

        if isinstance(expr, Cond):
            known = expr.decide()
            if known is None:
                return ValueRanges(sympy.false, sympy.true)
            return ValueRanges.wrap(sympy.true if known else sympy.false)

        def bound(value: float) -> Any:
            if value in (float("inf"), float("-inf")):
                return sympy.oo if value > 0 else -sympy.oo
            return sympy.Integer(int(value))

        return ValueRanges(bound(expr.lo), bound(expr.hi))
