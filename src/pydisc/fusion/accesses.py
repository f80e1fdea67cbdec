"""From a region of tensor ops to its KernelPrograms."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pydisc.fusion.evaluator import Evaluator
from pydisc.fusion.graph import FREE, Graph
from pydisc.fusion.kernel_program import KernelProgram, Size
from pydisc.fusion.layout import NoAccess, SplitAxis, quotient
from pydisc.fusion.region import RegionSpec

MAX_SPLITS = 16
"""Axes that the reshapes of one region may split."""

_Digits = list[list[Size]]
_T = TypeVar("_T")


def kernel_program(graph: Graph, region: RegionSpec) -> KernelProgram:
    """The program of a region. Raises NoAccess if a tensor must be materialised first."""
    if region.reduced or region.dot is not None:
        _refuse_repeating_nothing(graph, region)
    domain = region.domain or graph.shape(region.outputs[0])
    digits = _whole_dims(domain)
    contracted: _Digits = []
    if region.dot is not None:
        dot = graph.nodes[region.dot]
        lhs_shape = graph.shape(dot.operands[0])
        contracted = _whole_dims([lhs_shape[i] for i in dot.attrs["lhs_contract"]])
    return _splitting(
        region.outputs[0],
        digits + contracted,
        lambda: Evaluator(graph, region, domain, digits, contracted).run(),
    )


def _refuse_repeating_nothing(graph: Graph, region: RegionSpec) -> None:
    """Raise NoAccess for a broadcast that the region reads through, of a dim that may be 0 or 1.

    Where it is 0 there is nothing to read. A map then has no points at all; other kernels still
    run their outer loops, and what they read there ahead of the inner ones must be in memory.
    """
    seen: set[int] = set()
    stack = [t for index in region.nodes for t in graph.nodes[index].operands]
    while stack:
        tensor = stack.pop()
        node = graph.producer(tensor)
        if tensor in seen or tensor in region.memory or node is None or node.name not in FREE:
            continue
        seen.add(tensor)
        stack.extend(node.operands)
        if node.name == "broadcast_in_dim" and any(
            not isinstance(s, int) and s.lo < 1 and s.hi <= 1 for s in graph.shape(node.operands[0])
        ):
            raise NoAccess(node.result, "a dim of size 0 or 1 is repeated along a loop")


def check_dot(graph: Graph, region: RegionSpec, program: KernelProgram) -> None:
    """Raise NoAccess unless the CPU kernels can address a dot (with collapsed axes) in place."""
    c = program.contraction
    assert c is not None
    assert region.dot is not None
    lhs, rhs = graph.nodes[region.dot].operands
    if len(c.k) > 1 or (c.k and c.lhs.coefficient(c.k[0]) != 1):
        raise NoAccess(lhs, "the left operand of a dot must be contiguous along the contracted dim")
    if len(c.n) > 1:
        raise NoAccess(rhs, "the free dims of the right operand are not one stride")
    if c.n and any(store.index.coefficient(c.n[0]) != 1 for store in program.stores[:1]):
        raise NoAccess(
            graph.nodes[region.dot].result, "the result of a dot must be stored contiguously"
        )


def piece_programs(
    graph: Graph, output: int, nodes: frozenset[int], memory: frozenset[int]
) -> tuple[KernelProgram, ...]:
    """Programs that fill an output piece by piece: operands of a concatenate, inside of a pad."""
    node = graph.producer(output)
    assert node is not None
    shape = graph.shape(output)
    nowhere = [0] * len(shape)

    def piece(
        tensor: int, extent: Sequence[Size], source: Sequence[Size], target: Sequence[Size]
    ) -> KernelProgram:
        region = RegionSpec((), nodes, tuple(extent), memory=memory)
        digits = _whole_dims(extent)
        return _splitting(
            tensor,
            digits,
            lambda: Evaluator(graph, region, tuple(extent), digits).run_piece(
                tensor, source, target, shape
            ),
        )

    if node.name == "pad":
        tensor, value = node.operands
        low, high = node.attrs["low"], node.attrs["high"]
        kept = [
            size + min(lo, 0) + min(hi, 0)
            for size, lo, hi in zip(graph.shape(tensor), low, high, strict=True)
        ]
        skip, target = [max(-lo, 0) for lo in low], [max(lo, 0) for lo in low]
        return piece(value, shape, nowhere, nowhere), piece(tensor, kept, skip, target)
    programs: list[KernelProgram] = []
    start: Size = 0
    axis = node.attrs["axis"]
    for operand in node.operands:
        target = [start if i == axis else 0 for i in range(len(shape))]
        programs.append(piece(operand, graph.shape(operand), nowhere, target))
        start = start + graph.shape(operand)[axis]
    return tuple(programs)


def _whole_dims(shape: Iterable[Size]) -> _Digits:
    """One axis a dim; none where there is but one place."""
    return [[s] if s != 1 else [] for s in shape]


def _splitting(tensor: int, digits: _Digits, evaluate: Callable[[], _T]) -> _T:
    """Evaluate again with finer digits (changed in place) until no axis must be split."""
    for _ in range(MAX_SPLITS):
        try:
            return evaluate()
        except SplitAxis as split:
            _split_digit(digits, split)
    raise NoAccess(tensor, "reshapes split one axis in too many ways")


def _split_digit(digits: _Digits, split: SplitAxis) -> None:
    axis = 0
    for group in digits:
        for position, size in enumerate(group):
            if axis == split.axis:
                outer = quotient(size, split.inner)
                assert outer is not None, "SplitAxis is raised for exact splits"
                group[position : position + 1] = [outer, split.inner]
                return
            axis += 1
    raise AssertionError("no such axis")
