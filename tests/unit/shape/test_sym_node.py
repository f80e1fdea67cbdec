"""A Dim behind a torch.SymInt."""

import pytest
import torch
from torch import SymInt

from pydisc.shape import Dim, ShapeContext


class Wrapper(torch.Tensor):
    """A tensor that only has a shape."""

    @staticmethod
    def __new__(cls, sizes: list[object], strides: list[object]) -> "Wrapper":
        return torch.Tensor._make_wrapper_subclass(cls, sizes, strides=strides)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(str(func))


@pytest.fixture
def cx() -> ShapeContext:
    cx = ShapeContext()
    cx.symbol("S", 4)
    cx.symbol("T", 5)
    return cx


def test_arithmetic(cx: ShapeContext) -> None:
    s, t = (SymInt(cx.symbols[n]) for n in "ST")
    texts = {str(x) for x in (s + 1, 3 - s, s * t, s // 2, 7 // s, s % 4, -s, torch.sym_max(s, t))}
    assert texts == {
        "S + 1", "-S + 3", "S*T", "(S//2)", "(7//S)", "S - 4*(S//4)", "-S", "max(S, T)",
    }  # fmt: skip
    assert (s + 1).node is cx.symbols["S"] + 1
    assert str(torch.sym_min(s, 3)) == "min(S, 3)"
    assert s - s == 0
    assert str(torch.sym_sum([s, t, 1])) == "S + T + 1"
    assert str(abs(s)) == "S"
    assert str(s**2) == "S*S"
    assert cx.guards == []


def test_floats(cx: ShapeContext) -> None:
    s = SymInt(cx.symbols["S"])
    assert isinstance(s / 2, torch.SymFloat)
    assert str(torch.sym_int(s * 0.5)) == "(S//2)"
    assert str(torch.sym_int(s * 1.3)) == "trunc((float(S) * 1.3))"
    assert isinstance(torch.sym_float(s), torch.SymFloat)
    assert cx.guards == []


def test_comparisons_outside_dispatch_are_plain_bools(cx: ShapeContext) -> None:
    s = SymInt(cx.symbols["S"])
    assert (s == 0) is False
    assert (s > 1) is True
    assert (s >= 0) is True
    assert [g.kind for g in cx.guards] == ["branch", "branch"]
    assert cx.guards[0].where.file == __file__


def test_comparisons_inside_dispatch_are_symbolic(cx: ShapeContext) -> None:
    cx.eager_bool = False
    s, t = (SymInt(cx.symbols[n]) for n in "ST")
    cond = s == t
    assert isinstance(cond, torch.SymBool)
    assert cx.guards == []
    assert str(torch.sym_not(cond)) == str(cx.symbols["S"].ne(cx.symbols["T"]))
    chosen = cond.node.sym_ite(s.node, t.node)  # torch.sym_ite wants torch's own nodes
    assert isinstance(chosen, Dim)
    assert [chosen.evaluate({"S": n, "T": 3}) for n in (2, 3)] == [3, 3]
    assert bool(cond) is False
    assert len(cx.guards) == 1
    assert isinstance(s >= 0, bool)


def test_int_specialises(cx: ShapeContext) -> None:
    assert list(range(SymInt(cx.symbols["S"]))) == [0, 1, 2, 3]
    assert [g.kind for g in cx.guards] == ["specialize"]
    assert cx.symbols["S"].eq(4).decide() is True


def test_sizes_of_a_wrapper_tensor(cx: ShapeContext) -> None:
    s, t = (SymInt(cx.symbols[n]) for n in "ST")
    x = Wrapper([s, t, 8], [t * 8, 8, 1])
    assert x.shape[0].node is cx.symbols["S"]
    assert str(x.numel()) == "8*S*T"
    assert x.stride()[2] == 1
    assert x.is_contiguous()
    assert cx.guards == []


@pytest.mark.parametrize("hints", [(4, 5), (1, 1), (0, 0)])
def test_questions_about_layout_put_no_guards_on_sizes(hints: tuple[int, int]) -> None:
    cx = ShapeContext()
    s, t = (SymInt(cx.symbol(n, hint)) for n, hint in zip("ST", hints, strict=True))
    y = Wrapper([s, 3, t, t], [t * t * 3, 1, t * 3, 3])
    assert not y.is_contiguous()
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert not Wrapper([s, t], [1, s]).is_contiguous()
    assert cx.guards == []
