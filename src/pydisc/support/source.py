"""Where in the user's Python an op came from."""

import os
import sys
from dataclasses import dataclass

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DEMO = os.path.join(_PACKAGE, "demo") + os.sep
_TYPED_IN = ("<stdin>", "<ipython", "<doctest")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's code, and the function it is in."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


UNKNOWN = SourceLine("<unknown>", 0, "<unknown>")
"""Stands where no Python frame of the user is on the stack."""

_is_internal: dict[str, bool] = {}


def _classify(file: str) -> bool:
    """Whether frames of this file are machinery: pydisc, torch, or generated code."""
    if file.startswith("<"):
        return not file.startswith(_TYPED_IN)
    path = os.path.abspath(file)
    if path.startswith(_PACKAGE):
        return not path.startswith(_DEMO)  # the demo is a user like any other
    torch = sys.modules.get("torch")
    root = getattr(torch, "__file__", None)
    return root is not None and path.startswith(os.path.dirname(os.path.abspath(root)) + os.sep)


def current_source_line() -> SourceLine:
    """The innermost Python frame that is neither in pydisc nor in torch.

    Walks raw frames and remembers the verdict on each file, because the tracer asks for every op.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        internal = _is_internal.get(file)
        if internal is None:
            internal = _is_internal[file] = _classify(file)
        if not internal:
            return SourceLine(file, frame.f_lineno, frame.f_code.co_qualname)
        frame = frame.f_back
    return UNKNOWN
