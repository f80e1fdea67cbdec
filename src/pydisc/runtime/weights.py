"""Weights of a loaded program: their addresses, and packed copies that follow every change."""

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from pydisc.artifact.program import Program, WeightUse
from pydisc.runtime.object_code import ObjectCode, shared_address
from pydisc.runtime.tensor_layout import tensor_layout

_PACK = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8)
_CHANGED = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_SAMPLES = 4


class WeightState:
    """What the weights were when a table was made, and whether they still are.

    Three signs of a change: the version counter (any in-place op), the place (`.data = ...`,
    `set_`), and for weights with a packed copy some sampled elements (writes through `.data`, which
    move no counter; one that leaves every sample as it was is not seen).
    """

    def __init__(
        self, tensors: Sequence[torch.Tensor], copied: frozenset[int], changed: Callable[..., int]
    ) -> None:
        self.tensors = tensors
        self.versions = [version_of(t) for t in tensors]
        self.places = [place_of(t) for t in tensors]
        self.samples = [
            sample(t) if i in copied or not t.is_contiguous() else [] for i, t in enumerate(tensors)
        ]
        self._changed = changed
        layout = tensor_layout()
        self._layout = layout.as_array() if layout else None
        entries: list[int] = []
        for tensor, version, place in zip(tensors, self.versions, self.places, strict=True):
            entries += (tensor._cdata, version, *place)
        samples = [word for found in self.samples for pair in found for word in pair]
        self._entries = (ctypes.c_int64 * max(len(entries), 1))(*entries)
        self._sampled = (ctypes.c_int64 * max(len(samples), 1))(*samples)
        self._fields = (ctypes.c_int64 * 5)(
            ctypes.addressof(self._entries),
            len(tensors),
            ctypes.addressof(self._layout) if self._layout is not None else 0,
            ctypes.addressof(self._sampled),
            len(samples) // 2,
        )
        self._address = ctypes.addressof(self._fields)

    def holds(self) -> bool:
        """Whether no weight shows a sign of change."""
        if self._layout is not None:
            return not self._changed(self._address)
        return all(self.same(i) for i in range(len(self.tensors)))

    def same(self, i: int) -> bool:
        """Whether one weight is as it was."""
        tensor = self.tensors[i]
        if version_of(tensor) != self.versions[i]:
            return False
        if place_of(tensor) != self.places[i]:
            return False
        return all(_bits_at(address) == bits for address, bits in self.samples[i])


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place; inference tensors do not count it."""
    return 0 if tensor.is_inference() else tensor._version


def place_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Where the data are: address of the storage, number of the first element in it."""
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset())


def sample(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Addresses and bits of a few elements of an f32 tensor, the first and the last among them."""
    count = tensor.numel()
    if tensor.dtype is not torch.float32 or not count:
        return []
    found = []
    for number in sorted({(count - 1) * i // (_SAMPLES - 1) for i in range(_SAMPLES)}):
        offset = 0
        for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
            number, index = divmod(number, size)
            offset += index * stride
        address = tensor.data_ptr() + 4 * offset
        found.append((address, _bits_at(address)))
    return found


def _bits_at(address: int) -> int:
    return ctypes.c_uint32.from_address(address).value


_sharing = threading.Lock()
_packs: weakref.WeakValueDictionary[Any, torch.Tensor] = weakref.WeakValueDictionary()
"""Packed copies in use, by weight (which lives as long as the copy), its state, and the use."""


class Table:
    """Addresses for kernels, with what keeps them valid. Never changed once in use."""

    def __init__(
        self, state: WeightState, addresses: list[int], buffers: list[torch.Tensor | None]
    ):
        self.state = state
        self.buffers = buffers
        self._array = (ctypes.c_int64 * max(len(addresses), 1))(*addresses)
        self.addresses = addresses
        self.address = ctypes.addressof(self._array)


class WeightTable:
    """The table of weight addresses that kernels read.

    A weight that changed in place (its version counter moved) or got other storage is packed anew
    before the next call. Calls that run meanwhile keep the table that they started with.
    """

    def __init__(self, program: Program, weights: Sequence[torch.Tensor], code: ObjectCode) -> None:
        self._uses = program.weight_table
        used = sorted({use.weight for use in self._uses})
        self._position = {number: i for i, number in enumerate(used)}
        self._tensors = [weights[number] for number in used]
        packs = any(use.packed for use in self._uses)
        self._pack: Callable[..., None] | None = _PACK(shared_address("pack_b")) if packs else None
        self._changed = _CHANGED(code.address("weights_changed"))
        self._copied = frozenset(self._position[u.weight] for u in self._uses if u.packed)
        self._lock = threading.Lock()
        self._table: Table | None = None
        self.packs = 0
        """How many times a weight has been packed."""

    @property
    def packed_bytes(self) -> int:
        """Memory of the packed copies."""
        table = self._table
        return (
            sum(
                b.nbytes
                for u, b in zip(self._uses, table.buffers, strict=True)
                if u.packed and b is not None
            )
            if table
            else 0
        )

    def current(self) -> Table:
        """The table for a call that starts now; the caller holds it while the call runs."""
        table = self._table
        if table is not None and table.state.holds():
            return table
        with self._lock:
            old = self._table
            if old is None or not old.state.holds():
                self._table = self._made(old)
            assert self._table is not None
            return self._table

    def _made(self, old: Table | None) -> Table:
        state = WeightState(self._tensors, self._copied, self._changed)
        addresses: list[int] = []
        buffers: list[torch.Tensor | None] = []
        for number, use in enumerate(self._uses):
            i = self._position[use.weight]
            if old is not None and old.state.same(i):
                addresses.append(old.addresses[number])
                buffers.append(old.buffers[number])
                continue
            source = self._contiguous(i)
            if use.packed:
                source = self._shared(state, i, use, source)
            buffers.append(source)
            addresses.append(source.data_ptr())
        return Table(state, addresses, buffers)

    def _contiguous(self, i: int) -> torch.Tensor:
        return self._tensors[i].detach().contiguous()

    def _shared(
        self, state: WeightState, i: int, use: WeightUse, source: torch.Tensor
    ) -> torch.Tensor:
        """The packed copy that another trace of the model has, or a new one."""
        bits = tuple(bits for _, bits in state.samples[i])
        how = replace(use, weight=0)  # another trace may number it otherwise
        key = (id(self._tensors[i]), state.versions[i], state.places[i], bits, how)
        with _sharing:
            found = _packs.get(key)
            if found is None:
                found = _packs[key] = self._packed(use, source)
            return found

    def _packed(self, use: WeightUse, source: torch.Tensor) -> torch.Tensor:
        """Panels of `use.panel` columns, aligned to 64 bytes."""
        panels = -(-use.n // use.panel)
        storage = torch.empty(panels * use.panel * use.k + 16, dtype=torch.float32)
        skip = (-storage.data_ptr() % 64) // 4
        packed = storage[skip:]
        assert self._pack is not None
        self._pack(
            source.data_ptr() + 4 * use.offset,
            use.stride_k,
            use.stride_n,
            use.k,
            use.n,
            packed.data_ptr(),
            0,
            panels,
        )
        self.packs += 1
        return packed
