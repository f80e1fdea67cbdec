"""Integers computed from the sizes of a call, as text: the language of `shape/expression.py`.

Every expression has a value: what divides by 0 or leaves the range of floats is 0 or saturates, as
in the compiler and in generated code.
"""

import ast
import math
from collections.abc import Callable, Mapping
from functools import cache
from types import CodeType
from typing import Any

_MAX = 1.7976931348623157e308


def evaluate(text: str, env: Mapping[str, int]) -> int:
    """The value of a size expression; x // 0 is 0 and x % 0 is x.

    >>> evaluate("max(S0 - 1, 0) // 2", {"S0": 7})
    3
    """
    code, _ = _compiled(text)
    return eval(code, _GLOBALS, env)  # checked node by node when it was compiled


def names_in(text: str) -> frozenset[str]:
    """The symbols that an expression is computed from."""
    return _compiled(text)[1]


@cache
def _compiled(text: str) -> tuple[CodeType, frozenset[str]]:
    tree = ast.parse(text, mode="eval")
    total = _Total()
    body = ast.fix_missing_locations(ast.Expression(total.visit(tree.body)))
    return compile(body, "<size>", "eval"), frozenset(total.names)


class _Total(ast.NodeTransformer):
    """Division by total functions, and nothing that the language does not have."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"not a size expression: {ast.unparse(node)}")
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, bool | int | float):
            raise ValueError(f"not a number in a size expression: {node.value!r}")
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.names.add(node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords:
            raise ValueError(f"not a function of sizes: {ast.unparse(node)}")
        args = [self.visit(a) for a in node.args]
        return ast.Call(ast.Name(f"_{node.func.id}", ast.Load()), args, [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        args = [self.visit(node.left), self.visit(node.right)]
        name = _DIVISIONS.get(type(node.op))
        if name is not None:
            return ast.Call(ast.Name(name, ast.Load()), args, [])
        if not isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            raise ValueError(f"not an operator of sizes: {ast.unparse(node)}")
        return ast.BinOp(args[0], node.op, args[1])


_ALLOWED = (
    *(ast.UnaryOp, ast.USub, ast.UAdd, ast.Not, ast.BoolOp, ast.And, ast.Or, ast.Compare),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Load),
)
_DIVISIONS: dict[type[ast.operator], str] = {
    ast.FloorDiv: "_floordiv",
    ast.Mod: "_mod",
    ast.Div: "_truediv",
    ast.Pow: "_pow",
}


def _real(compute: Callable[..., Any]) -> Callable[..., float]:
    """A function of floats that has a finite value everywhere."""

    def total(*args: Any) -> float:
        try:
            value = compute(*args)
        except OverflowError:
            return -_MAX if args[0] < 0 and compute is float else _MAX
        except (ZeroDivisionError, ValueError):
            return 0.0
        if isinstance(value, complex) or math.isnan(value):
            return 0.0
        return min(max(value, -_MAX), _MAX)

    return total


def _floordiv(a: Any, b: Any) -> Any:
    return a // b if b else 0


def _mod(a: Any, b: Any) -> Any:
    return a % b if b else (a if isinstance(a, int) and isinstance(b, int) else 0.0)


def _rounding(compute: Callable[[float], int]) -> Callable[[float], int]:
    return lambda x: compute(x) if math.isfinite(x) else 0


def _ite(condition: bool, a: Any, b: Any) -> Any:
    return a if condition else b


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "ite": _ite,
    "float": _real(float),
    "sqrt": _real(math.sqrt),
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "trunc": _rounding(math.trunc),
    "round": _rounding(round),
}
_GLOBALS: dict[str, Any] = {
    "__builtins__": {},
    "_floordiv": _floordiv,
    "_mod": _mod,
    "_truediv": _real(lambda a, b: a / b),
    "_pow": _real(lambda a, b: a**b),
    **{f"_{name}": function for name, function in _FUNCTIONS.items()},
}
