"""Capturing a function as a StableHLO module with symbolic sizes."""

import gc
import inspect
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch_mlir.ir import (
    ArrayAttr,
    Block,
    DictAttr,
    FunctionType,
    InsertionPoint,
    Location,
    Module,
    Operation,
    StringAttr,
    TypeAttr,
)

import pydisc
from pydisc.frontend.dtypes import name_of
from pydisc.frontend.library_adapters import adapted_libraries
from pydisc.frontend.module_state import ModuleState
from pydisc.frontend.outputs import flatten_result, register_known_containers
from pydisc.frontend.shape_env import ShapeEnvShim
from pydisc.frontend.traced_tensor import TracedTensor
from pydisc.frontend.tracer import ExternSite, Tracer
from pydisc.ir.builder import Builder, Value
from pydisc.shape import Dim, Guard, ShapeContext, Size, SymbolTable
from pydisc.support.errors import PydiscError, Unsupported
from pydisc.support.source import SourceLine

_RESTART_BEFORE = 200
"""Ops up to which a trace starts over as soon as two sizes prove to be one; later ones wait for the end."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A tensor argument: its name, which leaf of (args, kwargs) it is, and its declared shape."""

    name: str
    leaf: int
    dtype: str
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter, buffer or other tensor that the function reached by itself."""

    name: str
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A leaf of the result.

    kind "result": number `index` of @main's results; "input", "weight": that tensor itself, by
    number; "constant": the Python object `value`.
    """

    kind: str
    index: int = -1
    value: Any = None
    shape: tuple[Size, ...] = ()
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Mutation:
    """An input or weight (`kind`, number `index`) that gets the content of a result after the call."""

    kind: str
    index: int
    result: int


@dataclass(frozen=True, slots=True)
class InputEquality:
    """Sizes of inputs that the function needs to be equal: the declared shapes say so."""

    text: str
    where: SourceLine


@dataclass(slots=True)
class Capture:
    """A captured function: the module with @main, and how its arguments and results map to Python."""

    module: Module
    symbols: SymbolTable
    context: ShapeContext
    inputs: list[InputSpec]
    weights: list[Weight]
    outputs: list[OutputSpec]
    out_spec: pytree.TreeSpec
    in_spec: pytree.TreeSpec
    guards: list[Guard]
    constants: dict[int, Any]
    """Leaves of (args, kwargs) that are not tensors: the program holds for these values only."""
    mutations: list[Mutation]
    externs: list[ExternSite]
    op_count: int
    input_equalities: list[InputEquality] = field(default_factory=list)


class _Restart(BaseException):
    """Ends a trace that has learnt which sizes are one. Not an Exception: user code may catch those."""


@contextmanager
def _compiling() -> Generator[None]:
    """Libraries ask `torch.compiler.is_compiling()` to stay clear of what cannot be traced."""
    import torch.compiler as compiler

    before = compiler._is_compiling_flag
    compiler._is_compiling_flag = True
    try:
        yield
    finally:
        compiler._is_compiling_flag = before


def capture(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    state: nn.Module | None,
    dynamic: Sequence[Sequence[int | str]] | None = None,
    weights_as_args: Sequence[int] = (),
) -> Capture:
    """Run a function on symbolic tensors and return what it computes as a module.

    Needs an open MLIR context. Every size of every tensor argument is a symbol, unless `dynamic`
    says otherwise: for each tensor leaf of (args, kwargs), per dim an int to keep it static or a
    key, where the same key means the same symbol. Leaves in `weights_as_args` are weights.

    `state` is the module whose parameters give weights their names, and whose attributes are put
    back afterwards. Raises Unsupported, with the user's line, for what cannot be traced.
    """
    with _without_garbage_collection():
        return _capture(fn, args, kwargs, state, dynamic, weights_as_args)


