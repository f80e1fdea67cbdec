"""One run of a function under the tracer, and the module that comes of it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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

from pydisc.frontend.argument_names import argument_names
from pydisc.frontend.captured import Capture, InputSpec, Mutation, Weight
from pydisc.frontend.dtypes import name_of
from pydisc.frontend.equalities import equalities, resolve
from pydisc.frontend.library_adapters import adapted_libraries
from pydisc.frontend.outputs import flatten_result
from pydisc.frontend.returned import Returned
from pydisc.frontend.shape_env import ShapeEnvShim
from pydisc.frontend.traced_tensor import TracedTensor
from pydisc.frontend.tracer import Tracer
from pydisc.ir.builder import Builder, Value
from pydisc.shape import (
    DeclaredDim,
    DeclaredDims,
    DimExpression,
    ShapeContext,
    Size,
    SymbolTable,
)
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
    declared: DeclaredDims


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

    def _declare(self, names: Mapping[int, str]) -> None:
        """Make the symbols of declared dims, which expressions in any argument may use."""
        declared = self.task.declared
        self.declared_sizes: dict[str, Size] = {}
        for i, leaf in enumerate(self.task.leaves):
            if not isinstance(leaf, Tensor):
                continue
            for axis, hint in enumerate(leaf.shape):
                dim = declared.of(names[i], axis, leaf.ndim)
                if isinstance(dim, DeclaredDim) and dim.name not in self.declared_sizes:
                    resolved = resolve(self.equal, dim.name)
                    size = (
                        self.shapes.symbol(resolved, int(hint))
                        if isinstance(resolved, str)
                        else resolved
                    )
                    self.declared_sizes[dim.name] = size
                    dim.guard(self.shapes, size)

    def _sizes(
        self, tensor: Tensor, argument: str, number: int, next_symbol: int
    ) -> tuple[Size, ...]:
        """The shape of a tensor argument: as declared, or a symbol for each dim."""
        sizes: list[Size] = []
        for axis, hint in enumerate(tensor.shape):
            declared = self.task.declared.of(argument, axis, tensor.ndim)
            if isinstance(declared, DimExpression):
                sizes.append(declared.evaluate(self.declared_sizes))
                continue
            name: int | str = f"S{next_symbol + axis}" if declared is None else declared
            if self.task.dynamic is not None:
                entry = self.task.dynamic[number][axis]
                name = entry if isinstance(entry, int) else _symbol_name(entry)
            resolved = resolve(self.equal, name) if isinstance(name, str) else name
            sizes.append(
                self.shapes.symbol(resolved, int(hint)) if isinstance(resolved, str) else resolved
            )
        return tuple(sizes)

    def _make_inputs(self) -> list[Any]:
        names = argument_names(self.task.fn, self.task.in_spec)
        self._declare(names)
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
                shape = self._sizes(leaf, names[i], number, next_symbol)
                dtype = name_of(leaf.dtype)
                traced = self.tracer.wrap(self._argument(shape, dtype), leaf.device)
                traced._is_argument = True
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
        returned = Returned(self.tracer, self._place)
        outputs = returned.outputs(leaves)
        mutations = self._mutations(assigned, returned)
        self._refuse_gaps_in_weights()
        self.b.returns(returned.values)
        self._erase_unused()
        results = [self.b.type(v.shape, v.dtype) for v in returned.values]
        kind = FunctionType.get([a.type for a in self.block.arguments], results)
        self.main.attributes["function_type"] = TypeAttr.get(kind)
        named = [*(i.name for i in self.inputs), *(w.name for w in self.weights)]
        self.main.attributes["arg_attrs"] = ArrayAttr.get(
            [
                DictAttr.get({"disc.name": StringAttr.get(name)})
                for name in self._argument_names(named)
            ]
        )
        for spec in self.inputs:
            self.symbols.label(spec.name, spec.shape)
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
            needs_dense=frozenset(
                number
                for number, traced in enumerate(self.traced_inputs)
                if id(traced) in self.tracer.needs_dense
            ),
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

    def _mutations(
        self, assigned: Sequence[tuple[Tensor, TracedTensor]], returned: Returned
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
            self._refuse_shared_memory(place[1])
            found.append(Mutation(*place, returned.value(value)))
        for tensor in self.tracer.written.values():
            place = self._place(tensor)
            if place is not None:
                if place[0] == "weight":
                    self._refuse_shared_memory(place[1])
                found.append(Mutation(*place, returned.value(tensor._value)))
        return found

    def _refuse_shared_memory(self, written: int) -> None:
        """A write to a tensor of the model would have to change what shares its memory."""
        mine = self.weights[written]
        storage = mine.tensor.untyped_storage().data_ptr()
        for number, other in enumerate(self.weights):
            same = other.tensor.untyped_storage().data_ptr() == storage
            if number != written and storage and same:
                raise Unsupported(f"writing to {mine.name}", f"it shares memory with {other.name}")

    def _refuse_gaps_in_weights(self) -> None:
        for weight in self.tracer.weights.values():
            if id(weight.traced) in self.tracer.needs_dense and not weight.tensor.is_contiguous():
                raise Unsupported(
                    "as_strided, or a write to what reshape() or contiguous() made of a weight",
                    "the weight is not contiguous",
                )

    def _erase_unused(self) -> None:
        """Drop ops whose results nothing uses; an extern has an effect unless it makes a view."""
        externs = self.tracer.externs
        number = len(externs)
        for op in reversed([op.operation for op in self.block.operations]):
            if op.name == "func.return":
                continue
            is_extern = op.name == "disc.extern"
            if is_extern:
                number -= 1
                if not externs[number].is_view:
                    continue
            if not any(True for result in op.results for _ in result.uses):
                op.erase()
                if is_extern:
                    del externs[number]


def _symbol_name(key: str) -> str:
    """A key of the caller as the name of a symbol."""
    return key if key.isidentifier() else "".join(c if c.isalnum() else "_" for c in f"K{key}")


def weight_names(state: nn.Module | None) -> dict[int, str]:
    if state is None:
        return {}
    found = {id(t): name for name, t in state.named_buffers()}
    found.update((id(t), name) for name, t in state.named_parameters())
    return found
