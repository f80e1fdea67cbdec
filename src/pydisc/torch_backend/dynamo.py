"""The torch.compile backend `disc`: Dynamo's graph, traced again with our own tracer.

Dynamo has guarded Python and chosen which dims are symbolic; AOTAutograd is not used. Python floats
reach a graph as 0-d tensors of which it takes `.item()`: their values become constants of a trace
and are compared at every call.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from pydisc.compiler.report import Fallback
from pydisc.frontend import Capture, capture
from pydisc.runtime.loaded_program import CheckFailed
from pydisc.support import knobs
from pydisc.support.errors import Unsupported
from pydisc.torch_backend.eager_reasons import GRADIENTS, needs_grad, warn_fallback
from pydisc.torch_backend.variant import NeedsEager, Variant, compile_variant

compiled_graphs: "weakref.WeakSet[DynamoGraph]" = weakref.WeakSet()
"""Graphs of Dynamo that this process has compiled, for reports and tests."""


def disc(
    graph: fx.GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """Backend entry point: `torch.compile(model, backend="disc")`."""
    if options:
        names = ", ".join(sorted(options))
        raise ValueError(f"backend disc takes no options, got {names}")
    compiled = DynamoGraph(graph, example_inputs)
    compiled_graphs.add(compiled)
    return compiled


class DynamoGraph:
    """One graph of Dynamo; compiled at its first call, returns the graph's outputs."""

    def __init__(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        self.graph = graph
        self.fallback: Fallback | None = None
        self.calls = 0
        self.eager_calls = 0
        self.variants: dict[tuple[Any, ...], Variant] = {}
        """By the values of the Python numbers that the graph gets."""
        symbolic = [n.meta.get("example_value") for n in graph.graph.nodes if n.op == "placeholder"]
        self._dims = [
            [_dim(s) for s in x.shape] if isinstance(x, torch.Tensor) else None for x in symbolic
        ]
        self._symbols = {i: _dim(x) for i, x in enumerate(symbolic) if isinstance(x, torch.SymInt)}
        self._weights = [
            i for i, x in enumerate(example_inputs) if isinstance(x, torch.nn.Parameter)
        ]
        self._numbers = _number_inputs(graph)
        taken = {*self._weights, *self._numbers, *self._symbols}
        self._tensors = [
            i
            for i, x in enumerate(example_inputs)
            if isinstance(x, torch.Tensor) and i not in taken
        ]
        taken.update(self._tensors)
        self._plain = [i for i in range(len(example_inputs)) if i not in taken]

    def __call__(self, *args: Any) -> Any:
        """Run; Dynamo has checked the arguments."""
        if self.fallback is None and torch.is_grad_enabled() and self._needs_grad(args):
            warn_fallback(id(self), GRADIENTS)
        elif self.fallback is None:
            key = self._key(args)
            variant = self.variants.get(key)
            if variant is None:
                variant = self._compile(key, args)
            if variant is not None:
                return self._run(variant, args)
        self.eager_calls += 1
        return self.graph(*args)

    def _needs_grad(self, args: Sequence[Any]) -> bool:
        tensors = (args[i] for i in (*self._tensors, *self._weights))
        return needs_grad(tensors, self.graph)

    def _key(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """What a trace depends on besides the tensors: numbers, and which parameters there are."""
        numbers = tuple(args[i].item() for i in self._numbers)
        plain = tuple(args[i] for i in self._plain)
        return (numbers, plain, tuple(map(id, (args[i] for i in self._weights))))

    def _run(self, variant: Variant, args: Sequence[Any]) -> Any:
        tensors = [args[i] for i in self._tensors]
        try:
            result = variant(tensors, [t.contiguous() for t in tensors])
        except CheckFailed as failed:
            check = failed.check
            self._note(Fallback("a call", f"{check.kind} {check.text}", check.where))
            self.eager_calls += 1
            return self.graph(*args)
        except NeedsEager as reason:
            self._note(Fallback("a call", str(reason), ""))
            self.eager_calls += 1
            return self.graph(*args)
        self.calls += 1
        return result

    def _note(self, why: Fallback) -> None:
        warn_fallback(id(self), why)

    def _compile(self, key: tuple[Any, ...], args: Sequence[Any]) -> Variant | None:
        try:
            variant = compile_variant(lambda: self._capture(args), self.graph)
        except Unsupported as error:
            self.fallback = Fallback(error.what, error.why, str(error.where or ""))
        except Exception as error:
            if knobs.current().on_error == "raise":
                raise
            self.fallback = Fallback("the graph", f"a fault of the compiler: {error}", "")
        else:
            self.variants[key] = variant
            return variant
        self._note(self.fallback)
        return None

    def _capture(self, args: Sequence[Any]) -> Capture:
        """Trace the graph as a function of its tensors; sizes come from their shapes."""
        if any(not args[i].is_cpu for i in self._tensors):
            raise Unsupported("the graph", "an input is not on the CPU")
        graph = _with_numbers(self.graph, {i: args[i].item() for i in self._numbers})
        places = self._size_places()
        whole = list(args)

        def run(*tensors: torch.Tensor) -> Any:
            whole[:] = args
            for i, tensor in zip(self._tensors, tensors, strict=True):
                whole[i] = tensor
            for i, place in places.items():
                whole[i] = tensors[place[0]].shape[place[1]]
            return graph(*whole)

        return capture(
            run,
            tuple(args[i] for i in self._tensors),
            {},
            state=self.graph,
            dynamic=[self._dims[i] or [] for i in self._tensors],
        )

    def _size_places(self) -> dict[int, tuple[int, int]]:
        """For each size argument a tensor and a dim that has it."""
        places: dict[int, tuple[int, int]] = {}
        for i, symbol in self._symbols.items():
            for number, tensor in enumerate(self._tensors):
                dims = self._dims[tensor] or []
                if symbol in dims:
                    places[i] = (number, dims.index(symbol))
                    break
            else:
                raise Unsupported("the graph", f"no tensor has the size {symbol} that it is given")
        return places


def _dim(size: Any) -> int | str:
    """A static size, or the name of Dynamo's symbol."""
    return size if isinstance(size, int) else str(size.node.expr)


def _number_inputs(graph: fx.GraphModule) -> list[int]:
    """Inputs of which the graph only takes `.item()`: Python numbers."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return [i for i, node in enumerate(inputs) if node.users and all(map(_is_item, node.users))]


def _is_item(node: fx.Node) -> bool:
    return node.op == "call_method" and node.target == "item"


def _with_numbers(graph: fx.GraphModule, numbers: dict[int, Any]) -> fx.GraphModule:
    """A copy of a graph in which `.item()` of these inputs is the number."""
    copied = fx.Graph()
    known: dict[fx.Node, Any] = {}
    position = 0
    for node in graph.graph.nodes:
        if _is_item(node) and isinstance(known.get(node.args[0]), int | float | bool):
            known[node] = known[node.args[0]]
            continue
        if node.op == "output":
            copied.output(map_arg(node.args[0], lambda n: known[n]))
            continue
        known[node] = copied.node_copy(node, lambda n: known[n])
        if node.op == "placeholder":
            if position in numbers:
                known[node] = numbers[position]
            position += 1
    return fx.GraphModule(graph, copied)
