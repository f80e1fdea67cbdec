"""Sizes and conditions as text, and back.

The language is a subset of Python's expressions: names of symbols, integers, `+ - * // %`,
`max(a, b)`, `min(a, b)`, `ite(condition, a, b)`; conditions are comparisons joined by `and`, `or`,
`not`. Floats, `/`, `**`, `float(size)`, `sqrt(x)` make reals, which `floor`, `ceil`, `trunc` and
`round` bring back.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable
from typing import Any

from pydisc.shape.cond import Cond
from pydisc.shape.context import ShapeContext
from pydisc.shape.dim import Atom, Dim, Size, unwrap
from pydisc.shape.real import Real

# -- to text --------------------------------------------------------------------------------------


def atom_text(atom: Atom) -> str:
    """An atom; never needs more parentheses."""
    if atom.kind == "sym":
        return atom.name
    if atom.kind == "floordiv":
        return f"({_operand(atom.args[0])}//{_operand(atom.args[1])})"
    return f"{atom.kind}({', '.join(map(str, atom.args))})"


def _operand(dim: Dim) -> str:
    text = str(dim)
    simple = dim.atom is not None or (dim.constant is not None and dim.constant >= 0)
    return text if simple else f"({text})"


def dim_text(dim: Dim) -> str:
    """A polynomial, terms of many factors first."""
    terms = sorted(dim.terms, key=lambda term: -len(term[0]))
    text = ""
    for atoms, coefficient in terms:
        factors = [atom_text(a) for a in atoms]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        part = "*".join(factors)
        if not text:
            text = f"-{part}" if coefficient < 0 else part
        else:
            text += f" {'-' if coefficient < 0 else '+'} {part}"
    return text or "0"


def cond_text(cond: Cond) -> str:
    """A condition."""
    match cond.kind:
        case "const":
            return str(cond.args[0])
        case "eq":
            return _comparison(cond.args[0], "==")
        case "ge":
            return _comparison(cond.args[0], ">=")
        case "not" if cond.args[0].kind == "eq":
            return _comparison(cond.args[0].args[0], "!=")
        case "not":
            return f"not ({cond.args[0]})"
        case "and" | "or":
            return f"({cond.args[0]}) {cond.kind} ({cond.args[1]})"
    sign = {"eq_real": "==", "lt_real": "<", "le_real": "<="}[cond.kind]
    return f"{cond.args[0]} {sign} {cond.args[1]}"


def _comparison(dim: Dim, sign: str) -> str:
    """dim `sign` 0, with negative terms brought to the other side."""
    cx = dim.cx
    left = cx.from_terms({m: c for m, c in dim.poly if c > 0})
    right = cx.from_terms({m: -c for m, c in dim.poly if c < 0})
    return f"{left} {sign} {right}"


_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**", "mod": "%", "floordiv": "//",
}  # fmt: skip


def real_text(real: Real) -> str:
    """A float expression; never needs more parentheses."""
    match real.kind:
        case "const":
            value = real.args[0]
            if math.isinf(value):
                return "1e999" if value > 0 else "(-1e999)"
            return repr(value) if value >= 0 and str(value)[0] != "-" else f"({value!r})"
        case "neg":
            return f"(-{real.args[0]})"
        case kind if kind in _SIGNS:
            return f"({real.args[0]} {_SIGNS[kind]} {real.args[1]})"
    return f"{real.kind}({', '.join(map(str, real.args))})"


# -- from text ------------------------------------------------------------------------------------
_Node = Dim | Real | Cond

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Div: "truediv",
    ast.Pow: "pow",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.GtE: "ge",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.Lt: "lt",
}
_CALLS: dict[str, Callable[..., Any]] = {
    "max": lambda a, b: a.sym_max(b),
    "min": lambda a, b: a.sym_min(b),
    "ite": lambda c, a, b: c.sym_ite(a, b),
    "float": lambda a: a.sym_float(),
    "sqrt": lambda a: a.sym_float().sym_sqrt(),
    "floor": lambda a: a.floor(),
    "ceil": lambda a: a.ceil(),
    "trunc": lambda a: a.trunc(),
    "round": lambda a: a.round(),
}


def parse_dim(cx: ShapeContext, text: str) -> Size:
    """The size that a text says, over symbols that `cx` has. Raises ValueError if it says none."""
    found = _parse(cx, text)
    if not isinstance(found, Dim):
        raise ValueError(f"not a size: {text!r}")
    return unwrap(found)


def parse_cond(cx: ShapeContext, text: str) -> Cond:
    """The condition that a text says. Raises ValueError if it says none."""
    found = _parse(cx, text)
    if not isinstance(found, Cond):
        raise ValueError(f"not a condition: {text!r}")
    return found


def _parse(cx: ShapeContext, text: str) -> _Node:
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _convert(cx, tree.body)
    except (SyntaxError, KeyError, AttributeError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"cannot read the size expression {text!r}: {error}") from error


def _convert(cx: ShapeContext, node: ast.expr) -> Any:
    read = functools.partial(_convert, cx)
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return _constant(cx, value)
        case ast.Name(id=name):
            return cx.symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return read(operand).neg()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return read(operand).sym_not()
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _promote(read(left), read(right))
            if isinstance(op, ast.Pow) and isinstance(b, Dim) and b.constant is None:
                raise TypeError("an exponent must be a constant or a float")  # it would specialise
            return getattr(a, _BINARY[type(op)])(b)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            a, b = _promote(read(left), read(right))
            return getattr(a, _COMPARE[type(op)])(b)
        case ast.BoolOp(op=op, values=values):
            join = Cond.sym_and if isinstance(op, ast.And) else Cond.sym_or
            return functools.reduce(join, map(read, values))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            values = [read(a) for a in args]
            if name in ("max", "min"):
                values = list(_promote(*values))
            return _CALLS[name](*values)
    raise TypeError(f"{ast.unparse(node)} is not part of the language")


def _constant(cx: ShapeContext, value: float) -> _Node:
    if isinstance(value, bool):
        return cx.boolean(value)
    return cx.node(value) if isinstance(value, int) else cx.real(value)


def _promote(a: Any, b: Any) -> tuple[Any, Any]:
    """As in Python: a float beside an int makes both floats."""
    if isinstance(a, Real) and isinstance(b, Dim):
        return a, b.sym_float()
    if isinstance(b, Real) and isinstance(a, Dim):
        return a.sym_float(), b
    return a, b
