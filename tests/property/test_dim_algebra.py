"""The algebra of sizes against plain Python over all small values of the symbols, 0 included."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from torch_mlir.ir import Module

from pydisc.ir.context import open_context
from pydisc.shape import (
    INF,
    Cond,
    Dim,
    ShapeContext,
    Size,
    SymbolTable,
    dim_eq,
    divisible,
    exact_quotient,
    parse_cond,
    parse_dim,
    size_max,
    size_min,
)

LARGEST = 4
quick = settings(max_examples=60, deadline=None)
Tree = Any
"""("sym", i) | ("const", n) | (operator, Tree, Tree) | ("ite", condition tree, Tree, Tree)"""

_leaf = st.one_of(
    st.tuples(st.just("sym"), st.integers(0, 2)),
    st.tuples(st.just("const"), st.integers(-3, 6)),
)
_OPERATORS = ("+", "-", "*", "//", "%", "max", "min")
_RELATIONS = ("==", "!=", ">=", "<=", ">", "<")


def _grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    relation = st.tuples(st.sampled_from(_RELATIONS), inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from(_OPERATORS), inner, inner),
        st.tuples(st.just("ite"), relation, inner, inner),
    )


trees = st.recursive(_leaf, _grow, max_leaves=7)
_relations = st.tuples(st.sampled_from(_RELATIONS), trees, trees)
conditions = st.recursive(
    _relations,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(("and", "or")), inner, inner)
    ),
    max_leaves=3,
)
ranges = st.tuples(st.sampled_from((0, 0, 0, 1, 2, -2)), st.sampled_from((INF, INF, 3, 4)))


@dataclass
class Scene:
    """A context with three symbols, and all assignments to try."""

    cx: ShapeContext
    sizes: list[Dim]

    def assignments(self) -> Iterator[dict[str, int]]:
        """All values up to LARGEST within the ranges that were declared."""
        spans = [range(int(lo), int(min(hi, LARGEST)) + 1) for lo, hi in self.declared]
        for values in itertools.product(*spans):
            yield dict(zip("ABC", values, strict=True))

    def __post_init__(self) -> None:
        self.declared = [d.range for d in self.sizes]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    cx = ShapeContext()
    sizes = []
    for name in "ABC":
        lo, hi = draw(ranges)
        hint = draw(st.integers(lo, int(min(hi, LARGEST))))
        sizes.append(cx.symbol(name, hint, lo, hi))
    return Scene(cx, sizes)


def value(tree: Tree, env: Mapping[str, int]) -> int:
    """The meaning of a tree, in Python's integers; x // 0 is 0."""
    match tree:
        case ("sym", i):
            return env["ABC"[i]]
        case ("const", n):
            return n
        case ("ite", c, a, b):
            return value(a if holds(c, env) else b, env)
    op, x, y = tree[0], value(tree[1], env), value(tree[2], env)
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "//":
            return x // y if y else 0
        case "%":
            return x % y if y else x
        case "max":
            return max(x, y)
    return min(x, y)


def holds(tree: Tree, env: Mapping[str, int]) -> bool:
    """The meaning of a condition."""
    match tree:
        case ("not", a):
            return not holds(a, env)
        case ("and", a, b):
            return holds(a, env) and holds(b, env)
        case ("or", a, b):
            return holds(a, env) or holds(b, env)
    x, y = value(tree[1], env), value(tree[2], env)
    return {"==": x == y, "!=": x != y, ">=": x >= y, "<=": x <= y, ">": x > y, "<": x < y}[tree[0]]


def build(tree: Tree, scene: Scene) -> Size:
    """The tree in the algebra."""
    match tree:
        case ("sym", i):
            return scene.sizes[i]
        case ("const", n):
            return n
        case ("ite", c, a, b):
            then, otherwise = (scene.cx.dim(build(x, scene)) for x in (a, b))
            return scene.cx.unwrap(condition(c, scene).sym_ite(then, otherwise))
    op, x, y = tree[0], build(tree[1], scene), build(tree[2], scene)
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "//":
            return 0 if y == 0 else x // y
        case "%":
            return x if y == 0 else x % y
        case "max":
            return size_max(x, y)
    return size_min(x, y)


def condition(tree: Tree, scene: Scene) -> Cond:
    """The condition in the algebra."""
    match tree:
        case ("not", a):
            return condition(a, scene).sym_not()
        case ("and", a, b):
            return condition(a, scene).sym_and(condition(b, scene))
        case ("or", a, b):
            return condition(a, scene).sym_or(condition(b, scene))
    x, y = (scene.cx.dim(build(t, scene)) for t in tree[1:])
    names = {"==": "eq", "!=": "ne", ">=": "ge", "<=": "le", ">": "gt", "<": "lt"}
    return getattr(x, names[tree[0]])(y)


