"""A region: the ops that become one kernel."""

from dataclasses import dataclass, field

from pydisc.fusion.kernel_program import KernelProgram, Size


@dataclass(eq=False)
class Region:
    """A set of ops that becomes one kernel (or one call of the framework, kind `extern`).

    kind: loop, row, scan, dot, concatenate, pad, extern. `domain` is the shape that a loop, row or
    scan kernel iterates over, `reduced` the dims of it that its reductions or scans are over; `dot`
    is the dot's node.
    """

    kind: str
    nodes: set[int]
    outputs: list[int] = field(default_factory=list)
    domain: tuple[Size, ...] = ()
    reduced: tuple[int, ...] = ()
    dot: int | None = None
    stored_as: int | None = None
    """The transposed form of the one output, if that is what lies in memory."""
    programs: tuple[KernelProgram, ...] = ()


@dataclass(frozen=True)
class RegionSpec:
    """What a kernel computes: outputs (tensor ids), the nodes that it may evaluate, its kind.

    Row and scan regions name their `domain` (the shape under the reductions or scans) and the
    `reduced` dims of it;
    a dot region names its `dot` node.
    """

    outputs: tuple[int, ...]
    nodes: frozenset[int]
    domain: tuple[Size, ...] = ()
    reduced: tuple[int, ...] = ()
    dot: int | None = None
    memory: frozenset[int] = frozenset()
    """Tensors that lie in memory, the outputs of all regions: they are read, not seen through."""
