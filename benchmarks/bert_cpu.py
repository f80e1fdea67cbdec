"""BERT-base f32 on the CPU: one compile a way, a grid of shapes, the peers beside it.

Latency and first calls come from one process, in turns; peak memory from a fresh process each.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from common import (
    Rows,
    explain_failure,
    finish,
    interleaved_medians,
    is_close,
    make_parser,
    measure_peak,
    pairs,
    parse,
    peak_resident_mb,
    release_memory,
    resident_mb,
    seconds,
)

Model = Callable[..., torch.Tensor]
Inputs = tuple[torch.Tensor, torch.Tensor]
GRID = "1x17,1x128,4x77,8x128"
IMPLS = ("eager", "inductor", "pydisc", "pydisc_optimize", "pydisc_torch_compile")


class Bert(torch.nn.Module):
    """BERT-base without its pooler, random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = BertModel(BertConfig(), add_pooling_layer=False)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Hidden states of the last layer."""
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def make_inputs(shape: tuple[int, int]) -> Inputs:
    """Random ids, nothing padded."""
    return torch.randint(0, 30000, shape), torch.ones(shape, dtype=torch.long)


def build_inductor(model: torch.nn.Module, example: Inputs) -> Model:
    """TorchInductor at its best for inference: dynamic shapes, frozen (packed) weights."""
    import torch._inductor.config as config

    config.freezing = True
    return torch.compile(model, dynamic=True)


def build_pydisc(model: torch.nn.Module, example: Inputs) -> Model:
    """Compiles at the first call."""
    import pydisc

    return pydisc.compile(model)


def build_pydisc_optimize(model: torch.nn.Module, example: Inputs) -> Model:
    """Compiles ahead of the first call."""
    import pydisc

    return pydisc.optimize(model, example)


def build_pydisc_torch_compile(model: torch.nn.Module, example: Inputs) -> Model:
    """Dynamo in front, pydisc behind."""
    return torch.compile(model, backend="disc", dynamic=True)


BUILD: dict[str, Callable[[torch.nn.Module, Inputs], Model]] = {
    "eager": lambda model, example: model,
    "inductor": build_inductor,
    "pydisc": build_pydisc,
    "pydisc_optimize": build_pydisc_optimize,
    "pydisc_torch_compile": build_pydisc_torch_compile,
}


def case_of(inputs: Inputs) -> str:
    """The name of a shape in rows, such as 8x128."""
    return "x".join(map(str, inputs[0].shape))


def build_all(
    model: torch.nn.Module, impls: list[str], grid: list[Inputs], rows: Rows
) -> dict[str, Model]:
    """Build each way and call it once at each shape; rows for compile time and first calls."""
    built: dict[str, Model] = {}
    for impl in impls:
        try:
            made: list[Model] = []
            building = seconds(lambda: made.append(BUILD[impl](model, grid[0])))  # noqa: B023
            firsts = [seconds(lambda: made[0](*inputs)) for inputs in grid]  # noqa: B023
        except Exception as error:  # a peer that cannot run gets a row, not a crash
            rows.add("all", impl, "latency", None, "ms", why=explain_failure(error))
            continue
        built[impl] = made[0]
        if impl != "eager":
            # The first call also runs the model once; that is what a user waits for.
            rows.add(case_of(grid[0]), impl, "compile_s", building + firsts[0], "s")
        for inputs, first in zip(grid[1:], firsts[1:], strict=True):
            rows.add(case_of(inputs), impl, "first_call_ms", first * 1e3, "ms")
        add_counts(impl, made[0], rows)
    return built


def add_counts(impl: str, built: Any, rows: Rows) -> None:
    """What pydisc counted over the grid."""
    if not hasattr(built, "report"):
        return
    report = built.report()
    for metric in ("compiles", "recompiles", "fallbacks"):
        field = getattr(report, metric)
        rows.add("all", impl, metric, field if isinstance(field, int) else len(field), "count")


def add_latency(
    model: torch.nn.Module,
    built: dict[str, Model],
    inputs: Inputs,
    rounds: int,
    peak: float,
    rows: Rows,
) -> None:
    """Compare with eager, then time in turns."""
    with FlopCounterMode(display=False) as counter:
        expected = model(*inputs)
    limit = counter.get_total_flops() / peak * 1e3
    ok = {impl: is_close(call(*inputs), expected) for impl, call in built.items()}
    calls = {impl: (lambda call=call: call(*inputs)) for impl, call in built.items()}
    medians = interleaved_medians({"eager": lambda: model(*inputs)} | calls, rounds)
    eager = medians["eager"]
    for impl in built:
        value = medians[impl]
        rows.add(
            case_of(inputs), impl, "latency", value * 1e3, "ms",
            vs_eager=round(eager / value, 3), limit=round(limit, 3), ok=ok[impl],
        )  # fmt: skip


def measure_memory(impl: str, grid: list[Inputs]) -> dict[str, float]:
    """Megabytes beyond the loaded, compiled model, by shape from small to large; run in a child."""
    model = Bert().eval()
    call = BUILD[impl](model, make_inputs((2, 3)))
    call(*make_inputs((2, 3)))
    release_memory()
    base = resident_mb()
    peaks: dict[str, float] = {}
    for inputs in sorted(grid, key=lambda x: x[0].numel()):
        release_memory()
        peaks[case_of(inputs)] = peak_resident_mb(lambda: call(*inputs)) - base  # noqa: B023
    return peaks


def add_memory(impls: list[str], args: Any, rows: Rows) -> None:
    """Ask a fresh process for each way."""
    grid = ",".join(f"{b}x{s}" for b, s in args.grid)
    for impl in impls:
        command = [sys.executable, __file__, "--memory-of", impl, "--grid", grid]
        command += ["--threads", str(args.threads)]
        child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if child.returncode != 0:
            why = f"the measuring process ended with {child.returncode}"
            rows.add("all", impl, "peak_mb", None, "MB", why=why)
            continue
        for case, value in json.loads(child.stdout.splitlines()[-1]).items():
            rows.add(case, impl, "peak_mb", value, "MB")


def main() -> None:
    """Parse, build, compare, time."""
    parser = make_parser(__doc__, IMPLS, rounds=15)
    parser.add_argument("--grid", type=pairs, default=pairs(GRID), help=f"batch x length ({GRID})")
    parser.add_argument("--no-memory", action="store_true", help="skip the peak memory processes")
    parser.add_argument("--memory-of", choices=IMPLS, help="(internal) measure one way and print")
    args = parse(parser, IMPLS)
    grid = [make_inputs(shape) for shape in args.grid]
    with torch.no_grad():
        if args.memory_of:
            print(json.dumps(measure_memory(args.memory_of, grid)))
            return
        rows = Rows("bert_cpu")
        model = Bert().eval()
        model(*grid[0])  # warm torch itself, so that no one's first call pays for it
        built = build_all(model, args.impls, grid, rows)
        peak = measure_peak()
        rows.add("machine", "hand", "gflops", peak / 1e9, "GFLOP/s")
        for inputs in grid:
            add_latency(model, built, inputs, args.rounds, peak, rows)
        if not args.no_memory:
            add_memory(list(built), args, rows)
    finish(rows, args.json)


if __name__ == "__main__":
    main()
