"""What became of a sample, of an operator, and of a whole run."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

STATUSES = {
    "refused": "eager raises, and so do we, with the same type of exception",
    "native": "our code only",
    "part": "our code, with steps that PyTorch runs",
    "extern": "one trace, but all of it is steps that PyTorch runs",
    "fallback": "eager mode, or Dynamo takes over",
    "fault": "eager mode after a fault of the compiler",
    "wrong": "another result than eager, or another error",
    "hang": "no answer in time",
    "crash": "the process ended",
}
"""From the best to the worst; an operator has the worst status of its samples."""

SEVERITY = {status: rank for rank, status in enumerate(STATUSES)}
BAD = ("wrong", "hang", "crash")


@dataclass(frozen=True)
class Outcome:
    """One sample: its number, its status, and why."""

    sample: int
    status: str
    reason: str = ""
    inputs: str = ""
    """The arguments as text."""
    notes: tuple[str, ...] = ()
    """`strides`: other strides than eager's. `retrace`: a trace of its structure did not fit."""
    seconds: float = 0.0


@dataclass
class OpResult:
    """All samples of one operator in one dtype."""

    op: str
    dtype: str
    outcomes: list[Outcome] = field(default_factory=list)
    error: str = ""
    """Why the samples could not be made, or were not all run."""

    @property
    def counts(self) -> Counter[str]:
        """Samples by status."""
        return Counter(o.status for o in self.outcomes)

    @property
    def status(self) -> str:
        """The worst status; `none` without samples."""
        return max(self.counts, key=SEVERITY.__getitem__, default="none")

    @property
    def reason(self) -> str:
        """The most common reason among the samples with the worst status."""
        status = self.status
        reasons = Counter(o.reason for o in self.outcomes if o.status == status and o.reason)
        return reasons.most_common(1)[0][0] if reasons else self.error

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "status": self.status, "counts": dict(self.counts)}

    @staticmethod
    def from_json(row: dict[str, Any]) -> "OpResult":
        """The result that `to_json` wrote."""
        outcomes = [Outcome(**{**o, "notes": tuple(o["notes"])}) for o in row["outcomes"]]
        return OpResult(row["op"], row["dtype"], outcomes, row["error"])