def worth(size: Size, env: Mapping[str, int]) -> int:
    """The value of a Size."""
    return size.evaluate(env) if isinstance(size, Dim) else size


@quick
@given(scenes(), trees)
def test_arithmetic_keeps_the_value_and_the_bounds_hold(scene: Scene, tree: Tree) -> None:
    size = build(tree, scene)
    for env in scene.assignments():
        expected = value(tree, env)
        assert worth(size, env) == expected
        if isinstance(size, Dim):
            assert size.lo <= expected <= size.hi
    if isinstance(size, Dim):
        assert size.hint == value(tree, {n: d.hint for n, d in scene.cx.symbols.items()})


@quick
@given(scenes(), conditions)
def test_a_decision_is_never_wrong(scene: Scene, tree: Tree) -> None:
    cond = condition(tree, scene)
    answer = cond.decide()
    for env in scene.assignments():
        expected = holds(tree, env)
        assert cond.evaluate(env) == expected
        assert answer in (None, expected)


@settings(max_examples=150, deadline=None)
@given(scenes(), st.lists(conditions, min_size=1, max_size=3), trees, conditions)
def test_nothing_that_follows_from_facts_is_wrong_where_they_hold(
    scene: Scene, facts: list[Tree], tree: Tree, question: Tree
) -> None:
    allowed = [env for env in scene.assignments() if all(holds(f, env) for f in facts)]
    before = build(tree, scene)
    for fact in facts:
        cond = condition(fact, scene)
        if cond.decide() is False:
            assert not allowed
            return
        scene.cx.assume(cond)
    after = build(tree, scene)
    asked = condition(question, scene)
    answer = asked.decide()
    for env in allowed:
        assert worth(before, env) == worth(after, env) == value(tree, env)
        assert asked.evaluate(env) == holds(question, env)
        assert answer in (None, holds(question, env))
        if isinstance(after, Dim):
            assert after.lo <= value(tree, env) <= after.hi


@quick
@given(scenes(), trees, conditions)
def test_text_reads_back_as_the_same_object(scene: Scene, tree: Tree, asked: Tree) -> None:
    size = build(tree, scene)
    again = parse_dim(scene.cx, str(size))
    assert again is size or again == size
    cond = condition(asked, scene)
    assert parse_cond(scene.cx, str(cond)) is cond


@quick
@given(scenes(), trees, trees)
def test_answers_about_two_sizes_are_right(scene: Scene, one: Tree, two: Tree) -> None:
    a, b = build(one, scene), build(two, scene)
    equal = dim_eq(a, b)
    quotient = exact_quotient(a, b)
    multiple = divisible(a, b)
    for env in scene.assignments():
        x, y = worth(a, env), worth(b, env)
        assert equal in (None, x == y)
        if quotient is not None:
            assert worth(quotient, env) * y == x
        if multiple:
            assert x % y == 0 if y else x == 0


@quick
@given(scenes(), conditions)
def test_guards_say_exactly_what_the_branches_were(scene: Scene, tree: Tree) -> None:
    cond = condition(tree, scene)
    taken = cond.guard_bool()
    assert taken == cond.hint
    for env in scene.assignments():
        if all(g.holds(env) for g in scene.cx.guards):
            assert holds(tree, env) == taken


@settings(max_examples=40, deadline=None)
@given(scenes(), st.lists(conditions, max_size=2), st.lists(trees, max_size=3))
def test_the_constraint_ir_reads_back(scene: Scene, facts: list[Tree], derived: list[Tree]) -> None:
    for fact in facts:
        cond = condition(fact, scene)
        if cond.decide() is None:
            scene.cx.assume(cond, cond.hint)  # facts that hold together at the hints
    table = SymbolTable(scene.cx)
    dims = [d for d in (build(t, scene) for t in derived) if isinstance(d, Dim)]
    names = [table.name_of(d) for d in dims]
    with open_context():
        module = Module.parse("module {}")
        table.write(module)
        text = str(module)
        table.write(module)
        assert str(module) == text
        assert module.operation.verify()
        again = SymbolTable.read(module)
    assert list(again) == list(table)
    for name, dim in zip(names, dims, strict=True):
        for env in scene.assignments():
            assert again.dim_of(name).evaluate(env) == dim.evaluate(env)
    for env in scene.assignments():
        known = all(c.evaluate(env) for c in scene.cx.facts.learnt)
        inside = all(again.cx.symbols[n].lo <= v <= again.cx.symbols[n].hi for n, v in env.items())
        assert known == (inside and all(c.evaluate(env) for c in again.cx.facts.learnt))
