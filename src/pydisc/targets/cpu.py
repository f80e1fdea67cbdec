"""What the schedules and emitters need to know about a CPU."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuTarget:
    """A CPU as plain data; two CPUs that compare equal get the same code."""

    name: str
    vector_lanes_f32: int
    """f32 lanes of a vector register: 4 (NEON), 8 (AVX2) or 16 (AVX-512)."""
    registers: int
    """Number of vector registers."""
    l1: int
    """Bytes of level 1 data cache of a core."""
    l2: int
    """Bytes of level 2 cache of a core."""
    features: tuple[str, ...] = ()
    """Sorted names of the instruction set extensions, as the kernel of the system spells them."""

    def has(self, feature: str) -> bool:
        """Whether the CPU has an instruction set extension."""
        return feature in self.features

    @property
    def mr(self) -> int:
        """Rows of a GEMM register tile."""
        return 6

    @property
    def nr(self) -> int:
        """Columns of a GEMM register tile: the width of a panel of a packed matrix.

        The accumulators take mr * nr lanes; a row of B and one broadcast value of A must fit too.
        """
        return self.vector_lanes_f32 * (4 if self.registers >= 32 else 2)


AVX2 = CpuTarget("x86-64-avx2", 8, 16, 32 << 10, 512 << 10, ("avx2", "f16c", "fma"))
AVX512 = CpuTarget("x86-64-avx512", 16, 32, 32 << 10, 1 << 20, ("avx2", "avx512f", "f16c", "fma"))
NEON = CpuTarget("aarch64-neon", 4, 32, 64 << 10, 1 << 20, ("asimd",))
