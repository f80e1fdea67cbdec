"""Opening MLIR: one context a compile, with the dialects that pydisc uses registered."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch_mlir._mlir_libs as _libs
from torch_mlir._mlir_libs import _stablehlo  # pyright: ignore[reportAttributeAccessIssue]
from torch_mlir.ir import Context, Location

from pydisc.ir.dialects import DiscShape

_once = threading.Lock()
_ready = False


def _prepare() -> None:
    """Make dialect look-ups cheap and register the StableHLO passes, once a process."""
    global _ready
    with _once:
        if not _ready:
            bindings: Any = _libs
            bindings._mlir.globals.append_dialect_search_prefix("pydisc.ir.stubs")
            _stablehlo.register_stablehlo_passes()
            _ready = True


@contextmanager
def open_context() -> Iterator[Context]:
    """A fresh context with StableHLO, `disc_shape` loaded, current inside the block.

    Values of two contexts must never meet (it corrupts the heap), so a compile opens exactly one.
    """
    _prepare()
    context = Context()
    _stablehlo.register_dialect(context)
    context.allow_unregistered_dialects = True  # `disc`, see ir/dialects.py; the verifier knows it
    with context, Location.unknown():
        DiscShape.load()
        yield context
