"""Axes that walk as one become one."""

from handmade import Body, handmade
from pydisc.fusion.collapse import collapse_axes
from pydisc.fusion.kernel_program import KernelProgram
from pydisc.fusion.plan import plan_fusion
from pydisc.ir.builder import Builder, Value
from pydisc.shape import product, prove_eq

CUBE = (("a", "b", "c"), "f32")


def collapsed(body: Body) -> tuple[KernelProgram, KernelProgram]:
    """The one program of a module before and after."""
    with handmade([CUBE], body) as made:
        (region,) = plan_fusion(made.graph()).regions
        (program,) = region.programs
        return program, collapse_axes(program)


def test_a_map_becomes_one_axis() -> None:
    before, after = collapsed(lambda b, x: [b.unary("tanh", x)])
    assert (len(before.outer), len(after.outer)) == (3, 1)
    (axis,) = after.outer
    assert prove_eq(after.axes[axis], product(before.axes))
    assert after.exprs[0].index.terms == ((axis, 1),)


def test_rows_and_their_inside_stay_apart() -> None:
    before, after = collapsed(lambda b, x: [b.reduce("add", x, [2])])
    assert (before.inner, len(after.outer), len(after.inner)) == ((2,), 1, 1)


def test_a_reduction_over_neighbours_is_one_loop() -> None:
    _, after = collapsed(lambda b, x: [b.reduce("add", x, [1, 2])])
    assert (len(after.outer), len(after.inner)) == (1, 1)
    reduced = next(e for e in after.exprs if e.op == "reduce").reduced
    assert reduced == after.inner


def test_a_transpose_keeps_its_axes() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        return [b.transpose(x, [1, 0, 2])]

    before, after = collapsed(body)
    assert after is before


def test_a_broadcast_over_the_last_axes_collapses_them() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        return [b.binary("add", x, b.broadcast(b.reduce("add", x, [1, 2]), x.shape, [0]))]

    _, after = collapsed(body)
    assert (len(after.outer), len(after.inner)) == (1, 1)
