"""A view operator that the runtime applies to a real tensor, to share memory as eager mode does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ViewStep:
    """Call `target` with the arguments of `template` (see extern_args), in which tensor 0 is the
    base; `index` says which result to take where there are many."""

    target: str
    template: str
    index: int | None
