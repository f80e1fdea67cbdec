"""Arguments of an operator that the framework runs, as JSON text in a compiled program.

`{"args": [...], "kwargs": {...}}`, where a JSON object stands for what is not a plain value:

    {"t": k}              tensor number k of the step
    {"d": "2*S0 + 1"}     an integer computed from the sizes of this call
    {"dtype": "float32"}  and likewise device, layout, memory_format

This file knows no framework: `decode` is handed a function that makes dtypes and devices of names.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from pydisc.artifact.size_expression import evaluate, names_in

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

    return {name for text in expressions(_parsed(template)) for name in names_in(text)}
