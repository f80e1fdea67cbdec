"""The torch.compile backend `disc`: Dynamo's graph, traced again with our own tracer.

Dynamo has guarded Python and chosen which dims are symbolic; AOTAutograd is not used.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pydisc.compiler.report import Fallback
from pydisc.frontend import capture
from pydisc.runtime.loaded_program import CheckFailed
from pydisc.support import knobs
from pydisc.support.errors import Unsupported
from pydisc.support.log import warn_once
from pydisc.torch_backend.variant import Variant, compile_variant

compiled_graphs: "weakref.WeakSet[DynamoGraph]" = weakref.WeakSet()
"""Graphs compiled in this process, for reports and tests."""


def disc(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """Backend entry point: `torch.compile(model, backend="disc")`."""
    if options:
        names = ", ".join(sorted(options))
        raise ValueError(f"backend disc takes no options, got {names}")
    compiled = DynamoGraph(graph, example_inputs)
    compiled_graphs.add(compiled)
    return compiled


class DynamoGraph:
    """One graph of Dynamo, compiled; called with the graph's inputs, returns its outputs."""

    def __init__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        self.graph = graph
        self.fallback: Fallback | None = None
        self.variant: Variant | None = None
        self._weights = [
            (i, x) for i, x in enumerate(example_inputs) if isinstance(x, torch.nn.Parameter)
        ]
        self._is_weight = {i for i, _ in self._weights}
        try:
            self.variant = compile_variant(lambda: self._capture(example_inputs))
        except Unsupported as error:
            self._fall_back(Fallback(error.what, error.why, str(error.where or "")))
        except Exception as error:
            if knobs.current().on_error == "raise":
                raise
            self._fall_back(Fallback("the graph", f"a fault of the compiler: {error}", ""))

    def _fall_back(self, why: Fallback) -> None:
        self.fallback = why
        warn_once((id(self), why), f"{why.what} runs in eager mode: {why.reason}")

    def _capture(self, example_inputs: Sequence[Any]) -> Any:
        args, dynamic = [], []
        for i, x in enumerate(example_inputs):
            if isinstance(x, torch.Tensor):
                if x.requires_grad and i not in self._is_weight and torch.is_grad_enabled():
                    raise Unsupported("the graph", "an input requires gradients")
                if not x.is_cpu:
                    raise Unsupported("the graph", f"an input is on {x.device}")
                dynamic.append([_dim(s) for s in x.shape])
            args.append(x)
        return capture(
            self.graph,
            tuple(args),
            {},
            state=self.graph,
            dynamic=dynamic,
            weights_as_args=tuple(i for i, _ in self._weights),
        )

    def __call__(self, *args: Any) -> Any:
        """Run; Dynamo has checked the arguments."""
        variant = self.variant
        if variant is None or any(args[i] is not weight for i, weight in self._weights):
            return self.graph(*args)
        tensors = [
            a if a.is_contiguous() else a.contiguous()
            for i, a in enumerate(args)
            if isinstance(a, torch.Tensor) and i not in self._is_weight
        ]
        try:
            return variant(tensors)
        except CheckFailed as failure:
            self._fall_back(
                Fallback(
                    "a call", f"{failure.check.kind} {failure.check.text}", failure.check.where
                )
            )
            return self.graph(*args)


def _dim(size: Any) -> int | str:
    """A static size, or the name of Dynamo's symbol."""
    if isinstance(size, int):
        return size
    return str(size.node.expr) if hasattr(size.node, "expr") else str(size)
