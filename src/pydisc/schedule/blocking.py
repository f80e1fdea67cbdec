"""Cache blocking of matrix products."""

from dataclasses import dataclass

from pydisc.targets.cpu import CpuTarget


@dataclass(frozen=True)
class Blocking:
    """Cache blocks: an MC x KC block of A stays in L2 while all panels pass by."""

    mc: int
    kc: int


def default_blocking(target: CpuTarget) -> Blocking:
    """A block of A takes about 60 % of L2; longer KC than L1 holds costs nothing measurable."""
    kc = 768
    mc = max(target.mr, target.l2 * 3 // 5 // (4 * kc) // target.mr * target.mr)
    return Blocking(mc, kc)
