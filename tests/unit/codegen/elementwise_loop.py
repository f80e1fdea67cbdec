"""A loop over one or two tensors, with masked tail, for tests of what works lane by lane."""

from collections.abc import Callable

from pydisc.codegen.common.assembly_text import I64, PTR, Text, Val, memory_type

ELEMENTWISE_ARGS = (("x", PTR), ("y", PTR), ("out", PTR), ("n", I64))


def emit_elementwise(
    t: Text,
    name: str,
    body: Callable[[Val, Val], Val],
    source: str = "f32",
    target: str = "f32",
) -> None:
    """out[i] = body(x[i], y[i])."""
    with t.function(name, ELEMENTWISE_ARGS) as (x, y, out, n):
        tail = t.rem(n, t.const(t.lanes))
        whole = t.sub(n, tail)

        def step(i: Val, mask: Val | None = None) -> None:
            left = t.load_lanes(t.at(x, i, memory_type(source)), source, mask)
            right = t.load_lanes(t.at(y, i, memory_type(source)), source, mask)
            t.store_lanes(body(left, right), t.at(out, i, memory_type(target)), target, mask)

        with t.loop(t.const(0), whole, t.lanes) as loop:
            step(loop.index)
        with t.when(t.compare("ne", tail, t.const(0))):
            step(whole, t.tail_mask(tail))
