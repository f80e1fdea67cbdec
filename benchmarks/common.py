"""What every benchmark shares: rows, options, interleaved timing, the machine's limits, memory."""

import argparse
import ctypes
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

os.environ.setdefault("PYDISC_CACHE", "off")  # compile times are those of a first process

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `value` is None where the implementation could not run, and `why` says why."""

    bench: str
    case: str
    impl: str
    metric: str
    value: float | None
    unit: str
    vs_eager: float | None = None
    limit: float | None = None
    ok: bool | None = None
    why: str | None = None

    def to_json(self) -> str:
        """One line of JSON, without the fields that are not set (but always with `value`)."""
        fields = {k: v for k, v in asdict(self).items() if v is not None or k == "value"}
        return json.dumps(fields)


class Rows:
    """Collects rows, prints each as it comes, and writes them all at the end."""

    def __init__(self, bench: str) -> None:
        self.bench = bench
        self.rows: list[Row] = []

    def add(
        self, case: str, impl: str, metric: str, value: float | None, unit: str, **more: Any
    ) -> None:
        """Record and print one figure."""
        row = Row(self.bench, case, impl, metric, _rounded(value), unit, **more)
        self.rows.append(row)
        shown = "-" if row.value is None else f"{row.value:10.3f} {unit}"
        ratio = "" if row.vs_eager is None else f"  {row.vs_eager:5.2f}x eager"
        limit = "" if row.limit is None else f"  (limit {row.limit:.3f})"
        wrong = "  WRONG RESULT" if row.ok is False else ""
        why = "" if row.why is None else f"  {row.why}"
        print(
            f"{case:>14} {impl:>21} {metric:>14} {shown:>16}{ratio}{limit}{wrong}{why}", flush=True
        )

    def write(self, file: Path | None) -> None:
        """Write one JSON object a line."""
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(row.to_json() + "\n" for row in self.rows), encoding="utf-8")

    @property
    def exit_code(self) -> int:
        """1 if any result was wrong. A slow figure is a figure, not a failure."""
        return int(any(row.ok is False for row in self.rows))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def names(text: str) -> list[str]:
    """A comma-separated option."""
    return [part.strip() for part in text.split(",") if part.strip()]


def pairs(text: str) -> list[tuple[int, int]]:
    """A grid such as `1x17,8x128`."""
    grid: list[tuple[int, int]] = []
    for part in names(text):
        left, _, right = part.partition("x")
        if not (left.isdigit() and right.isdigit()):
            raise argparse.ArgumentTypeError(f"{part!r} is not of the form 8x128")
        grid.append((int(left), int(right)))
    return grid


def make_parser(
    description: str | None, impls: Sequence[str], rounds: int
) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--impls", type=names, default=list(impls), help=f"of {','.join(impls)}")
    parser.add_argument("--rounds", type=int, default=rounds, help="interleaved rounds")
    parser.add_argument("--threads", type=int, default=2, help="threads a call may use")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here")
    return parser


def parse(parser: argparse.ArgumentParser, impls: Sequence[str]) -> argparse.Namespace:
    """Parse, refuse unknown implementations, set threads and cold peer caches."""
    args = parser.parse_args()
    unknown = set(args.impls) - set(impls)
    if unknown:
        parser.error(f"unknown impl {', '.join(sorted(unknown))}; choose from {', '.join(impls)}")
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    # A first call that finds yesterday's kernels on the disk says nothing about compile time.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="inductor-cold-")
    return args


def seconds(call: Call) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleaved_medians(
    calls: Mapping[str, Call], rounds: int, at_least: float = 0.0
) -> dict[str, float]:
    """Median seconds a call, all implementations in turns within each round, order alternating.

    A sample repeats the call until it takes `at_least` seconds, for calls too short to time alone.
    """
    repeats = {}
    for name, call in calls.items():
        call()
        repeats[name] = max(1, int(at_least / max(1e-7, min(seconds(call) for _ in range(3)))))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            call, count = calls[name], repeats[name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            samples[name].append((time.perf_counter() - start) / count)
        order.reverse()
    return {name: statistics.median(column) for name, column in samples.items()}


def measure_peak(size: int = 2048) -> float:
    """Multiply-add peak in FLOP/s at the current thread count.

    A proxy for an FMA loop: the best of several large f32 products by torch's own library.
    """
    x, y = torch.randn(size, size), torch.randn(size, size)
    best = min(seconds(lambda: torch.mm(x, y)) for _ in range(6))
    return 2 * size**3 / best


def largest_gap(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference relative to max(1, |expected|); infinite on NaN or another shape."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if expected.numel() == 0:
        return 0.0
    gap = ((actual - expected).abs() / expected.abs().clamp(min=1.0)).max().item()
    return gap if gap == gap else float("inf")


def is_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-4) -> bool:
    """Whether two results agree, relative to max(1, |expected|)."""
    return largest_gap(actual, expected) <= tolerance


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def release_memory() -> None:
    """Give freed memory back to the system, so that it does not hide the next allocation."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def resident_mb() -> float:
    """Megabytes of this process in memory now."""
    return _status("VmRSS")


def peak_resident_mb(call: Call) -> float:
    """The most megabytes of this process in memory during the call (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # restarts the high-water mark
    call()
    return _status("VmHWM")


def explain_failure(error: BaseException) -> str:
    """The first line of an error, short enough for a row."""
    text = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return text[:200]


def finish(rows: Rows, file: Path | None) -> None:
    """Write the rows and end the script."""
    rows.write(file)
    sys.exit(rows.exit_code)
