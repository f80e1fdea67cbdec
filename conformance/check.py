"""One sample through pydisc and through eager: are they the same, and who ran it?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree

import pydisc
from conformance.comparison import difference, has_other_strides, result_of
from conformance.outcome import Outcome
from conformance.samples import Arguments, cloned, described, seed, widened
from pydisc.compiler.report import Fallback, TraceInfo
from pydisc.torch_backend.dynamo import DynamoGraph, compiled_graphs

Fn = Callable[..., Any]


@dataclass(frozen=True)
class Account:
    """Who ran a call, and why it was not our code alone."""

    status: str
    reason: str = ""
    traces: int = 0


class Route(Protocol):
    """A way to compile a function, with an account of its last call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, compiling where needed."""
        ...

    def account(self) -> Account:
        """Who ran the last call."""
        ...


class CompileRoute:
    """`pydisc.compile`."""

    def __init__(self, fn: Fn) -> None:
        self.compiled = pydisc.compile(fn)
        self.calls = self.eager_calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function."""
        before = self.compiled.report()
        self.calls, self.eager_calls = before.calls, before.eager_calls
        return self.compiled(*args, **kwargs)

    def account(self) -> Account:
        """From the report: what the last call added to it."""
        report = self.compiled.report()
        steps = [f for trace in report.traces for f in trace.fallbacks]
        whole = [f for f in report.fallbacks if f not in steps]
        if report.calls > self.calls and report.eager_calls == self.eager_calls:
            status, reason = _traced(report.traces)
        else:
            reason = _text(whole[-1]) if whole else "not said"
            status = "fault" if "a fault of the compiler" in reason else "fallback"
        return Account(status, reason, report.compiles)


class TorchCompileRoute:
    """`torch.compile(backend="disc", dynamic=True)`."""

    def __init__(self, fn: Fn) -> None:
        torch._dynamo.reset()
        compiled_graphs.clear()
        self.fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compile for the plain arguments that there are, and run."""
        compiled = torch.compile(_Constants(self.fn, args, kwargs), backend="disc", dynamic=True)
        return compiled(*filter(_has_tensor, args), *filter(_has_tensor, kwargs.values()))

    def account(self) -> Account:
        """From the graphs that Dynamo handed over."""
        graphs: list[DynamoGraph] = list(compiled_graphs)
        traces = tuple(v.info for g in graphs for v in g.variants.values())
        if not graphs:
            return Account("fallback", "Dynamo handed over no graph")
        for graph in graphs:
            if graph.fallback is not None:
                reason = _text(graph.fallback)
                fault = "a fault of the compiler" in reason
                return Account("fault" if fault else "fallback", reason, len(traces))
        if any(g.eager_calls for g in graphs):
            return Account("fallback", "a graph ran in eager mode", len(traces))
        if len(graphs) > 1:
            return Account("fallback", f"Dynamo made {len(graphs)} graphs", len(traces))
        return Account(*_traced(traces), len(traces))


class _Constants(torch.nn.Module):
    """A call as a function of what has tensors in it; the rest are attributes.

    Dynamo takes attributes for constants, as they mostly are in a model, but not arguments.
    """

    def __init__(self, fn: Fn, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.fn = fn
        self.names = list(kwargs)
        values = [*args, *kwargs.values()]
        given = [i for i, value in enumerate(values) if _has_tensor(value)]
        self.places = {i: number for number, i in enumerate(given)}
        self.plain = {i: value for i, value in enumerate(values) if i not in self.places}

    def forward(self, *given: Any) -> Any:
        """Put the arguments together and call."""
        count = len(self.places) + len(self.plain)
        values = [
            given[self.places[i]] if i in self.places else self.plain[i] for i in range(count)
        ]
        first = count - len(self.names)
        return self.fn(*values[:first], **dict(zip(self.names, values[first:], strict=True)))


def _has_tensor(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


def _traced(traces: tuple[TraceInfo, ...]) -> tuple[str, str]:
    steps = [f for trace in traces for f in trace.fallbacks]
    if not steps:
        return "native", ""
    kernels = any(trace.fusions for trace in traces)
    return ("part" if kernels else "extern"), _text(steps[0])


def _text(fallback: Fallback) -> str:
    """The reason without the line of the program, which is ours here."""
    return " ".join(f"{fallback.what}: {fallback.reason}".split())[:300]


def fresh(fn: Fn) -> Fn:
    """A function of its own that calls `fn`, also for Dynamo, which goes by the code object."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    call.__code__ = call.__code__.replace()
    return call


def check(
    number: int, fn: Fn, route: Route, arguments: Arguments, seen: bool, values: bool
) -> Outcome:
    """Run a sample both ways. `seen`: whether the route has run this structure before."""
    text = described(arguments)
    seed()
    call = cloned(arguments)
    eager = result_of(fn, call.args, call.kwargs)
    before = route.account().traces
    seed()
    call = cloned(arguments)
    start = time.perf_counter()
    ours = result_of(route, call.args, call.kwargs)
    seconds = round(time.perf_counter() - start, 4)

    def exact() -> Any:
        seed()
        wide = widened(arguments)
        return result_of(fn, wide.args, wide.kwargs)

    wrong = difference(ours, eager, exact, values)
    account = route.account()
    if wrong:
        if ours.error is None:
            wrong += f"; run by {account.status}" + (f" ({account.reason})" * bool(account.reason))
        return Outcome(number, "wrong", wrong, text, seconds=seconds)
    if eager.error is not None:
        return Outcome(number, "refused", repr(eager.error)[:200], text, seconds=seconds)
    notes = ("strides",) if has_other_strides(ours, eager) else ()
    if account.traces > before + (not seen):
        notes += ("retrace",)
    return Outcome(number, account.status, account.reason, text, notes, seconds)
