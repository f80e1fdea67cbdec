"""Schedules: equal kernels are equal data, whatever tensors and symbols they are about."""

from collections.abc import Sequence

from handmade import Body, Spec, handmade
from pydisc.fusion.plan import plan_fusion
from pydisc.ir.builder import Builder, Value
from pydisc.schedule.loops import schedule_loops
from pydisc.schedule.schedule import ScheduledKernel
from pydisc.shape import prove_eq


def schedules(inputs: Sequence[Spec], body: Body) -> list[ScheduledKernel]:
    with handmade(inputs, body) as made:
        regions = plan_fusion(made.graph()).regions
        return [schedule_loops(p, 8) for r in regions for p in r.programs]


def test_the_same_work_on_other_sizes_is_the_same_kernel() -> None:
    def body(b: Builder, x: Value, y: Value) -> list[Value]:
        return [b.unary("tanh", x), b.unary("tanh", y)]

    one, two = schedules([(("a", "b"), "f32"), (("c", "d"), "f32")], body)
    assert one.schedule == two.schedule
    assert not prove_eq(one.params[0], two.params[0])


def test_lanes_run_where_memory_does() -> None:
    kinds = {
        axes: schedules([(("a", "b"), "f32")], lambda b, x, axes=axes: [b.reduce("add", x, axes)])
        for axes in ((0,), (1,), (0, 1))
    }
    assert {axes: s[0].schedule.kind for axes, s in kinds.items()} == {
        (0,): "column",
        (1,): "row",
        (0, 1): "row",
    }


def test_a_schedule_prints_as_one_line() -> None:
    (kernel,) = schedules([(("a", 8), "f32")], lambda b, x: [b.reduce("add", x, [1])])
    text = str(kernel.schedule)
    assert text.startswith("row(axes=[p0,8]")
    assert "\n" not in text
