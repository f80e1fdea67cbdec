"""A program in memory: checks, allocates and runs calls, from any number of threads."""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pydisc.artifact import program as abi
from pydisc.artifact.extern_args import decode
from pydisc.runtime.dtypes import TORCH_DTYPE, named_constant
from pydisc.runtime.libraries import openmp_table
from pydisc.runtime.object_code import ObjectCode
from pydisc.runtime.weights import WeightTable
from pydisc.support import knobs
from pydisc.support.errors import InternalError

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ALIGNMENT = 64


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
    arena: torch.Tensor | None = None
    arena_bytes: int = -1
    scratch: torch.Tensor | None = None
    scratch_bytes: int = -1


class LoadedProgram:
    """Machine code with its weights; any thread may call it, each call has its own context."""

    def __init__(self, program: abi.Program, weights: Sequence[torch.Tensor]) -> None:
        if program.abi != abi.ABI_VERSION:
            raise InternalError(f"program has ABI {program.abi}, this runtime {abi.ABI_VERSION}")
        self.program = program
        self.weights = list(weights)
        self._code = ObjectCode(program.object_code)
        self._prepare = _FUNCTION(self._code.address("prepare"))
        self.table = WeightTable(program, self.weights, self._code)
        self._steps = [
            _FUNCTION(self._code.address(step.entry)) if isinstance(step, abi.NativeStep) else step
            for step in program.steps
        ]
        self._library = ctypes.addressof(openmp_table())
        self._pool: list[Context] = []
        self._contexts = 0
        self._thread_limit = knobs.current().threads
        self._count_lock = threading.Lock()
        self._inputs = [
            (i.pointer, i.sizes, len(i.shape), TORCH_DTYPE[i.dtype]) for i in program.inputs
        ]
        self._outputs = [
            (o.pointer, o.sizes, o.sizes + o.rank, TORCH_DTYPE[o.dtype]) for o in program.outputs
        ]
        self._owned = self._framework_outputs()

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
            if o.pointer in produced
        }

    def replace_weight(self, number: int, tensor: torch.Tensor) -> None:
        """Use another tensor of the same shape, dtype and device from the next call on."""
        self.weights[number] = tensor
        self.table = WeightTable(self.program, self.weights, self._code)

    # -- calls ---------------------------------------------------------------------------------
    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run on contiguous CPU tensors of the declared dtypes and ranks (the caller checks that).

        Raises CheckFailed before anything ran if sizes do not fit, IndexError for an index out of
        range.
        """
        try:
            context = self._pool.pop()
        except IndexError:
            context = self._new_context()
        try:
            return self._run(context, tensors)
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
        for tensor, (pointer, sizes, rank, _) in zip(tensors, self._inputs, strict=True):
            block[pointer] = tensor.data_ptr()
            if rank == 2:
                block[sizes], block[sizes + 1] = tensor.shape
            elif rank:
                block[sizes : sizes + rank] = tensor.shape
        self._prepare(context.address)
        if block[abi.STATUS]:
            number = block[abi.STATUS] - 1
            raise CheckFailed(self.program.checks[number], number)
        table = self.table.current()
        block[abi.WEIGHTS] = table.address
        threads = block[abi.THREADS] = self._threads()
        self._reserve(context, threads)
        outputs = []
        for pointer, first, last, dtype in self._outputs:
            if pointer in self._owned:
                outputs.append(None)
                continue
            output = torch.empty(block[first:last], dtype=dtype)
            block[pointer] = output.data_ptr()
            outputs.append(output)
        alive: list[torch.Tensor] = []
        for step in self._steps:
            if isinstance(step, abi.FrameworkStep):
                self._framework_step(context, step, outputs, alive)
            else:
                step(context.address)
        if block[abi.ERROR]:
            raise IndexError("index out of range in self")
        return outputs  # type: ignore[return-value]

    def _threads(self) -> int:
        """Threads for this call: torch's, shared among the calls that run now."""
        running = self._contexts - len(self._pool)
        whole = self._thread_limit or torch.get_num_threads()
        return max(whole // max(running, 1), 1)

    def _reserve(self, context: Context, threads: int) -> None:
        """Grow the arena and the scratch memory of a context to what this call needs."""
        block = context.block
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

    # -- framework steps -----------------------------------------------------------------------
    def _framework_step(
        self,
        context: Context,
        step: abi.FrameworkStep,
        outputs: list[torch.Tensor | None],
        alive: list[torch.Tensor],
    ) -> None:
        block = context.block
        inputs = [self._tensor(context, ref) for ref in step.inputs]
        sizes = {name: block[slot] for name, slot in step.symbols}
        args, kwargs = decode(step.template, inputs, sizes, named_constant)
        result = _operator(step.target)(*args, **kwargs)
        if not step.results:
            return
        results = result if isinstance(result, tuple | list) else [result]
        for value, ref in zip(results, step.results, strict=True):
            expected = [block[slot] for slot in ref.sizes]
            if list(value.shape) != expected or value.dtype != TORCH_DTYPE[ref.dtype]:
                raise InternalError(
                    f"{step.target} gave {list(value.shape)} {value.dtype}, the trace expected "
                    f"{expected} {ref.dtype}"
                )
            value = value.contiguous()
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


def _aligned(size: int) -> tuple[torch.Tensor, int]:
    memory = torch.empty(size + _ALIGNMENT, dtype=torch.uint8)
    return memory, (memory.data_ptr() + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _operator(target: str) -> Any:
    """`aten.add.Tensor` to the operator."""
    found: Any = torch.ops
    for part in target.split("."):
        found = getattr(found, part)
    return found
