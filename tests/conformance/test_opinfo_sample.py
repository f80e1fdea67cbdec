"""The conformance runner on a few operators, and on operators that crash, hang or are wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from conformance.comparison import Result, difference, result_of
from conformance.opinfo import parser, shard
from conformance.outcome import OpResult, Outcome
from conformance.page import page

pytestmark = pytest.mark.slow  # importing PyTorch's test database takes ten seconds

ROOT = Path(__file__).parents[2]
REAL = "add", "exp", "softmax", "nonzero", "linalg.svd", "split"


@dataclass(frozen=True)
class FakeOp:
    """Stands in for an entry of the database."""

    name: str
    fn: Callable[..., Any]
    variant_test_name: str = ""

    def get_op(self) -> Callable[..., Any]:
        return self.fn

    def sample_inputs(self, device: str, dtype: torch.dtype, requires_grad: bool) -> Any:
        from torch.testing._internal.opinfo.core import SampleInput

        for n in range(1, 4):
            yield SampleInput(torch.full((n,), 2.0, dtype=dtype))


def ends_itself(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 2:
        os.kill(os.getpid(), 11)
    return x + 1


def never_ends(x: torch.Tensor) -> torch.Tensor:
    while x.numel() == 2:
        pass
    return x + 1


def has_state(x: torch.Tensor, calls: list[int] = []) -> torch.Tensor:  # noqa: B006 -- on purpose
    calls.append(0)
    return x + len(calls)


FAKE = ends_itself, never_ends, has_state


def run_some(file: str) -> None:
    """In a process without threads, as workers are forked from it: write results as JSON lines."""
    from conformance.pool import run_jobs
    from conformance.samples import operators
    from conformance.worker import Job, Options

    jobs = [Job(op, "f32", Options(samples=2)) for op in operators(torch.float32, frozenset(REAL))]
    jobs += [Job(FakeOp(f.__name__, f), "f32", Options(timeout=5.0)) for f in FAKE]
    lines = [json.dumps(r.to_json()) for r in run_jobs(jobs, workers=2)]
    Path(file).write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, OpResult]:
    file = tmp_path_factory.mktemp("conformance") / "results.jsonl"
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    code += f"from test_opinfo_sample import run_some; run_some({str(file)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    found = [OpResult.from_json(json.loads(line)) for line in file.read_text().splitlines()]
    return {r.op: r for r in found}


@pytest.mark.parametrize("name", REAL)
def test_operator_is_right(results: dict[str, OpResult], name: str) -> None:
    of = [r for op, r in results.items() if op.split(".")[0] == name or op == name]
    assert of
    for result in of:
        assert result.outcomes, result.error
        assert result.status in ("native", "part", "extern", "fallback"), result.outcomes


def test_element_wise_operators_are_native(results: dict[str, OpResult]) -> None:
    assert results["add"].status == results["exp"].status == "native"


def test_data_dependent_size_says_why(results: dict[str, OpResult]) -> None:
    assert results["nonzero"].reason if results["nonzero"].status != "native" else True


def test_crash_costs_one_sample(results: dict[str, OpResult]) -> None:
    statuses = [(o.sample, o.status) for o in results["ends_itself"].outcomes]
    assert statuses == [(0, "native"), (1, "crash"), (2, "native")]
    crash = results["ends_itself"].outcomes[1]
    assert "SIGSEGV" in crash.reason
    assert crash.inputs == "f32[2]"


def test_hang_costs_one_sample(results: dict[str, OpResult]) -> None:
    statuses = [o.status for o in results["never_ends"].outcomes]
    assert statuses == ["native", "hang", "native"]


def test_wrong_result_is_found(results: dict[str, OpResult]) -> None:
    assert results["has_state"].status == "wrong"
    assert "differ" in results["has_state"].reason


def test_difference_names_what_differs() -> None:
    def compared(ours: Callable[[], Any], eager: Callable[[], Any]) -> str:
        return difference(result_of(ours, (), {}), result_of(eager, (), {}), Result)

    ones = torch.ones(2)
    assert compared(lambda: ones, lambda: ones) == ""
    assert "dtype" in compared(lambda: ones, lambda: ones.double())
    assert "shape" in compared(lambda: ones, lambda: ones[:1])
    assert "1 of 2 differ" in compared(lambda: ones, lambda: torch.tensor([1.0, 2.0]))
    assert "no error" in compared(lambda: ones, lambda: ones.view(7))
    assert "int 1, eager float 1.0" in compared(lambda: 1, lambda: 1.0)
    assert compared(lambda: ones.view(7), lambda: ones.view(9)) == ""


def test_eager_is_not_the_last_word() -> None:
    """A result that eager's rounding error keeps away from it is right if the exact one is near."""
    x, y = torch.tensor([1.0]), torch.tensor([1.001])
    exact = result_of(lambda: x.double(), (), {})
    ours, eager = result_of(lambda: x, (), {}), result_of(lambda: y, (), {})
    assert difference(ours, eager, lambda: exact) == ""
    assert difference(eager, ours, lambda: exact) != ""


def test_page_has_a_row_for_each_operator() -> None:
    outcomes = [Outcome(0, "native"), Outcome(1, "extern", "aten.x.default: no rule")]
    text = page([OpResult("x", "f32", outcomes), OpResult("x", "f64", outcomes[:1])], "two")
    assert "| `x` | extern (1/2) | native | aten.x.default: no rule |" in text


@pytest.mark.parametrize("text", ["1", "2/2", "-1/2", "a/b", "0/0"])
def test_bad_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--shard"):
        shard(text)


def test_options_have_help() -> None:
    assert all(action.help for action in parser()._actions)
