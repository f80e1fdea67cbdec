"""Loading compiled kernels: a relocatable object in memory becomes callable addresses."""

import threading

import llvmlite.binding as llvm

_once = threading.Lock()
_ready = False


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
