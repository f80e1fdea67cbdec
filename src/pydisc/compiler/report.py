"""What a compiled model tells about itself: as fields, as text and as HTML."""

from dataclasses import dataclass, field
from html import escape


@dataclass(frozen=True)
class Fallback:
    """Something that runs in eager PyTorch: an op of a trace, or the whole model."""

    what: str
    reason: str
    where: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}" + (f" ({self.where})" if self.where else "")


@dataclass(frozen=True)
class GuardInfo:
    """A condition under which a trace holds."""

    kind: str
    text: str
    where: str

    def __str__(self) -> str:
        return f"{self.kind} {self.text}" + (f"  at {self.where}" if self.where else "")


@dataclass(frozen=True)
class SymbolInfo:
    """A size: its name, range, and where the inputs have it."""

    name: str
    low: str
    high: str
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} in [{self.low}, {self.high}]: {', '.join(self.inputs)}"


@dataclass(frozen=True)
class FusionRow:
    """A kernel: how often it is launched in a call, and the ops of one launch."""

    kernel: str
    launches: int
    ops: tuple[str, ...]
    schedule: str

    def __str__(self) -> str:
        return (
            f"{self.kernel} x{self.launches}: {' '.join(self.ops) or 'copy'}\n    {self.schedule}"
        )


@dataclass(frozen=True)
class NotFusedRow:
    """Two neighbours in different kernels."""

    producer: str
    consumer: str
    reason: str

    def __str__(self) -> str:
        return f"{self.producer} -> {self.consumer}: {self.reason}"


@dataclass(frozen=True)
class TraceInfo:
    """One trace (variant): what it holds for and what it became."""

    inputs: tuple[str, ...]
    ops: int
    symbols: tuple[SymbolInfo, ...]
    equalities: tuple[str, ...]
    guards: tuple[GuardInfo, ...]
    fusions: tuple[FusionRow, ...]
    not_fused: tuple[NotFusedRow, ...]
    fallbacks: tuple[Fallback, ...]
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """Everything known about a compiled model at one moment.

    compiles: programs made; recompiles: those after the first; calls: calls served by a program;
    eager_calls: calls that ran in eager mode; fallbacks: what runs eagerly and why.
    """

    traces: tuple[TraceInfo, ...]
    compiles: int
    recompiles: int
    calls: int
    eager_calls: int
    fallbacks: tuple[Fallback, ...]
    seconds: dict[str, float]
    notes: tuple[str, ...] = ()

    @property
    def fusions(self) -> tuple[FusionRow, ...]:
        """Kernels of all traces."""
        return tuple(f for t in self.traces for f in t.fusions)

    @property
    def symbols(self) -> tuple[SymbolInfo, ...]:
        """Symbols of all traces."""
        return tuple(s for t in self.traces for s in t.symbols)

    @property
    def guards(self) -> tuple[GuardInfo, ...]:
        """Guards of all traces."""
        return tuple(g for t in self.traces for g in t.guards)

    def _sections(self) -> list[tuple[str, list[str]]]:
        total = sum(self.seconds.values())
        sections = [
            (
                "Summary",
                [
                    f"traces {len(self.traces)}, compiles {self.compiles}, "
                    f"recompiles {self.recompiles}, fallbacks {len(self.fallbacks)}",
                    f"calls {self.calls}, of them in eager mode {self.eager_calls}",
                    *self.notes,
                ],
            ),
            ("Fallbacks to eager", [str(f) for f in self.fallbacks] or ["none"]),
            (
                "Compile time",
                [f"{name} {seconds:.3f} s" for name, seconds in self.seconds.items()]
                + [f"total {total:.3f} s"],
            ),
        ]
        for number, trace in enumerate(self.traces):
            sections += [
                (f"Trace {number}: inputs", list(trace.inputs)),
                (
                    f"Trace {number}: symbols",
                    [str(s) for s in trace.symbols] or ["none: all static"],
                ),
                (f"Trace {number}: equal sizes", list(trace.equalities) or ["none"]),
                (f"Trace {number}: guards", [str(g) for g in trace.guards] or ["none"]),
                (
                    f"Trace {number}: {trace.ops} ops in {len(trace.fusions)} kernels",
                    [str(f) for f in trace.fusions],
                ),
                (f"Trace {number}: not fused", _grouped(trace.not_fused) or ["none"]),
            ]
        return sections

    def __str__(self) -> str:
        lines = []
        for title, rows in self._sections():
            lines.append(title)
            lines += [f"  {row}" for row in rows]
        return "\n".join(lines)

    def html(self) -> str:
        """A page of its own, without scripts."""
        body = []
        for title, rows in self._sections():
            items = "".join(f"<li><pre>{escape(row)}</pre></li>" for row in rows)
            body.append(
                f"<details open><summary>{escape(title)}</summary><ul>{items}</ul></details>"
            )
        style = "body{font-family:sans-serif}pre{margin:0}summary{font-weight:bold}"
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f"<title>pydisc report</title><style>{style}</style></head>"
            f"<body><h1>pydisc report</h1>{''.join(body)}</body></html>"
        )


def _grouped(rows: tuple[NotFusedRow, ...]) -> list[str]:
    """Equal pairs once, with their number."""
    counts: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row.producer.split(" ")[0], row.consumer.split(" ")[0], row.reason)
        counts[key] = counts.get(key, 0) + 1
    return [
        f"{a} -> {b}: {why}" + (f" (x{n})" if n > 1 else "") for (a, b, why), n in counts.items()
    ]
