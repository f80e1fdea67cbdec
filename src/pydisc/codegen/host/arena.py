"""One arena a call: which buffers share memory, decided for every shape at once.

Buffers get *slots*; two buffers share a slot when their lives do not overlap. A slot is as large as
its largest buffer, whichever that is at run time, so the plan is right at every shape; which
buffers meet is chosen by their sizes at the hints, so that it is tight where it matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydisc.fusion.kernel_program import Size
from pydisc.shape import prove_eq, size_hint

ALIGNMENT = 64


@dataclass(frozen=True)
class Buffer:
    """A tensor that lives in the arena from step `first` to step `last`, both included."""

    tensor: int
    bytes: Size
    first: int
    last: int


@dataclass
class Slot:
    """Memory that buffers use in turn; `sizes` are the distinct sizes among them."""

    sizes: list[Size] = field(default_factory=list)
    busy_until: int = -1

    @property
    def hint(self) -> int:
        return max(size_hint(s) for s in self.sizes)


@dataclass(frozen=True)
class ArenaPlan:
    """Slots in address order, and the slot of each tensor."""

    slots: tuple[tuple[Size, ...], ...]
    slot_of: dict[int, int]


def plan_arena(buffers: Sequence[Buffer]) -> ArenaPlan:
    """Assign slots in order of birth: the same size first, else the next larger, else growth."""
    slots: list[Slot] = []
    slot_of: dict[int, int] = {}
    for buffer in sorted(buffers, key=lambda b: (b.first, -size_hint(b.bytes))):
        free = [i for i, slot in enumerate(slots) if slot.busy_until < buffer.first]
        number = _choose(slots, free, buffer)
        if number is None:
            number = len(slots)
            slots.append(Slot())
        slot = slots[number]
        if not any(prove_eq(size, buffer.bytes) for size in slot.sizes):
            slot.sizes.append(buffer.bytes)
        slot.busy_until = buffer.last
        slot_of[buffer.tensor] = number
    return ArenaPlan(tuple(tuple(slot.sizes) for slot in slots), slot_of)


def _choose(slots: list[Slot], free: list[int], buffer: Buffer) -> int | None:
    same = [i for i in free if any(prove_eq(size, buffer.bytes) for size in slots[i].sizes)]
    if same:
        return min(same, key=lambda i: len(slots[i].sizes))
    hint = size_hint(buffer.bytes)
    larger = [i for i in free if slots[i].hint >= hint]
    if larger:
        return min(larger, key=lambda i: slots[i].hint)
    return max(free, key=lambda i: slots[i].hint, default=None)
