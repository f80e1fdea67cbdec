"""Plans of random programs: complete, without circles of kernels, and found in finite time."""

import random
from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handmade import Body, Spec, handmade
from pydisc.fusion.epilogues import grow_epilogues
from pydisc.fusion.graph import FREE, Graph
from pydisc.fusion.joining import join_backwards
from pydisc.fusion.partition import Partition
from pydisc.fusion.plan import plan_fusion
from pydisc.fusion.region import Region
from pydisc.fusion.views import absorb_transposes, materialize_views
from pydisc.ir.builder import Builder, Value

INPUTS: list[Spec] = [(("n", "n"), "f32"), (("n", "n"), "f32"), (("n",), "f32")]
EXAMPLES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def program(seed: int, length: int) -> Body:
    """Element-wise ops, reductions, dots and views in any order; some of the values returned."""
    pick = random.Random(seed)

    def body(b: Builder, *arguments: Value) -> Sequence[Value]:
        matrices, vectors = list(arguments[:2]), [arguments[2]]
        shape = arguments[0].shape
        made: list[Value] = []
        for _ in range(length):
            x, y, v = pick.choice(matrices[-4:]), pick.choice(matrices), pick.choice(vectors[-2:])
            axis = pick.randrange(2)
            match pick.randrange(11):
                case 0 | 1 | 2:
                    out = b.binary("add", x, y)
                case 3:
                    out = b.unary("tanh", x)
                case 4 | 5:
                    out = b.reduce(pick.choice(("add", "maximum")), x, [axis])
                case 6 | 7:
                    out = b.broadcast(v, shape, [axis])
                case 8:
                    out = b.transpose(x, [1, 0])
                case 9:
                    out = b.dot_general(x, y, ([], []), ([1], [axis]))
                case _:
                    out = b.reshape(b.reshape(x, (shape[0] * shape[1],)), shape)
            (vectors if len(out.shape) == 1 else matrices).append(out)
            made.append(out)
        return [made[-1], *(v for v in made[:-1] if pick.random() < 0.2)]

    return body


def assert_no_circle(graph: Graph, regions: Sequence[Region]) -> None:
    """Contract every region to a point; what is left is sorted by taking what waits for nothing.

    Views are looked through, but for those that a copy (a region without nodes) puts into memory:
    the copy waits for what it copies, who reads the view waits for the copy.
    """
    place: dict[int, Region] = {i: region for region in regions for i in region.nodes}
    copied = {t: region for region in regions if not region.nodes for t in region.outputs}

    def sources(tensors: Iterable[int]) -> Iterator[Region]:
        for tensor in tensors:
            node = graph.producer(tensor)
            if tensor in copied:
                yield copied[tensor]
            elif node is not None and node.name in FREE:
                yield from sources(node.operands)
            elif node is not None:
                yield place[node.index]

    waits: dict[Region, set[Region]] = {}
    for region in regions:
        indices = region.nodes or {n.index for t in region.outputs if (n := graph.producer(t))}
        waits[region] = {
            source
            for index in indices
            for source in sources(graph.nodes[index].operands)
            if source is not region
        }
    while waits:
        ready = {at for at, others in waits.items() if not others & waits.keys()}
        assert ready, "kernels wait for each other in a circle"
        for at in ready:
            del waits[at]


@EXAMPLES
@given(seed=st.integers(0, 2**32), length=st.integers(1, 24))
def test_plans_are_complete_and_in_order(seed: int, length: int) -> None:
    with handmade(INPUTS, program(seed, length)) as made:
        graph = made.graph()
        plan = plan_fusion(graph)
        ready = set(graph.arguments)
        for region in plan.regions:
            for code in region.programs:
                assert set(code.inputs) <= ready, "a kernel reads what is not computed yet"
            assert not ready & set(region.outputs), "a tensor is computed twice"
            ready |= set(region.outputs)
        assert set(graph.returns) <= ready


@EXAMPLES
@given(
    seed=st.integers(0, 2**32), length=st.integers(3, 24), share=st.sampled_from((0.05, 0.2, 0.5))
)
def test_no_circle_whatever_is_forced_into_memory(seed: int, length: int, share: float) -> None:
    with handmade(INPUTS, program(seed, length)) as made:
        graph = made.graph()
        pick = random.Random(seed + 1)
        forced = {
            tensor: "chosen"
            for tensor in range(len(graph.tensors))
            if graph.producer(tensor) is not None and pick.random() < share
        }
        p = Partition(graph, forced)
        grow_epilogues(p)
        join_backwards(p)
        absorb_transposes(p)
        materialize_views(p)
        regions = [r for r in p.regions if r.nodes or r.outputs[0] in forced]
        assert_no_circle(graph, regions)
        seen = [i for r in p.regions for i in r.nodes]
        assert len(seen) == len(set(seen)), "an op is in two regions"
        for node in graph.nodes:
            if node.name not in FREE and p.consumers_of(node):
                assert node.index in p.region_of


@pytest.mark.parametrize("seed", range(20))
def test_everything_may_be_forced(seed: int) -> None:
    """Where planning can end at the latest: every op a kernel of its own."""
    with handmade(INPUTS, program(seed, 24)) as made:
        graph = made.graph()
        forced = {t: "all" for t in range(len(graph.tensors)) if graph.producer(t) is not None}
        p = Partition(graph, forced)
        grow_epilogues(p)
        join_backwards(p)
        assert all(len(r.nodes) == 1 for r in p.regions)
