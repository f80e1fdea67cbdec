"""Every operator of PyTorch's test database, compiled and compared with eager.

    python -m conformance.opinfo --samples 1 --workers 2 --json f32.jsonl
    python -m conformance.opinfo --read f32.jsonl --write docs/op_coverage.md

Ends with status 1 if a sample is wrong, hangs or crashes.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from conformance.outcome import BAD, OpResult
from conformance.page import failures, page, reasons, totals
from conformance.pool import run_jobs
from conformance.samples import DTYPES, known_names, operators
from conformance.worker import Job, Options


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="conformance.opinfo", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument("--ops", default="", help="names with commas between; all without it")
    p.add_argument("--dtypes", default="f32", help=f"with commas between, of {' '.join(DTYPES)}")
    p.add_argument("--samples", type=int, default=0, help="of each operator; 0 (default) is all")
    p.add_argument("--shard", default="0/1", metavar="I/N", help="every Nth operator from I on")
    p.add_argument(
        "--variant", choices=("function", "method", "inplace"), default="function", help="of the op"
    )
    p.add_argument(
        "--torch-compile", action="store_true", help='torch.compile(backend="disc", dynamic=True)'
    )
    p.add_argument("--workers", type=int, default=1, help="processes at a time")
    p.add_argument("--threads", type=int, default=1, help="threads in each of them")
    p.add_argument("--timeout", type=float, default=60.0, help="seconds for one sample")
    p.add_argument("--json", type=Path, metavar="FILE", help="write a line for each operator")
    p.add_argument(
        "--read", type=Path, nargs="+", metavar="FILE", help="run nothing; take what --json wrote"
    )
    p.add_argument("--write", type=Path, metavar="FILE", help="write the page of results here")
    p.add_argument("--failures", type=Path, metavar="FILE", help="write the bad samples here")
    return p


def jobs(args: argparse.Namespace) -> list[Job]:
    """What the command line asks for."""
    names = frozenset(filter(None, args.ops.split(",")))
    if unknown := names - known_names():
        raise ValueError(f"--ops: the database has no {', '.join(sorted(unknown))}")
    dtypes = args.dtypes.split(",")
    if unknown := set(dtypes) - DTYPES.keys():
        raise ValueError(f"--dtypes: expected {' '.join(DTYPES)}, got {' '.join(sorted(unknown))}")
    index, of = shard(args.shard)
    options = Options(
        args.samples, args.torch_compile, args.variant, args.threads, timeout=args.timeout
    )
    found = [Job(op, d, options) for d in dtypes for op in operators(DTYPES[d], names)]
    return found[index::of]


def shard(text: str) -> tuple[int, int]:
    """`1/4` as (1, 4)."""
    try:
        index, of = map(int, text.split("/"))
    except ValueError:
        index, of = -1, 0
    if not 0 <= index < of:
        raise ValueError(f"--shard: expected I/N with 0 <= I < N, got {text!r}")
    return index, of


def run(todo: Sequence[Job], workers: int) -> Iterator[OpResult]:
    """Run the jobs, with a line on stderr for each that is done."""
    start = time.monotonic()
    for number, result in enumerate(run_jobs(todo, workers), 1):
        counts = " ".join(f"{status} {n}" for status, n in result.counts.items())
        print(
            f"[{number}/{len(todo)} {time.monotonic() - start:.0f} s] {result.op} {result.dtype}: "
            f"{counts or result.error}",
            file=sys.stderr,
            flush=True,
        )
        yield result


def read(files: Sequence[Path]) -> list[OpResult]:
    """Results of earlier runs."""
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [OpResult.from_json(json.loads(line)) for line in lines]


def main(argv: Sequence[str] | None = None) -> int:
    """Run or read, then write what was asked for."""
    args = parser().parse_args(argv)
    if args.read:
        results = read(args.read)
    else:
        try:
            todo = jobs(args)
        except ValueError as error:
            parser().error(str(error))
        results = []
        if args.json:
            args.json.write_text("", encoding="utf-8")
        for result in run(todo, args.workers):
            results.append(result)
            if args.json:  # line by line: what is done stays if the run is ended
                with args.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result.to_json()) + "\n")
    print(totals(results))
    print("\nWhy not our code alone, by operators\n" + reasons(results))
    if args.failures:
        args.failures.write_text(failures(results) + "\n", encoding="utf-8")
    if args.write:
        most = max((len(r.outcomes) for r in results), default=0)
        scope = f"at most {most} samples an operator" if most < 30 else "all samples"
        args.write.write_text(page(results, scope), encoding="utf-8")
    return int(any(r.counts[status] for r in results for status in BAD))


if __name__ == "__main__":
    sys.exit(main())
