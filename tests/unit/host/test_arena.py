"""The arena: at every size, buffers that live at the same time lie apart."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pydisc.codegen.host.arena import ALIGNMENT, ArenaPlan, Buffer, plan_arena
from pydisc.fusion.kernel_program import Size
from pydisc.shape import ShapeContext


def value(size: Size, env: dict[str, int]) -> int:
    return size if isinstance(size, int) else size.evaluate(env)


def padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def placed(plan: ArenaPlan, env: dict[str, int]) -> list[tuple[int, int]]:
    """(offset, bytes) of each slot, as `prepare` computes them."""
    found: list[tuple[int, int]] = []
    offset = 0
    for sizes in plan.slots:
        size = padded(max(value(s, env) for s in sizes))
        found.append((offset, size))
        offset += size
    return found


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """(which size, first step, last step) of some buffers."""
    count = draw(st.integers(1, 14))
    found = []
    for _ in range(count):
        first = draw(st.integers(0, 9))
        found.append((draw(st.integers(0, 6)), first, draw(st.integers(first, 10))))
    return found


SIZES = st.sampled_from([0, 1, 2, 3, 17, 64, 1000])


@settings(max_examples=200, deadline=None)
@given(lives(), st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=4))
def test_what_lives_together_lies_apart(
    drawn: list[tuple[int, int, int]], points: list[tuple[int, int]]
) -> None:
    cx = ShapeContext()
    a, b = cx.symbol("a", 8), cx.symbol("b", 32)
    kinds: list[Size] = [64, 4 * a, 4 * b, 4 * a * b, 4 * a + 4 * b, 4 * a * a, 4096]
    buffers = [Buffer(i, kinds[k], first, last) for i, (k, first, last) in enumerate(drawn)]
    plan = plan_arena(buffers)
    assert set(plan.slot_of) == set(range(len(buffers)))
    for env in ({"a": x, "b": y} for x, y in points):
        slots = placed(plan, env)
        for one in buffers:
            offset, size = slots[plan.slot_of[one.tensor]]
            assert value(one.bytes, env) <= size
            assert offset % ALIGNMENT == 0
            for two in buffers[one.tensor + 1 :]:
                if one.first <= two.last and two.first <= one.last:
                    other, other_size = slots[plan.slot_of[two.tensor]]
                    assert offset + size <= other or other + other_size <= offset
        total = sum(size for _, size in slots)
        assert total <= sum(padded(value(buffer.bytes, env)) for buffer in buffers)


def test_equal_sizes_share_without_growth() -> None:
    cx = ShapeContext()
    size = 4 * cx.symbol("a", 8)
    plan = plan_arena([Buffer(i, size, i, i + 1) for i in range(20)])
    assert plan.slots == ((size,), (size,))