@contextmanager
def _without_garbage_collection() -> Generator[None]:
    """A trace makes many small objects; collecting among all of a large model's takes a second."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _capture(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    state: nn.Module | None,
    dynamic: Sequence[Sequence[int | str]] | None,
    weights_as_args: Sequence[int],
) -> Capture:
    register_known_containers((args, kwargs))
    leaves, in_spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    task = _Task(fn, leaves, in_spec, state, dynamic, frozenset(weights_as_args))
    saved = ModuleState(state)
    equal: dict[str, Size | str] = {}
    reported: list[InputEquality] = []
    while True:
        trace = _Trace(task, equal)
        try:
            result = trace.run()
            complete = True
        except _Restart:
            saved.restore(leaks_matter=False)
            result, complete = None, False
        except PydiscError:
            saved.restore(leaks_matter=False)
            raise
        except Exception as error:
            saved.restore(leaks_matter=False)
            raise Unsupported(
                "the trace of the function",
                f"it failed: {type(error).__name__}: {error}",
                where=_raised_at(error),
            ) from error
        except BaseException:
            saved.restore(leaks_matter=False)
            raise
        found = equalities(trace.shapes.guards)
        if found:
            reported += [e for e, _, _ in found]
            _merge(equal, found)
            if complete:
                saved.restore(leaks_matter=False)
            continue
        assigned = saved.restore()
        done = trace.finish(result, list(assigned.values()))
        done.input_equalities = reported
        return done


def _raised_at(error: BaseException) -> SourceLine | None:
    """The innermost line of an exception's traceback that is neither torch's nor ours."""
    own = tuple(os.path.dirname(os.path.abspath(m.__file__)) + os.sep for m in (torch, pydisc))
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not os.path.abspath(code.co_filename).startswith(own):
            found = SourceLine(code.co_filename, traceback.tb_lineno, code.co_qualname)
        traceback = traceback.tb_next
    return found


# -- sizes that prove to be one ----------------------------------------------------------------------
def equalities(guards: Sequence[Guard]) -> list[tuple[InputEquality, str, Size | str]]:
    """Guards `symbol == symbol` and `symbol == constant` that hold: (report, symbol, equal to).

    Two guards `a >= b` and `b >= a` are one too.
    """
    found: list[tuple[InputEquality, str, Size | str]] = []
    at_least: set[Dim] = set()
    for guard in guards:
        if guard.kind == "specialize":
            continue
        cond = guard.cond if guard.value else guard.cond.sym_not()
        if cond.kind == "ge":
            at_least.add(cond.args[0])
        if cond.kind == "eq" or (cond.kind == "ge" and cond.args[0].neg() in at_least):
            pair = _equal_pair(cond.args[0])
            if pair is not None:
                found.append((InputEquality(f"{pair[0]} == {pair[1]}", guard.where), *pair))
    return found


def _equal_pair(dim: Dim) -> tuple[str, Size | str] | None:
    names: list[tuple[str, int]] = []
    constant = 0
    for atoms, coefficient in dim.terms:
        if not atoms:
            constant = coefficient
        elif len(atoms) == 1 and atoms[0].kind == "sym" and abs(coefficient) == 1:
            names.append((atoms[0].name, coefficient))
        else:
            return None
    if len(names) == 1:
        return names[0][0], -constant * names[0][1]
    if len(names) == 2 and not constant and names[0][1] == -names[1][1]:
        return names[1][0], names[0][0]
    return None


def _merge(equal: dict[str, Size | str], found: Sequence[tuple[Any, str, Size | str]]) -> None:
    for _, name, other in found:
        old, new = (
            _resolve(equal, name),
            _resolve(equal, other) if isinstance(other, str) else other,
        )
        if isinstance(old, str):
            if old != new:
                equal[old] = new
        elif isinstance(new, str):
            equal[new] = old


def _resolve(equal: Mapping[str, Size | str], name: str) -> Size | str:
    """What stands for a symbol after the merges: a symbol's name, or an int."""
    at: Size | str = name
    while isinstance(at, str) and at in equal:
        at = equal[at]
    return at


# -- one trace -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Task:
    fn: Callable[..., Any]
    leaves: list[Any]
    in_spec: pytree.TreeSpec
    state: nn.Module | None
    dynamic: Sequence[Sequence[int | str]] | None
    weights: frozenset[int]

    def input_names(self) -> dict[int, str]:
        """A name for each leaf: the parameter's, with the path below it."""
        tree = pytree.tree_unflatten(range(len(self.leaves)), self.in_spec)
        try:
            paths = pytree.tree_leaves_with_path(tree)
        except ValueError:  # a container registered without names for its parts
            return {i: f"args[{i}]" for i in range(len(self.leaves))}
        names = _positional_names(self.fn)
        found: dict[int, str] = {}
        for path, leaf in paths:
            top, key, rest = cast(Any, path[0]), cast(Any, path[1]), path[2:]
            if top.idx == 1:
                base = str(key.key)
            else:
                base = names[key.idx] if key.idx < len(names) else f"args[{key.idx}]"
            found[leaf] = base + pytree.keystr(rest)
        return found


