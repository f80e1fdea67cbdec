"""From scheduled regions to a CPU program: buffers, launches, object code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pydisc.artifact import program as abi
from pydisc.codegen.common.assembly_text import Text
from pydisc.codegen.cpu.chain import emit_chain
from pydisc.codegen.cpu.dot import emit_dot
from pydisc.codegen.cpu.loops import SIGNATURE, emit_loops
from pydisc.codegen.host.arena import Buffer, plan_arena
from pydisc.codegen.host.host_program import HostProgram, Launch, SizeCheck, Slots, Where, emit_host
from pydisc.compiler.kernel_store import kernel_name, kernel_store
from pydisc.compiler.object_cache import cached_object
from pydisc.frontend import Capture
from pydisc.fusion.graph import Graph
from pydisc.fusion.plan import Region
from pydisc.ir.types import DTYPE_BYTES
from pydisc.schedule.chain import ChainSchedule, scores_floats
from pydisc.schedule.dot import scratch_floats
from pydisc.schedule.schedule import Param, Schedule, ScheduledKernel
from pydisc.shape import Dim, product, size_max
from pydisc.targets.cpu import CpuTarget


@dataclass(frozen=True)
class ScheduledRegion:
    """A region with its kernels, in launch order; none for what the framework runs."""

    region: Region
    kernels: tuple[ScheduledKernel, ...]
    outputs: tuple[tuple[int, ...], ...] = ()
    """Tensor ids of each kernel's outputs."""
    parts: tuple["ScheduledRegion", ...] = ()
    """Of a chain: the regions that run together."""


