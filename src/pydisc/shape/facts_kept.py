"""Does a module still say what it said of its sizes? The check after passes."""

import re
from collections.abc import Callable

from torch_mlir.ir import Module

from pydisc.shape.constraint_ir import SymbolTable
from pydisc.shape.dim import unwrap
from pydisc.shape.expression import parse_cond, parse_dim
from pydisc.shape.questions import prove_eq
from pydisc.support.errors import InternalError


def facts_of(before: Module) -> Callable[[Module], None]:
    """Read what a module says; returns a check of another module, or of a later state of it.

    The check raises InternalError where the other drops a symbol or a fact, widens a range, gives
    another meaning to a derived size of `@main`'s signature, or contradicts what was known. It may
    say more.
    """
    old = _read(before)
    facts = [str(cond) for cond in old.cx.facts.learnt]
    ranges = {name: old.dim_of(name).range for name in old.cx.symbols}
    divisors = dict(old.cx.facts.divisors)
    signature = _signature(before)
    derived = {name: str(dim) for name, dim in old.derived.items() if name in signature}

    def check(after: Module) -> None:
        new = _read(after)
        for name, (low, high) in ranges.items():
            if name not in new.cx.symbols:
                raise InternalError(f"the symbol @{name} was dropped")
            dim = new.cx.symbols[name]
            if dim.lo < low or dim.hi > high:
                raise InternalError(
                    f"the range [{low}, {high}] of @{name} was widened to [{dim.lo}, {dim.hi}]"
                )
        facts_before = [*facts, *(f"{name} % {n} == 0" for name, n in divisors.items())]
        for fact in facts_before:
            known = parse_cond(new.cx, fact).decide()
            if known is not True:
                done = "dropped" if known is None else "contradicted"
                raise InternalError(f"the fact '{fact}' was {done}")
        kept = derived.keys() & _signature(after)
        for name in sorted(kept):
            if not prove_eq(parse_dim(new.cx, derived[name]), unwrap(new.dim_of(name))):
                raise InternalError(f"@{name} was '{derived[name]}' and is '{new.dim_of(name)}'")

    return check


def _signature(module: Module) -> set[str]:
    """The symbols in the types of what `@main` takes and returns."""
    kinds = (
        str(op.operation.attributes["function_type"])
        for op in module.body.operations
        if op.operation.name == "func.func"
    )
    return {name for kind in kinds for name in re.findall(r"@(\w+)", kind)}


def _read(module: Module) -> SymbolTable:
    try:
        return SymbolTable.read(module)
    except ValueError as error:
        raise InternalError(f"what the module says of its sizes cannot be: {error}") from error
