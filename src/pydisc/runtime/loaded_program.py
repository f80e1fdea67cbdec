"""A program in memory: checks, allocates and runs calls, from any number of threads."""

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from pydisc.artifact import program as abi
from pydisc.runtime.dtypes import TORCH_DTYPE
from pydisc.runtime.libraries import openmp_table
from pydisc.runtime.object_code import ObjectCode, load_shared
from pydisc.runtime.operators import call_operator
from pydisc.runtime.weights import WeightTable
from pydisc.support import knobs
from pydisc.support.errors import InternalError

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ALIGNMENT = 64
_empty_like = torch.empty_like
_num_threads = torch.get_num_threads
_KERNEL_ERRORS: dict[int, Callable[[], Exception]] = {
    abi.INDEX_OUT_OF_RANGE: lambda: IndexError("index out of range in self"),
    abi.DIVISION_BY_ZERO: lambda: RuntimeError("ZeroDivisionError"),
}
"""The exceptions that eager mode raises, by what a kernel reports."""


class CheckFailed(Exception):
    """A condition that the program was compiled under does not hold for this call."""

    def __init__(self, check: abi.Check, number: int) -> None:
        super().__init__(f"{check.kind}: {check.text}")
        self.check = check
        self.number = number


@dataclass(eq=False)
class Context:
    """What one call at a time needs: its call block, arena and scratch memory."""

    block: "ctypes.Array[ctypes.c_int64]"
    address: int
    shapes: list[torch.Size] | None = None
    """Of the inputs for which the block is prepared; None if it is not."""
    templates: list[torch.Tensor] = field(default_factory=list)
    """Tensors like the outputs, of one element each: the quickest way to make an output."""
    arena: torch.Tensor | None = None
    arena_bytes: int = -1
    scratch: torch.Tensor | None = None
    scratch_bytes: int = -1
    threads: int = 0


