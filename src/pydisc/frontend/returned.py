"""What `@main` returns, and how the leaves of the function's result come of it.

Results share memory as they do in eager mode: what is a view of an argument is made anew from the
argument itself at each call, and so are several results that are views of one tensor.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pydisc.frontend import views
from pydisc.frontend.captured import OutputSpec
from pydisc.frontend.traced_tensor import TracedTensor
from pydisc.frontend.tracer import Tracer
from pydisc.ir.builder import Value
from pydisc.shape import Dim, unwrap

Place = tuple[str, int]


class Returned:
    """Collects the values that `@main` returns.

    One for each tensor that is returned, also where two are equal: each has its own memory.
    `place_of` tells which input or weight a tensor is, if it is one.
    """

    def __init__(self, tracer: Tracer, place_of: Callable[[TracedTensor], Place | None]) -> None:
        self.values: list[Value] = []
        self._tracer = tracer
        self._place_of = place_of
        self._number: dict[int, int] = {}
        self._kept: list[TracedTensor] = []

    def outputs(self, leaves: Sequence[Any]) -> list[OutputSpec]:
        """How each leaf of the result is made."""
        tensors: dict[int, TracedTensor] = {}
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                tensor = self._tracer.traced(leaf)
                tensors[id(leaf)] = tensor
                self._tracer.value_of(tensor)
        distinct = {id(t): t for t in tensors.values()}.values()
        sharing = Counter(id(views.root_of(t)) for t in distinct)
        return [
            self._tensor(tensors[id(leaf)], sharing) if id(leaf) in tensors else _other(leaf)
            for leaf in leaves
        ]

    def value(self, value: Value) -> int:
        """The number of a returned value, whoever else has it."""
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)

    def _tensor(self, tensor: TracedTensor, sharing: Counter[int]) -> OutputSpec:
        shape, dtype = tensor._value.shape, tensor._value.dtype
        root = views.root_of(tensor)
        place = self._place_of(root)
        if place is not None:
            return OutputSpec(*place, shape=shape, dtype=dtype, views=views.steps_of(tensor))
        if sharing[id(root)] == 1:
            return OutputSpec("result", self._own(tensor), shape=shape, dtype=dtype)
        steps = views.steps_of(tensor)
        return OutputSpec("result", self._own(root), shape=shape, dtype=dtype, views=steps)

    def _own(self, tensor: TracedTensor) -> int:
        """The number of a value that has memory of its own for this tensor."""
        if id(tensor) not in self._number:
            self._number[id(tensor)] = len(self.values)
            self._kept.append(tensor)  # else another tensor could get the same id
            self.values.append(tensor._value)
        return self._number[id(tensor)]


def _other(leaf: Any) -> OutputSpec:
    """A leaf that is no tensor. Integers may be sizes; other numbers hold for this trace only."""
    if isinstance(leaf, torch.SymInt):
        size = unwrap(leaf.node)
        if isinstance(size, Dim) and size.constant is None:
            return OutputSpec("size", value=str(size))
        return OutputSpec("constant", value=leaf.node.guard_int())
    if isinstance(leaf, torch.SymFloat):
        return OutputSpec("constant", value=leaf.node.guard_float())
    if isinstance(leaf, torch.SymBool):
        return OutputSpec("constant", value=leaf.node.guard_bool())
    return OutputSpec("constant", value=leaf)
