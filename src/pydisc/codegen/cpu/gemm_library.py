"""What kernels with matrix products call: one object for all programs of a process."""

from pydisc.codegen.common.assembly_text import Text
from pydisc.codegen.cpu.gemm_microkernel import (
    PANELS_ARGS,
    emit_gemm_panels,
    emit_microkernels,
)
from pydisc.codegen.cpu.gemm_pack import PACK_ARGS, emit_pack_b
from pydisc.targets.cpu import CpuTarget

EXPORTS = {"gemm_panels": PANELS_ARGS, "pack_b": PACK_ARGS}
"""The functions of the library, with their arguments."""


def emit_gemm_library(t: Text, target: CpuTarget) -> None:
    """Emit the functions of the library."""
    emit_microkernels(t, target)
    emit_gemm_panels(t, target)
    emit_pack_b(t, target)


def declare_gemm_library(t: Text) -> None:
    """Declare them in another module."""
    for name, args in EXPORTS.items():
        t.declare(name, [type_ for _, type_ in args])