@dataclass
class CpuLowering:
    """Builds a `Program`. Equal schedules share one kernel."""

    capture: Capture
    graph: Graph
    regions: Sequence[ScheduledRegion]
    target: CpuTarget
    kernels: dict[Schedule | ChainSchedule, str] = field(default_factory=dict)
    slots: Slots = field(default_factory=Slots)
    table: dict[abi.WeightUse, int] = field(default_factory=dict)
    where: dict[int, Where] = field(default_factory=dict)

    def lower(self) -> tuple[abi.Program, str]:
        """The program, and the text of its kernels and host functions."""
        inputs, symbols = self._inputs()
        host = HostProgram(self.slots, symbols)
        self._weights()
        outputs = self._outputs(host)
        steps, framework = self._steps(host)
        checks = self._checks(host, inputs)
        kernels, source = self._kernel_objects()
        text = Text(self.target.vector_lanes_f32, self.target.features)
        for name in self.kernels.values():
            text.declare(name, [type_ for _, type_ in SIGNATURE])
        emit_host(text, host)
        host_source = text.module()
        program = abi.Program(
            tuple(kernels),
            abi.ObjectFile(cached_object(host_source, self.target)),
            self.slots.count,
            tuple(inputs),
            tuple(outputs),
            tuple(w.name for w in self.capture.weights),
            tuple(self.table),
            tuple(checks),
            tuple(self._interleave(steps, framework)),
            self.target.name,
        )
        return program, source + host_source

    # -- where tensors live --------------------------------------------------------------------
    def _inputs(self) -> tuple[list[abi.TensorInput], dict[str, int]]:
        inputs: list[abi.TensorInput] = []
        symbols: dict[str, int] = {}
        for spec, tensor in zip(self.capture.inputs, self.graph.arguments, strict=False):
            pointer = self.slots.new()
            sizes = self.slots.new(max(len(spec.shape), 1))
            self.where[tensor] = Where("slot", pointer)
            shape = tuple(s if isinstance(s, int) else str(s) for s in spec.shape)
            inputs.append(abi.TensorInput(spec.name, spec.dtype, shape, pointer, sizes))
            for i, size in enumerate(spec.shape):
                if _is_symbol(size):
                    symbols.setdefault(str(size), sizes + i)
        return inputs, symbols

    def _use(self, use: abi.WeightUse) -> Where:
        return Where("weight", self.table.setdefault(use, len(self.table)))

    def _weights(self) -> None:
        self.weight_of: dict[int, int] = {}
        first = len(self.capture.inputs)
        for number, tensor in enumerate(self.graph.arguments[first:]):
            self.weight_of[tensor] = number

    def _outputs(self, host: HostProgram) -> list[abi.TensorOutput | abi.OutputCopy]:
        """One per result; a copy of what is an argument, or another result too."""
        outputs: list[abi.TensorOutput | abi.OutputCopy] = []
        first: dict[int, int] = {}
        arguments = {tensor: number for number, tensor in enumerate(self.graph.arguments)}
        inputs = len(self.capture.inputs)
        for number, tensor in enumerate(self.graph.returns):
            if tensor in arguments:
                place = arguments[tensor]
                is_input = place < inputs
                copy = ("input", place) if is_input else ("weight", place - inputs)
                outputs.append(abi.OutputCopy(*copy))
                continue
            if tensor in first:
                outputs.append(abi.OutputCopy("output", first[tensor]))
                continue
            first[tensor] = number
            shape = self.graph.shape(tensor)
            sizes = self.slots.new(max(len(shape), 1))
            pointer = self.slots.new()
            self.where[tensor] = Where("slot", pointer)
            host.outputs.append((sizes, shape))
            outputs.append(
                abi.TensorOutput(self.graph.tensors[tensor].dtype, len(shape), pointer, sizes)
            )
        return outputs

    # -- steps ---------------------------------------------------------------------------------
    def _steps(self, host: HostProgram) -> tuple[list[list[Launch]], list[abi.FrameworkStep]]:
        """Launches between framework calls; a framework call ends a native step."""
        self._plan_arena(host)
        steps: list[list[Launch]] = [[]]
        framework: list[abi.FrameworkStep] = []
        for scheduled in self.regions:
            if scheduled.region.kind == "extern":
                framework.append(self._framework_step(host, scheduled.region))
                steps.append([])
            if scheduled.parts:
                steps[-1].append(self._chain(host, scheduled))
                continue
            for kernel, outputs in zip(scheduled.kernels, scheduled.outputs, strict=True):
                steps[-1].append(self._launch(host, kernel, outputs))
        host.steps = steps
        return steps, framework

    def _plan_arena(self, host: HostProgram) -> None:
        born: dict[int, int] = {}
        last: dict[int, int] = {}
        for position, scheduled in enumerate(self.regions):
            region = scheduled.region
            for tensor in region.outputs:
                if region.kind != "extern":
                    born.setdefault(tensor, position)
            reads = [t for kernel in scheduled.kernels for t in kernel.inputs]
            if region.kind == "extern":
                reads = [t for i in region.nodes for t in self.graph.nodes[i].operands]
            for tensor in (*reads, *region.outputs):
                last[tensor] = position
        buffers = []
        for tensor, first in born.items():
            if tensor in self.where:
                continue
            info = self.graph.tensors[tensor]
            size = product(info.shape) * DTYPE_BYTES[info.dtype]
            buffers.append(Buffer(tensor, size, first, last[tensor]))
        host.arena = plan_arena(buffers)
        host.arena_offsets = [self.slots.new() for _ in host.arena.slots]
        self._host_offsets = host.arena_offsets
        for tensor, number in host.arena.slot_of.items():
            self.where[tensor] = Where("arena", number)

    def _where(self, tensor: int) -> Where:
        if tensor in self.weight_of:
            return self._use(abi.WeightUse(self.weight_of[tensor]))
        return self.where[tensor]

    def _launch(self, host: HostProgram, kernel: ScheduledKernel, outputs: Sequence[int]) -> Launch:
        schedule = kernel.schedule
        name = self.kernels.setdefault(schedule, kernel_name(schedule, self.target))
        inputs = [self._where(t) for t in kernel.inputs]
        contraction = schedule.program.contraction
        if contraction is not None:
            if schedule.rhs_weight:
                inputs[contraction.rhs_slot] = self._packed(kernel)
            else:
                program = _with_sizes(kernel)
                host.scratch.append(scratch_floats(program, self.target) * 4)
        buffers = (*(self._where(t) for t in outputs), *inputs)
        return Launch(name, buffers, kernel.params, kernel.units, kernel.work)

    def _chain(self, host: HostProgram, scheduled: ScheduledRegion) -> Launch:
        """The launch of a chain: the arguments of its parts, without what passes between them."""
        (kernel,) = scheduled.kernels
        chain = kernel.schedule
        inner = Where("scratch", 0)
        for part in scheduled.parts[:-1]:
            self.where[part.outputs[0][0]] = inner
        others = len(host.scratch)
        launches = []
        for part, schedule in zip(scheduled.parts, chain.parts, strict=True):
            alone = replace(part.kernels[0], schedule=schedule)
            launches.append(self._launch(host, alone, part.outputs[0]))
        largest: Any = 0
        for size in host.scratch[others:]:
            largest = size_max(largest, size)
        host.scratch[others:] = [scores_floats(kernel) * 8 + 128 + largest]
        name = self.kernels.setdefault(chain, kernel_name(chain, self.target))
        buffers = tuple(b for launch in launches for b in launch.buffers if b is not inner)
        return Launch(name, buffers, kernel.params, kernel.units, kernel.work)

    def _packed(self, kernel: ScheduledKernel) -> Where:
        program = kernel.schedule.program
        c = program.contraction
        assert c is not None

        def extent(axes: tuple[int, ...]) -> Any:
            return program.axes[axes[0]] if axes else 1

        def stride(axes: tuple[int, ...]) -> Any:
            return c.rhs.coefficient(axes[0]) if axes else 1

        weight = self.weight_of[kernel.inputs[c.rhs_slot]]
        return self._use(
            abi.WeightUse(
                weight,
                True,
                stride(c.k),
                stride(c.n),
                extent(c.k),
                extent(c.n),
                self.target.nr,
                c.rhs.offset,
            )
        )

    def _framework_step(self, host: HostProgram, region: Region) -> abi.FrameworkStep:
        (index,) = region.nodes
        node = self.graph.nodes[index]
        results = []
        for tensor in node.results:
            pointer = self.slots.new()
            if tensor not in self.where:
                self.where[tensor] = Where("slot", pointer)
            results.append(self._buffer_ref(tensor))
        return abi.FrameworkStep(
            node.attrs["target"],
            node.attrs["args"],
            tuple(self._buffer_ref(t) for t in node.operands),
            tuple(results),
            tuple(host.symbols.items()),
            node.attrs["reason"],
            self.graph.where(node),
        )

    def _buffer_ref(self, tensor: int) -> abi.BufferRef:
        info = self.graph.tensors[tensor]
        sizes = tuple(self.slots.value(s) for s in info.shape)
        if tensor in self.weight_of:
            return abi.BufferRef("weight", self.weight_of[tensor], info.dtype, sizes)
        where = self.where[tensor]
        index = where.index
        if where.kind == "arena":
            return abi.BufferRef("arena", self._arena_offset(index), info.dtype, sizes)
        return abi.BufferRef(where.kind, index, info.dtype, sizes)

    def _arena_offset(self, number: int) -> int:
        return self._host_offsets[number]

    def _interleave(
        self, steps: list[list[Launch]], framework: list[abi.FrameworkStep]
    ) -> list[abi.NativeStep | abi.FrameworkStep]:
        result: list[abi.NativeStep | abi.FrameworkStep] = []
        for number, launches in enumerate(steps):
            if launches:
                result.append(abi.NativeStep(f"run_{number}"))
            if number < len(framework):
                result.append(framework[number])
        return result

    # -- checks --------------------------------------------------------------------------------
    def _checks(self, host: HostProgram, inputs: list[abi.TensorInput]) -> list[abi.Check]:
        checks: list[abi.Check] = []
        for number, (spec, tensor_input) in enumerate(
            zip(self.capture.inputs, inputs, strict=True)
        ):
            for i, size in enumerate(spec.shape):
                slot = tensor_input.sizes + i
                if isinstance(size, Dim) and host.symbols.get(str(size)) == slot:
                    continue
                host.size_checks.append(SizeCheck(slot, size))
                checks.append(abi.Check("size", str(size), "", number, i))
        for guard in self.capture.guards:
            host.guards.append((guard.cond, guard.value))
            checks.append(
                abi.Check(guard.kind, str(guard.cond), str(guard.where), value=guard.value)
            )
        return checks

    def _kernel_objects(self) -> tuple[list[abi.ObjectFile], str]:
        """The objects that hold the kernels, and the text of those compiled now."""
        params: dict[Any, int] = {}
        for region in self.regions:
            for kernel in region.kernels:
                params[kernel.schedule] = len(kernel.params)
            for part, schedule in zip(
                region.parts, region.kernels[0].schedule.parts if region.parts else (), strict=True
            ):
                params[schedule] = len(part.kernels[0].params)
        emits: dict[str, Callable[[Text], None]] = {}
        calls: dict[str, tuple[str, ...]] = {}
        for schedule, name in self.kernels.items():
            if isinstance(schedule, ChainSchedule):
                calls[name] = tuple(self.kernels[s] for s in schedule.parts)
            emits[name] = partial(self._emit_kernel, name, schedule, params)
        products = any(schedule.kind == "dot" for schedule in self.kernels)
        return kernel_store(self.target).objects(emits, calls, products)

    def _emit_kernel(self, name: str, schedule: Any, params: Mapping[Any, int], text: Text) -> None:
        match schedule.kind:
            case "chain":
                parts = tuple(self.kernels[s] for s in schedule.parts)
                counts = tuple(params[s] for s in schedule.parts)
                emit_chain(text, name, schedule, parts, counts, self.target)
            case "dot":
                emit_dot(text, name, schedule, params[schedule], self.target)
            case _:
                emit_loops(text, name, schedule, params[schedule])


def _is_symbol(size: Any) -> bool:
    """Whether a size is nothing but one symbol."""
    return isinstance(size, Dim) and size.atom is not None and size.atom.kind == "sym"


def _with_sizes(kernel: ScheduledKernel) -> Any:
    """The program of a kernel with its run-time sizes in place of Params."""
    program = kernel.schedule.program
    axes = tuple(kernel.params[a.index] if isinstance(a, Param) else a for a in program.axes)
    return replace(program, axes=axes)
