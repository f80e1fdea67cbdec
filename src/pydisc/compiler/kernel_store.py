"""Kernels that this process has compiled, for every program that needs an equal one.

A second trace of a model, or a second model of the same kind, compiles only what is new. A kernel
goes by a name made of its schedule, so equal names are equal code.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pydisc.artifact.program import ObjectFile
from pydisc.codegen.common.assembly_text import Text
from pydisc.codegen.cpu.gemm_library import EXPORTS, declare_gemm_library, emit_gemm_library
from pydisc.codegen.cpu.loops import SIGNATURE
from pydisc.compiler.object_cache import cached_object
from pydisc.targets.cpu import CpuTarget

Emit = Callable[[Text], None]


def kernel_name(schedule: Any, target: CpuTarget) -> str:
    """The name of the function of a schedule: its kind, and a digest of everything in it."""
    digest = hashlib.sha256(repr((schedule, target)).encode()).hexdigest()
    return f"{schedule.kind}_{digest[:12]}"


class KernelStore:
    """The compiled kernels for one target."""

    def __init__(self, target: CpuTarget) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._objects: dict[str, ObjectFile] = {}
        """By the name of a function in it."""
        self.compiled = 0
        """Kernels that were compiled; equal ones count once."""

    def objects(
        self, kernels: Mapping[str, Emit], calls: Mapping[str, tuple[str, ...]], products: bool
    ) -> tuple[list[ObjectFile], str]:
        """The objects that hold these kernels, in loading order, and the text of the new ones.

        `kernels`: how to emit each. `calls`: the kernels that one of them calls. `products`:
        whether matrix products are among them.
        """
        with self._lock:
            found: dict[int, ObjectFile] = {}
            if products:
                library = self._library()
                found[id(library)] = library
            new = [name for name in kernels if name not in self._objects]
            text = self._compile(new, kernels, calls, products) if new else ""
            for name in kernels:
                found.setdefault(id(self._objects[name]), self._objects[name])
            return list(found.values()), text

    def _text(self) -> Text:
        return Text(self._target.vector_lanes_f32, self._target.features)

    def _library(self) -> ObjectFile:
        first = next(iter(EXPORTS))
        if first not in self._objects:
            text = self._text()
            emit_gemm_library(text, self._target)
            self._keep(text, tuple(EXPORTS))
        return self._objects[first]

    def _compile(
        self,
        new: list[str],
        kernels: Mapping[str, Emit],
        calls: Mapping[str, tuple[str, ...]],
        products: bool,
    ) -> str:
        text = self._text()
        if products:
            declare_gemm_library(text)
        for name in new:
            for called in calls.get(name, ()):
                if called not in new:
                    text.declare(called, [type_ for _, type_ in SIGNATURE])
        for name in new:
            kernels[name](text)
        source = self._keep(text, tuple(new))
        self.compiled += len(new)
        return source

    def _keep(self, text: Text, exports: tuple[str, ...]) -> str:
        source = text.module()
        made = ObjectFile(cached_object(source, self._target), exports)
        for name in exports:
            self._objects[name] = made
        return source


_stores: dict[CpuTarget, KernelStore] = {}
_lock = threading.Lock()


def kernel_store(target: CpuTarget) -> KernelStore:
    """The store of this process for a target."""
    with _lock:
        return _stores.setdefault(target, KernelStore(target))
