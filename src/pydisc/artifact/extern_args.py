"""Arguments of an operator that the framework runs, as JSON text in a compiled program.

`{"args": [...], "kwargs": {...}}`, where a JSON object stands for what is not a plain value:

    {"t": k}              tensor number k of the step
    {"d": "2*S0 + 1"}     an integer computed from the sizes of this call
    {"dtype": "float32"}  and likewise device, layout, memory_format

This file knows no framework: `decode` is handed a function that makes dtypes and devices of names.
"""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

NAMED = ("dtype", "device", "layout", "memory_format")


def encode(args: Sequence[Any], kwargs: Mapping[str, Any], replace: Callable[[Any], Any]) -> str:
    """The template of a call.

    `replace` returns `{"t": k}` for a tensor, `{"d": text}` for a symbolic integer, and any other
    object as it is. Raises TypeError for what a template cannot hold.
    """
    return json.dumps(
        {
            "args": [_encode(a, replace) for a in args],
            "kwargs": {name: _encode(value, replace) for name, value in kwargs.items()},
        }
    )


def _encode(value: Any, replace: Callable[[Any], Any]) -> Any:
    value = replace(value)
    if value is None or isinstance(value, bool | int | float | str | dict):
        return value
    if isinstance(value, list | tuple):
        return [_encode(v, replace) for v in value]
    kind = type(value).__name__
    if kind in NAMED:
        return {kind: str(value).removeprefix("torch.")}
    raise TypeError(f"cannot write a {kind} into an argument template")


@cache
def _parsed(template: str) -> dict[str, Any]:
    return json.loads(template)


def decode(
    template: str,
    tensors: Sequence[Any],
    env: Mapping[str, int],
    named: Callable[[str, str], Any],
) -> tuple[list[Any], dict[str, Any]]:
    """(args, kwargs) of a call.

    `env` holds the sizes' symbols, `named(kind, name)` makes a dtype, device, layout or memory
    format. `symbols_of` lists the symbols that `env` must hold.

    >>> decode('{"args": [{"t": 0}, {"d": "2*S0"}], "kwargs": {}}', ["x"], {"S0": 3}, getattr)
    (['x', 6], {})
    """
    call = _parsed(template)

    def value(node: Any) -> Any:
        if isinstance(node, list):
            return [value(v) for v in node]
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "t":
            return tensors[content]
        if kind == "d":
            return evaluate(content, env)
        return named(kind, content)

    return value(call["args"]), {name: value(v) for name, v in call["kwargs"].items()}


def symbols_of(template: str) -> set[str]:
    """The symbols that the integers of a template are computed from."""

    def expressions(node: Any) -> list[str]:
        if isinstance(node, list):
            return [text for v in node for text in expressions(v)]
        if isinstance(node, dict):
            if "d" in node and isinstance(node["d"], str):
                return [node["d"]]
            return [text for v in node.values() for text in expressions(v)]
        return []

    functions = {"min", "max", "ite", "floor", "ceil", "trunc", "round", "sqrt"}
    names: set[str] = set()
    for text in expressions(_parsed(template)):
        names |= {n.id for n in ast.walk(_tree(text)) if isinstance(n, ast.Name)}
    return names - functions


@cache
def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def evaluate(text: str, env: Mapping[str, int]) -> int:
    """The value of a size expression; x // 0 is 0 and x % 0 is x.

    >>> evaluate("max(S0 - 1, 0) // 2", {"S0": 7})
    3
    """
    return _evaluate(_tree(text), env)


def _evaluate(node: ast.expr, env: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return env[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, env)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _evaluate(left, env), _evaluate(right, env))
        case ast.Call(func=ast.Name(id="min"), args=args):
            return min(_evaluate(a, env) for a in args)
        case ast.Call(func=ast.Name(id="max"), args=args):
            return max(_evaluate(a, env) for a in args)
    raise ValueError(f"not a size expression: {ast.unparse(node)}")


def _binary(op: ast.operator, a: int, b: int) -> int:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv():
            return a // b if b else 0
        case ast.Mod():
            return a % b if b else a
    raise ValueError(f"not an operator of sizes: {type(op).__name__}")
