"""Loading compiled kernels: a relocatable object in memory becomes callable addresses."""

import threading
from collections.abc import Sequence

import llvmlite.binding as llvm

from pydisc.artifact.program import ObjectFile

_once = threading.Lock()
_ready = False
_shared: dict[str, tuple[bytes, "ObjectCode"]] = {}
"""Objects whose functions others call, by function. They stay: others may link to them any time."""


def _prepare() -> None:
    global _ready
    with _once:
        if not _ready:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            _ready = True


def define_symbol(name: str, address: int) -> None:
    """Make a function of this process known to objects loaded from now on."""
    llvm.add_symbol(name, address)


def load_shared(objects: Sequence[ObjectFile]) -> None:
    """Load objects, each once in a process, and make their functions known to later ones.

    Raises ValueError if another object has given one of these names to other code.
    """
    for item in objects:
        _load_shared(item)


def _load_shared(item: ObjectFile) -> None:
    with _once_shared:
        for name in item.exports:
            known = _shared.get(name)
            if known is not None and known[0] != item.code:
                raise ValueError(f"two objects define {name!r}; use one process for each")
        if item.exports and item.exports[0] in _shared:
            return
        code = ObjectCode(item.code)
        for name in item.exports:
            _shared[name] = (item.code, code)
            define_symbol(name, code.address(name))


_once_shared = threading.Lock()


def shared_address(name: str) -> int:
    """The address of a function of an object that `load_shared` loaded."""
    return _shared[name][1].address(name)


class ObjectCode:
    """Machine code loaded from an object file; it stays mapped as long as this object lives."""

    def __init__(self, data: bytes) -> None:
        _prepare()
        self.data = data
        machine = llvm.Target.from_default_triple().create_target_machine(
            codemodel="jitdefault", jit=True
        )
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of a public function."""
        address = self._engine.get_function_address(name)
        if not address:
            raise KeyError(f"the object has no function {name!r}")
        return address