def _positional_names(fn: Callable[..., Any]) -> list[str]:
    target = fn.forward if isinstance(fn, nn.Module) else fn
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds]


class _Trace:
    """One run of the function, with sizes merged as `equal` says."""

    def __init__(self, task: _Task, equal: Mapping[str, Size | str]) -> None:
        self.task = task
        self.equal = equal
        self.shapes = ShapeContext()
        self.shapes.shape_env = ShapeEnvShim()
        self.symbols = SymbolTable(self.shapes)
        self.module = Module.create(Location.unknown())
        self.main = Operation.create(
            "func.func",
            attributes={
                "sym_name": StringAttr.get("main"),
                "function_type": TypeAttr.get(FunctionType.get([], [])),
            },
            regions=1,
            ip=InsertionPoint(self.module.body),
        )
        self.block = Block.create_at_start(self.main.regions[0], [])
        self.b = Builder(self.block, self.symbols)
        self.tracer = Tracer(self.b, self.shapes, self._add_weight, self._after_op)
        self.inputs: list[InputSpec] = []
        self.traced_inputs: list[TracedTensor] = []
        self.weights: list[Weight] = []
        self.weight_names = _weight_names(task.state)
        self._guards_seen = 0

    def _after_op(self) -> None:
        guards = self.shapes.guards
        if len(guards) != self._guards_seen:
            if self.tracer.op_count < _RESTART_BEFORE and equalities(guards):
                raise _Restart
            self._guards_seen = len(guards)

    def _argument(self, shape: tuple[Size, ...], dtype: str) -> Value:
        mlir = self.block.add_argument(self.b.type(shape, dtype), Location.unknown())
        return Value(mlir, shape, dtype)

    def _add_weight(self, tensor: Tensor) -> Value:
        number = len(self.weights)
        name = self.weight_names.get(id(tensor), f"constant_{number}")
        self.weights.append(Weight(name, tensor))
        return self._argument(tuple(tensor.shape), name_of(tensor.dtype))

    def _sizes(self, tensor: Tensor, number: int, next_symbol: int) -> tuple[Size, ...]:
        """The declared shape of a tensor argument."""
        sizes: list[Size] = []
        for axis, hint in enumerate(tensor.shape):
            name: int | str = f"S{next_symbol + axis}"
            if self.task.dynamic is not None:
                entry = self.task.dynamic[number][axis]
                name = entry if isinstance(entry, int) else _symbol_name(entry)
            resolved = _resolve(self.equal, name) if isinstance(name, str) else name
            sizes.append(
                self.shapes.symbol(resolved, int(hint)) if isinstance(resolved, str) else resolved
            )
        return tuple(sizes)

    def _make_inputs(self) -> list[Any]:
        names = self.task.input_names()
        leaves: list[Any] = []
        number = next_symbol = 0
        for i, leaf in enumerate(self.task.leaves):
            if not isinstance(leaf, Tensor):
                leaves.append(leaf)
                continue
            if i in self.task.weights:
                self.weight_names.setdefault(id(leaf), names[i])
                leaves.append(leaf)
            else:
                if leaf.layout is not torch.strided:
                    raise Unsupported(f"argument {names[i]}", f"its layout is {leaf.layout}")
                shape = self._sizes(leaf, number, next_symbol)
                dtype = name_of(leaf.dtype)
                traced = self.tracer.wrap(self._argument(shape, dtype), leaf.device)
                self.inputs.append(InputSpec(names[i], i, dtype, shape))
                self.traced_inputs.append(traced)
                leaves.append(traced)
            number += 1
            next_symbol += leaf.ndim
        if self.traced_inputs:
            self.tracer.device = self.traced_inputs[0].device
        return leaves

    def run(self) -> Any:
        """The function's result, of traced tensors."""
        args, kwargs = pytree.tree_unflatten(self._make_inputs(), self.task.in_spec)
        with (
            torch.no_grad(),
            _compiling(),
            adapted_libraries(),
            torch._C._AutoDispatchBelowAutograd(),  # pyright: ignore[reportAttributeAccessIssue]
            self.tracer,
        ):
            return self.task.fn(*args, **kwargs)

    # -- the end -----------------------------------------------------------------------------------
    def finish(self, result: Any, assigned: Sequence[tuple[Tensor, TracedTensor]]) -> Capture:
        """Close the function and describe it."""
        leaves, out_spec = flatten_result(result)
        returned: dict[Value, int] = {}
        outputs = [self._output(leaf, returned) for leaf in leaves]
        mutations = self._mutations(assigned, returned)
        self.b.returns(list(returned))
        _erase_unused(self.block)
        results = [self.b.type(v.shape, v.dtype) for v in returned]
        kind = FunctionType.get([a.type for a in self.block.arguments], results)
        self.main.attributes["function_type"] = TypeAttr.get(kind)
        named = [*(i.name for i in self.inputs), *(w.name for w in self.weights)]
        self.main.attributes["arg_attrs"] = ArrayAttr.get(
            [
                DictAttr.get({"disc.name": StringAttr.get(name)})
                for name in self._argument_names(named)
            ]
        )
        self.symbols.write(self.module)
        return Capture(
            module=self.module,
            symbols=self.symbols,
            context=self.shapes,
            inputs=self.inputs,
            weights=self.weights,
            outputs=outputs,
            out_spec=out_spec,
            in_spec=self.task.in_spec,
            guards=list(self.shapes.guards),
            constants={
                i: leaf for i, leaf in enumerate(self.task.leaves) if not isinstance(leaf, Tensor)
            },
            mutations=mutations,
            externs=self.tracer.externs,
            op_count=self.tracer.op_count,
        )

    def _argument_names(self, named: list[str]) -> list[str]:
        assert len(named) == len(self.block.arguments)
        return named

    def _place(self, tensor: TracedTensor) -> tuple[str, int] | None:
        """("input" or "weight", number) of a tensor that is an argument of the program."""
        for number, traced in enumerate(self.traced_inputs):
            if traced is tensor:
                return "input", number
        for number, weight in enumerate(self.tracer.weights.values()):
            if weight.traced is tensor:
                return "weight", number
        return None

    def _output(self, leaf: Any, returned: dict[Value, int]) -> OutputSpec:
        if isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool):
            node = leaf.node
            value = (
                node.guard_int()
                if node.is_int()
                else node.guard_float()
                if node.is_float()
                else node.guard_bool()
            )
            return OutputSpec("constant", value=value)
        if not isinstance(leaf, Tensor):
            return OutputSpec("constant", value=leaf)
        tensor = self.tracer.traced(leaf)
        value = self.tracer.value_of(tensor)
        place = self._place(tensor)
        if place is not None:
            return OutputSpec(*place, shape=value.shape, dtype=value.dtype)
        return OutputSpec(
            "result", self._result(value, returned), shape=value.shape, dtype=value.dtype
        )

    def _result(self, value: Value, returned: dict[Value, int]) -> int:
        return returned.setdefault(value, len(returned))

    def _mutations(
        self, assigned: Sequence[tuple[Tensor, TracedTensor]], returned: dict[Value, int]
    ) -> list[Mutation]:
        found: list[Mutation] = []
        for old, new in assigned:
            target, value = self.tracer.traced(old), self.tracer.value_of(new)
            if (value.shape, value.dtype) != (target._value.shape, target._value.dtype):
                raise Unsupported(
                    "assigning to a buffer", f"its shape or type changes: {target} becomes {new}"
                )
            place = self._place(target)
            assert place is not None
            found.append(Mutation(*place, self._result(value, returned)))
        for tensor in self.tracer.written.values():
            place = self._place(tensor)
            if place is not None:
                found.append(Mutation(*place, self._result(tensor._value, returned)))
        return found


def _erase_unused(block: Block) -> None:
    """Drop ops whose results nothing uses; nothing but an extern has an effect."""
    for op in reversed([op.operation for op in block.operations]):
        if op.name in ("func.return", "disc.extern"):
            continue
        if not any(True for result in op.results for _ in result.uses):
            op.erase()


def _symbol_name(key: str) -> str:
    """A key of the caller as the name of a symbol."""
    return key if key.isidentifier() else "".join(c if c.isalnum() else "_" for c in f"K{key}")


def _weight_names(state: nn.Module | None) -> dict[int, str]:
    if state is None:
        return {}
    found = {id(t): name for name, t in state.named_buffers()}
    found.update((id(t), name) for name, t in state.named_parameters())
    return found
