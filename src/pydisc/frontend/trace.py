"""One run of a function under the tracer, and the module that comes of it."""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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

from pydisc.frontend.captured import Capture, InputSpec, Mutation, OutputSpec, Weight
from pydisc.frontend.dtypes import name_of
from pydisc.frontend.equalities import equalities, resolve
from pydisc.frontend.library_adapters import adapted_libraries
from pydisc.frontend.outputs import flatten_result
from pydisc.frontend.shape_env import ShapeEnvShim
from pydisc.frontend.traced_tensor import TracedTensor
from pydisc.frontend.tracer import Tracer
from pydisc.ir.builder import Builder, Value
from pydisc.shape import ShapeContext, Size, SymbolTable
from pydisc.support.errors import Unsupported


class Restart(BaseException):
    """Ends a trace that has learnt which sizes are one; user code must not catch it."""


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


@dataclass(frozen=True, slots=True)
class Task:
    fn: Callable[..., Any]
    leaves: list[Any]
    in_spec: pytree.TreeSpec
    dynamic: Sequence[Sequence[int | str]] | None
    weights: frozenset[int]
    weight_names: dict[int, str]
    """Of the tensors of `state`, by id."""

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


class Trace:
    """One run of the function, with sizes merged as `equal` says."""

    def __init__(self, task: Task, equal: Mapping[str, Size | str], restart_before: int) -> None:
        self.task = task
        self.restart_before = restart_before
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
        self.weight_names = task.weight_names
        self._guards_seen = 0

    def _after_op(self) -> None:
        guards = self.shapes.guards
        if len(guards) != self._guards_seen:
            if self.tracer.op_count < self.restart_before and equalities(guards):
                raise Restart
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
            resolved = resolve(self.equal, name) if isinstance(name, str) else name
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

    # -- the end ----------------------------------------------------------------------------------
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


def weight_names(state: nn.Module | None) -> dict[int, str]:
    if state is None:
        return {}
    found = {id(t): name for name, t in state.named_buffers()}
    found.update((id(t), name) for name, t in state.named_parameters())
    return found
