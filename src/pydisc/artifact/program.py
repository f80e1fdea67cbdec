"""The contract between compiler and runtime: what a compiled program is, as plain data."""

from dataclasses import dataclass

ABI_VERSION = 3

STATUS, ARENA_BYTES, SCRATCH_BYTES, ARENA, SCRATCH, THREADS, WEIGHTS, LIBRARY, ERROR = range(9)
FIXED_SLOTS = 9
"""First slots of the call block: an array of i64 that host functions and runtime share.

STATUS: 0, or 1 + the number of the check that failed (out of `prepare`). ARENA_BYTES, SCRATCH_BYTES
(a thread): what the call needs. ARENA, SCRATCH, WEIGHTS, LIBRARY: addresses. ERROR: 0, or one of
the numbers below, set by kernels. Behind them come the slots that the fields below name.
"""

INDEX_OUT_OF_RANGE, DIVISION_BY_ZERO = 1, 2
"""What a kernel reports in ERROR; it runs to its end all the same, on harmless values."""

GOMP_PARALLEL, OMP_THREAD_NUM, OMP_NUM_THREADS = range(3)
"""Entries of the library table."""


@dataclass(frozen=True)
class TensorInput:
    """An input: its address goes to slot `pointer`, its sizes to the slots from `sizes`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    pointer: int
    sizes: int


@dataclass(frozen=True)
class TensorOutput:
    """An output that the program computes: `prepare` leaves its sizes in the slots from `sizes`.

    The runtime allocates it and puts the address into `pointer`.
    """

    dtype: str
    rank: int
    pointer: int
    sizes: int


@dataclass(frozen=True)
class OutputCopy:
    """An output with the content of an input, weight or other output (`kind`, number `index`)."""

    kind: str
    index: int


@dataclass(frozen=True)
class WeightUse:
    """An entry of the weight table: the tensor itself, or a packed copy of it (see `@pack_b`)."""

    weight: int
    packed: bool = False
    stride_k: int = 0
    stride_n: int = 0
    k: int = 0
    n: int = 0
    panel: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Check:
    """A condition that `prepare` evaluates.

    kind: size (of an input), branch, assert, specialize.
    """

    kind: str
    text: str
    where: str
    input: int = -1
    dim: int = -1
    value: bool = True


@dataclass(frozen=True)
class BufferRef:
    """A tensor as the framework sees it in a framework step: where its address is, and its sizes.

    kind: slot (the address is in slot `index`), arena (in the arena at the offset in slot `index`),
    weight (number `index` of the weights).
    """

    kind: str
    index: int
    dtype: str
    sizes: tuple[int, ...]
    """Slots of the sizes."""


@dataclass(frozen=True)
class NativeStep:
    """Call a host function."""

    entry: str


@dataclass(frozen=True)
class FrameworkStep:
    """Run an operator in the framework and put the addresses of its results into slots."""

    target: str
    template: str
    inputs: tuple[BufferRef, ...]
    results: tuple[BufferRef, ...]
    symbols: tuple[tuple[str, int], ...]
    reason: str
    where: str


@dataclass(frozen=True)
class ObjectFile:
    """A relocatable object. `exports`: functions that objects loaded later may call, by name."""

    code: bytes
    exports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A compiled program: object code with `prepare` and the native steps, and how to call them."""

    kernels: tuple[ObjectFile, ...]
    """In loading order. Programs of a process share those that are equal."""
    host: ObjectFile
    """`prepare`, the native steps and `weights_changed`."""
    slots: int
    inputs: tuple[TensorInput, ...]
    outputs: tuple[TensorOutput | OutputCopy, ...]
    weights: tuple[str, ...]
    weight_table: tuple[WeightUse, ...]
    checks: tuple[Check, ...]
    steps: tuple[NativeStep | FrameworkStep, ...]
    target: str
    abi: int = ABI_VERSION
