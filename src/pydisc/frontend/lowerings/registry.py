"""The table of op rules, by the name of the overload."""

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]
"""(cx, *args, **kwargs) -> Value or list of Values, or NotImplemented where it does not apply."""

_rules: dict[str, Rule] = {}


def lowering(*overloads: str) -> Callable[[Rule], Rule]:
    """Register the rule of one or more overloads, such as `aten.mm.default`.

    In place of tensors the rule gets `Value`s, in place of symbolic ints `Dim`s.
    """

    def register(rule: Rule) -> Rule:
        for overload in overloads:
            if overload in _rules:
                raise ValueError(f"two rules for {overload}")
            _rules[overload] = rule
        return rule

    return register


def rule_of(overload: str) -> Rule | None:
    """The rule of an overload."""
    return _rules.get(overload)


def covered() -> tuple[str, ...]:
    """The overloads that have a rule, sorted."""
    return tuple(sorted(_rules))
