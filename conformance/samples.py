"""The operators of PyTorch's test database, and the arguments they come with."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as database
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u8": torch.uint8, "bool": torch.bool, "c64": torch.complex64,
}  # fmt: skip
SHORT = {dtype: name for name, dtype in DTYPES.items()}

UNDEFINED = frozenset(
    "empty empty_like empty_permuted empty_strided new_empty new_empty_strided".split()
)
"""Operators whose result nothing has written: only dtype and shape are compared."""


def _unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Random entries seed inside the operator, which a trace takes for Python and leaves out.

    Here seeds are set outside, before each call.
    """
    return op(*args, **kwargs)


database.wrapper_set_seed = _unseeded  # pyright: ignore[reportPrivateImportUsage]


@dataclass(frozen=True)
class Arguments:
    """One call of an operator."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def operators(dtype: torch.dtype, names: frozenset[str]) -> list[Any]:
    """Entries of the database that the CPU has in this dtype; no names is all of them.

    A name is an operator's (`std`) or that of one entry of it (`std.unbiased`).
    """
    return [
        op
        for op in op_db
        if dtype in op.supported_dtypes("cpu")
        and (not names or op.name in names or entry_name(op) in names)
    ]


def known_names() -> frozenset[str]:
    """Every name that `operators` accepts."""
    return frozenset(op.name for op in op_db) | frozenset(map(entry_name, op_db))


def entry_name(op: Any) -> str:
    """The operator with the variant that an entry tests."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def variant_of(op: Any, variant: str) -> Callable[..., Any] | None:
    """The operator as a function, as a method, or in place; None if it has none such."""
    match variant:
        case "function":
            return op.get_op()
        case "method":
            return op.get_method()
        case _:
            return op.get_inplace()


def samples(op: Any, dtype: torch.dtype) -> Iterator[Arguments]:
    """The operator's sample arguments, the same ones each time."""
    seed()
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        state = torch.get_rng_state(), random.getstate()
        yield Arguments((sample.input, *sample.args), dict(sample.kwargs))
        torch.set_rng_state(state[0])  # what ran meanwhile must not change the next sample
        random.setstate(state[1])


def seed() -> None:
    """Start all random numbers anew."""
    torch.manual_seed(0)
    random.seed(0)


def cloned(arguments: Arguments) -> Arguments:
    """The same arguments in memory of their own, as a call may write to them.

    Strides stay, and so does what shares memory.
    """
    tensors: dict[int, torch.Tensor] = {}
    storages: dict[int, torch.UntypedStorage] = {}

    def clone(leaf: Any) -> Any:
        if isinstance(leaf, torch.Generator):
            return leaf.clone_state()
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in tensors:
            tensors[id(leaf)] = _cloned_tensor(leaf, storages)
        return tensors[id(leaf)]

    args, kwargs = pytree.tree_map(clone, (arguments.args, arguments.kwargs))
    return Arguments(args, kwargs)


def _cloned_tensor(x: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    plain = type(x) is torch.Tensor and x.layout is torch.strided
    if not plain or x.is_quantized or x.is_conj() or x.is_neg() or not x.numel():
        return x.detach().clone()
    storage = x.untyped_storage()
    key = storage.data_ptr()
    if key not in storages:
        storages[key] = storage.clone()
    return x.new_empty(0).set_(storages[key], x.storage_offset(), x.size(), x.stride())  # type: ignore[call-overload]


def widened(arguments: Arguments) -> Arguments:
    """The same arguments in double precision."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.double()
        if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
            return torch.float64
        return leaf

    copy = cloned(arguments)
    args, kwargs = pytree.tree_map(widen, (copy.args, copy.kwargs))
    return Arguments(args, kwargs)


def structure(arguments: Arguments) -> Any:
    """Equal for calls that one trace is to serve: all but the sizes and the values of tensors."""
    leaves, spec = pytree.tree_flatten((arguments.args, arguments.kwargs))
    return str(spec), tuple(map(_kind, leaves))


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return type(leaf), leaf.dtype, leaf.dim(), leaf.layout
    return type(leaf), repr(leaf)


def described(arguments: Arguments) -> str:
    """The arguments in one line: `f32[3, 4], dim=1`."""
    parts = [_text(a) for a in arguments.args]
    parts += [f"{name}={_text(value)}" for name, value in arguments.kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= 300 else text[:297] + "..."


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        name = SHORT.get(value.dtype, str(value.dtype).removeprefix("torch."))
        if value.layout is not torch.strided:
            return f"{name}{list(value.shape)} {str(value.layout).removeprefix('torch.')}"
        gaps = "" if value.is_contiguous() else f" strides {list(value.stride())}"
        return f"{name}{list(value.shape)}{gaps}"
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        inner = ", ".join(map(_text, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)