class LoadedProgram:
    """Machine code with its weights; any thread may call it, each call has its own context."""

    def __init__(self, program: abi.Program, weights: Sequence[torch.Tensor]) -> None:
        if program.abi != abi.ABI_VERSION:
            raise InternalError(f"program has ABI {program.abi}, this runtime {abi.ABI_VERSION}")
        self.program = program
        self.weights = list(weights)
        load_shared(program.kernels)
        self._code = ObjectCode(program.host.code)
        self._prepare = _FUNCTION(self._code.address("prepare"))
        self.table = WeightTable(program, self.weights, self._code)
        self._steps = [
            _FUNCTION(self._code.address(step.entry)) if isinstance(step, abi.NativeStep) else step
            for step in program.steps
        ]
        self._weight_count = len(program.weight_table)
        self._library = ctypes.addressof(openmp_table())
        self._pool: list[Context] = []
        self._contexts = 0
        self._thread_limit = knobs.current().threads
        self._count_lock = threading.Lock()
        self._pointers = [i.pointer for i in program.inputs]
        self._sizes = [(i.sizes, i.sizes + len(i.shape)) for i in program.inputs]
        computed = [
            (number, output)
            for number, output in enumerate(program.outputs)
            if isinstance(output, abi.TensorOutput)
        ]
        self._copies = [
            (number, output)
            for number, output in enumerate(program.outputs)
            if isinstance(output, abi.OutputCopy)
        ]
        self._owned = self._framework_outputs()
        made = [(number, o) for number, o in computed if o.pointer not in self._owned]
        self._made = [number for number, _ in made]
        self._made_pointers = [o.pointer for _, o in made]
        self._made_sizes = [(o.sizes, o.sizes + o.rank, TORCH_DTYPE[o.dtype]) for _, o in made]
        native = [step for step in self._steps if not isinstance(step, abi.FrameworkStep)]
        whole = len(made) == len(program.outputs) and len(native) == len(self._steps)
        self._native = native if whole else None
        """The steps, where kernels make every output and the framework has no part in it."""

    def _framework_outputs(self) -> dict[int, int]:
        """Output number by pointer slot, for outputs that a framework step produces."""
        produced = {
            ref.index
            for step in self.program.steps
            if isinstance(step, abi.FrameworkStep)
            for ref in step.results
        }
        return {
            o.pointer: number
            for number, o in enumerate(self.program.outputs)
            if isinstance(o, abi.TensorOutput) and o.pointer in produced
        }

    def replace_weight(self, number: int, tensor: torch.Tensor) -> None:
        """Use another tensor of the same shape, dtype and device from the next call on."""
        self.weights[number] = tensor
        self.table = WeightTable(self.program, self.weights, self._code)

    # -- calls ---------------------------------------------------------------------------------
    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run on contiguous CPU tensors of the declared dtypes and ranks (the caller checks that).

        Raises CheckFailed before anything ran if sizes do not fit, IndexError for an index out of
        range, RuntimeError for an integer division by zero.
        """
        try:
            context = self._pool.pop()
        except IndexError:
            context = self._new_context()
        try:
            return self._run(context, tensors)
        except BaseException:
            context.shapes = None  # prepare the block anew: it may hold an error
            raise
        finally:
            self._pool.append(context)

    def _new_context(self) -> Context:
        with self._count_lock:
            self._contexts += 1
        block = (ctypes.c_int64 * self.program.slots)()
        block[abi.LIBRARY] = self._library
        return Context(block, ctypes.addressof(block))

    def _run(self, context: Context, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        block = context.block
        for pointer, tensor in zip(self._pointers, tensors, strict=True):
            block[pointer] = tensor.data_ptr()
        shapes = [tensor.shape for tensor in tensors]
        if shapes != context.shapes:
            self._prepare_for(context, shapes)
        table = None
        if self._weight_count:
            table = self.table.current()
            block[abi.WEIGHTS] = table.address
        threads = self._threads()
        if threads != context.threads:
            self._reserve(context, threads)
        made = [_empty_like(template) for template in context.templates]
        for pointer, output in zip(self._made_pointers, made, strict=True):
            block[pointer] = output.data_ptr()
        if self._native is not None:
            for step in self._native:
                step(context.address)
            outputs = made
        else:
            outputs = self._run_mixed(context, tensors, made)
        del table  # kernels are done: it may go
        if block[abi.ERROR]:
            raise _KERNEL_ERRORS[block[abi.ERROR]]()
        return outputs

    def _run_mixed(
        self, context: Context, tensors: Sequence[torch.Tensor], made: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Run a program in which the framework has a part."""
        outputs: list[Any] = [None] * len(self.program.outputs)
        for number, output in zip(self._made, made, strict=True):
            outputs[number] = output
        alive: list[torch.Tensor] = []
        for step in self._steps:
            if isinstance(step, abi.FrameworkStep):
                self._framework_step(context, step, outputs, alive)
            else:
                step(context.address)
        for number, copy in self._copies:
            source = {"input": tensors, "weight": self.weights, "output": outputs}[copy.kind]
            source = source[copy.index].detach()
            outputs[number] = source.clone(memory_format=torch.contiguous_format)
        return outputs

    def _prepare_for(self, context: Context, shapes: list[torch.Size]) -> None:
        """Compute sizes and offsets; they stay in the block for further calls with these shapes."""
        block = context.block
        context.shapes = None
        for (first, last), shape in zip(self._sizes, shapes, strict=True):
            block[first:last] = shape
        self._prepare(context.address)
        if block[abi.STATUS]:
            number = block[abi.STATUS] - 1
            raise CheckFailed(self.program.checks[number], number)
        context.templates = [
            _template(block[first:last], dtype) for first, last, dtype in self._made_sizes
        ]
        context.threads = 0  # the need for memory is another
        context.shapes = shapes

    def _threads(self) -> int:
        """Threads for this call: torch's, shared among the calls that run now."""
        running = self._contexts - len(self._pool)
        whole = self._thread_limit or _num_threads()
        return whole if running <= 1 else max(whole // running, 1)

    def _reserve(self, context: Context, threads: int) -> None:
        """Grow the arena and the scratch memory of a context to what this call needs."""
        block = context.block
        context.threads = 0
        need = block[abi.ARENA_BYTES]
        if need > context.arena_bytes:
            context.arena = None  # let go before taking more: the peak stays low
            context.arena, block[abi.ARENA] = _aligned(need)
            context.arena_bytes = need
        need = block[abi.SCRATCH_BYTES] * threads
        if need > context.scratch_bytes:
            context.scratch = None
            context.scratch, block[abi.SCRATCH] = _aligned(need)
            context.scratch_bytes = need
        context.threads = block[abi.THREADS] = threads

    # -- framework steps -----------------------------------------------------------------------
    def _framework_step(
        self,
        context: Context,
        step: abi.FrameworkStep,
        outputs: list[Any],
        alive: list[torch.Tensor],
    ) -> None:
        block = context.block
        inputs = [self._tensor(context, ref) for ref in step.inputs]
        sizes = {name: block[slot] for name, slot in step.symbols}
        result = call_operator(step.target, step.template, inputs, sizes)
        if not step.results:
            return
        results = result if isinstance(result, tuple | list) else [result]
        lent = {x.untyped_storage().data_ptr() for x in inputs}
        for value, ref in zip(results, step.results, strict=True):
            expected = [block[slot] for slot in ref.sizes]
            if list(value.shape) != expected or value.dtype != TORCH_DTYPE[ref.dtype]:
                raise InternalError(
                    f"{step.target} gave {list(value.shape)} {value.dtype}, the trace expected "
                    f"{expected} {ref.dtype}"
                )
            value = value.contiguous()
            if value.untyped_storage().data_ptr() in lent:  # a view: the buffer is not its own
                value = value.clone()
            alive.append(value)
            block[ref.index] = value.data_ptr()
            if ref.index in self._owned:
                outputs[self._owned[ref.index]] = value

    def _tensor(self, context: Context, ref: abi.BufferRef) -> torch.Tensor:
        """A tensor over a buffer of the running call; it must not outlive the call."""
        if ref.kind == "weight":
            return self.weights[ref.index]
        block = context.block
        shape = [block[slot] for slot in ref.sizes]
        address = block[ref.index]
        if ref.kind == "arena":
            address += block[abi.ARENA]
        dtype = TORCH_DTYPE[ref.dtype]
        count = 1
        for size in shape:
            count *= size
        if not count:
            return torch.empty(shape, dtype=dtype)
        data = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        return torch.frombuffer(data, dtype=dtype, count=count).reshape(shape)


def _template(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """What `empty_like` makes a row-major tensor of, with memory for one element at most."""
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    return torch.empty((), dtype=dtype).expand(shape)


def _aligned(size: int) -> tuple[torch.Tensor, int]:
    memory = torch.empty(size + _ALIGNMENT, dtype=torch.uint8)
    return memory, (memory.data_ptr() + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
