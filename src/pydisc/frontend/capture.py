"""Capturing a function as a StableHLO module with symbolic sizes."""

import gc
import itertools
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pydisc.frontend.captured import Capture, InputEquality
from pydisc.frontend.equalities import equalities, merge
from pydisc.frontend.module_state import ModuleState
from pydisc.frontend.outputs import register_known_containers
from pydisc.frontend.trace import Restart, Task, Trace, weight_names
from pydisc.shape import DeclaredDims, Size
from pydisc.support.errors import PydiscError, Unsupported
from pydisc.support.source import SourceLine

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_RESTART_BEFORE = 200
_EARLY_RESTARTS = 3
"""A trace starts over as soon as two sizes prove to be one, if it is no longer than this in ops,
and not more often; after that it runs to its end and starts over once."""


def capture(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    state: nn.Module | None,
    dynamic: Sequence[Sequence[int | str]] | None = None,
    weights_as_args: Sequence[int] = (),
    declared: DeclaredDims | None = None,
) -> Capture:
    """Run a function on symbolic tensors and return what it computes as a module.

    Needs an open MLIR context. Every size of every tensor argument is a symbol, unless `dynamic`
    says otherwise: for each tensor leaf of (args, kwargs), per dim an int to keep it static or a
    key, where the same key means the same symbol. Leaves in `weights_as_args` are weights.
    `declared` says what the user knows of sizes; these arguments must have been checked against it.

    `state` is the module whose parameters give weights their names, and whose attributes are put
    back afterwards. Raises Unsupported, with the user's line, for what cannot be traced.
    """
    with _without_garbage_collection():
        return _capture(
            fn, args, kwargs, state, dynamic, weights_as_args, declared or DeclaredDims()
        )


@contextmanager
def _without_garbage_collection() -> Generator[None]:
    """A trace makes many small objects; collecting among all of a large model's takes a second."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _capture(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    state: nn.Module | None,
    dynamic: Sequence[Sequence[int | str]] | None,
    weights_as_args: Sequence[int],
    declared: DeclaredDims,
) -> Capture:
    register_known_containers((args, kwargs))
    leaves, in_spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    names = weight_names(state)
    task = Task(fn, leaves, in_spec, dynamic, frozenset(weights_as_args), names, declared)
    saved = ModuleState(state)
    equal: dict[str, Size | str] = {}
    reported: list[InputEquality] = []
    for attempt in itertools.count():
        trace = Trace(task, equal, _RESTART_BEFORE if attempt < _EARLY_RESTARTS else 0)
        try:
            result = trace.run()
            complete = True
        except Restart:
            saved.restore(leaks_matter=False)
            result, complete = None, False
        except PydiscError:
            saved.restore(leaks_matter=False)
            raise
        except Exception as error:
            saved.restore(leaks_matter=False)
            raise Unsupported(
                "the trace of the function",
                f"it failed: {type(error).__name__}: {error}",
                where=_raised_at(error),
            ) from error
        except BaseException:
            saved.restore(leaks_matter=False)
            raise
        found = equalities(trace.shapes.guards)
        if found:
            reported += [e for e, _, _ in found]
            merge(equal, found)
            if complete:
                saved.restore(leaks_matter=False)
            continue
        assigned = saved.restore()
        done = trace.finish(result, assigned)
        done.input_equalities = reported
        return done
    raise AssertionError("unreachable")


def _raised_at(error: BaseException) -> SourceLine | None:
    """The innermost line of an exception's traceback that is neither torch's nor ours."""
    own = tuple(os.path.dirname(os.path.abspath(f)) + os.sep for f in (torch.__file__, _PACKAGE))
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not os.path.abspath(code.co_filename).startswith(own):
            found = SourceLine(code.co_filename, traceback.tb_lineno, code.co_qualname)
        traceback = traceback.tb_next
    return found
