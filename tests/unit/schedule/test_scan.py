"""Which way lanes run in a scan, and what goes into its kernel."""

from handmade import Body, handmade
from pydisc.fusion.plan import Region, plan_fusion
from pydisc.ir.builder import Builder, Value
from pydisc.schedule.loops import schedule_loops


def planned(body: Body) -> list[tuple[Region, list[str]]]:
    """The regions of a function of a matrix, with the kinds of axes that they scan."""
    with handmade([(("a", "b"), "f32")], body) as made:
        return [
            (region, [schedule_loops(p, 8).schedule.kind for p in region.programs])
            for region in plan_fusion(made.graph()).regions
        ]


def test_lanes_run_where_memory_does() -> None:
    for axis, vector_is_scanned in ((0, False), (1, True)):
        with handmade([(("a", "b"), "f32")], lambda b, x, a=axis: [b.scan("add", x, a)]) as made:
            (region,) = plan_fusion(made.graph()).regions
            schedule = schedule_loops(region.programs[0], 8).schedule
        assert schedule.kind == "scan"
        assert (schedule.vector in schedule.program.inner) == vector_is_scanned


def test_what_surrounds_a_scan_is_in_its_kernel() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        return [b.unary("tanh", b.scan("add", b.binary("multiply", x, x), 1))]

    ((region, kinds),) = planned(body)
    assert kinds == ["scan"]
    assert len(region.nodes) == 3


def test_scans_along_one_axis_share_a_pass() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        return [b.scan("maximum", b.scan("add", x, 1), 1)]

    ((_, kinds),) = planned(body)
    assert kinds == ["scan"]


def test_scans_along_other_axes_have_kernels_of_their_own() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        return [b.scan("add", b.scan("add", x, 1), 0)]

    assert [kinds for _, kinds in planned(body)] == [["scan"], ["scan"]]


def test_running_values_read_elsewhere_are_in_memory() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        square = b.reshape(x, x.shape)
        total = b.scan("add", square, 1)
        return [b.binary("add", b.transpose(total, [1, 0]), b.transpose(x, [1, 0]))]

    assert ["scan"] in [kinds for _, kinds in planned(body)]


def test_a_reduction_is_not_part_of_a_scan() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        total = b.broadcast(b.reduce("add", x, [1]), x.shape, [0])
        return [b.binary("divide", b.scan("add", x, 1), total)]

    assert sorted(kinds[0] for _, kinds in planned(body)) == ["row", "scan"]
