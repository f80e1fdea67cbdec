"""`pydisc.compile` and `pydisc.optimize` as users meet them."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import pydisc
from pydisc.cli.main import main
from pydisc.support import knobs


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return self.second(torch.relu(self.first(x))) * scale


@pytest.fixture
def model() -> Mlp:
    return Mlp().eval()


@pytest.fixture(autouse=True)
def _inference() -> Any:
    with torch.no_grad(), knobs.scope(on_error="raise"):
        yield


def check(compiled: Any, model: Any, *args: Any, **kwargs: Any) -> None:
    torch.testing.assert_close(
        compiled(*args, **kwargs), model(*args, **kwargs), atol=1e-5, rtol=1e-5
    )


def test_one_compile_serves_every_size(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    for size in (0, 1, 2, 7, 8, 31, 32, 33, 127, 1024):
        check(compiled, model, torch.randn(size, 8))
    report = compiled.report()
    assert (report.compiles, report.recompiles, report.fallbacks) == (1, 0, ())
    assert report.calls == 10


def test_first_call_at_size_zero_or_one(model: Mlp) -> None:
    for first in (0, 1):
        compiled = pydisc.compile(model)
        for size in (first, 5, 1, 0, 33):
            check(compiled, model, torch.randn(size, 8))
        assert compiled.report().compiles == 1


def test_optimize_compiles_ahead(model: Mlp) -> None:
    compiled = pydisc.optimize(model, [torch.randn(3, 8)])
    assert compiled.report().compiles == 1
    check(compiled, model, torch.randn(20, 8))
    assert compiled.report().compiles == 1


def test_ranks_are_declared_by_the_first_call(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    check(compiled, model, torch.randn(3, 8))
    with pytest.raises(ValueError, match=r"argument x.*rank 3"):
        compiled(torch.randn(2, 3, 8))


def test_bad_arguments_name_the_argument(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    compiled(torch.randn(3, 8))
    with pytest.raises(ValueError, match=r"argument x: dtype torch.float64"):
        compiled(torch.randn(3, 8, dtype=torch.float64))
    with pytest.raises(ValueError, match="missing a required argument: 'x'"):
        compiled()
    with pytest.raises(ValueError, match="unexpected keyword argument 'y'"):
        compiled(torch.randn(3, 8), y=1)


def test_a_wrong_inner_size_is_eagers_error(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    compiled(torch.randn(3, 8))
    with pytest.raises(RuntimeError):
        compiled(torch.randn(3, 9))
    check(compiled, model, torch.randn(5, 8))


def test_python_numbers_are_part_of_the_trace(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    for scale in (1.0, 2.5, 1.0):
        check(compiled, model, torch.randn(3, 8), scale=scale)
    assert compiled.report().compiles == 2


def test_non_contiguous_inputs(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    check(compiled, model, torch.randn(8, 5).T)
    check(compiled, model, torch.randn(10, 8)[::2])
    check(compiled, model, torch.randn(1, 8).expand(6, 8))
    assert compiled.report().compiles == 1


def test_changed_weights_are_seen(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    x = torch.randn(5, 8)
    check(compiled, model, x)
    model.first.weight.mul_(2)
    check(compiled, model, x)
    model.load_state_dict(Mlp().state_dict())
    check(compiled, model, x)
    model.second.bias.data = torch.randn(4)
    check(compiled, model, x)
    model.second.weight.data.fill_(0.5)
    check(compiled, model, x)
    assert compiled.report().compiles == 1


def test_replaced_parameters_are_seen(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    x = torch.randn(5, 8)
    check(compiled, model, x)
    model.first.weight = torch.nn.Parameter(torch.randn(16, 8))
    check(compiled, model, x)


def test_a_branch_on_a_size_is_another_trace() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 4 else x - 1

    compiled = pydisc.compile(f)
    for size in (2, 9, 4, 5, 0, 100):
        check(compiled, f, torch.randn(size))
    report = compiled.report()
    assert (report.compiles, len(report.traces)) == (2, 2)
    assert "test_compile.py" in report.traces[0].guards[0].where


def test_structures_in_and_out() -> None:
    def f(pair: tuple[torch.Tensor, torch.Tensor], extra: dict[str, Any]) -> dict[str, Any]:
        a, b = pair
        return {"sum": a + b, "same": a, "none": None, "list": [b * 2, extra["k"]], "n": 3}

    compiled = pydisc.compile(f)
    for size in (3, 1, 8):
        args = ((torch.randn(size), torch.randn(size)), {"k": torch.ones(2)})
        result, eager = compiled(*args), f(*args)
        assert result.keys() == eager.keys()
        assert result["same"] is args[0][0]
        assert result["none"] is None
        assert result["n"] == 3
        torch.testing.assert_close(result["sum"], eager["sum"])
        torch.testing.assert_close(result["list"], eager["list"])
    assert compiled.report().compiles == 1


def test_in_place_on_an_input_is_done() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    compiled = pydisc.compile(f)
    for size in (3, 8):
        x = torch.randn(size)
        y = x.clone()
        torch.testing.assert_close(compiled(x), f(y))
        torch.testing.assert_close(x, y)


def test_an_op_without_a_rule_is_left_to_the_framework() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.pinv(x + 1) * 2

    compiled = pydisc.compile(f)
    for size in (3, 5, 8):
        x = torch.randn(size, size)
        torch.testing.assert_close(compiled(x), f(x), atol=1e-3, rtol=1e-3)
    report = compiled.report()
    assert report.compiles == 1
    assert report.fallbacks
    assert "test_compile.py" in report.fallbacks[0].where
    assert report.eager_calls == 0


def test_data_dependent_control_flow_goes_through_dynamo_and_says_so() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1

    compiled = pydisc.compile(f)
    for size in (3, 5, 8):
        for value in (1.0, -1.0):
            check(compiled, f, torch.full((size,), value))
    report = compiled.report()
    assert (report.compiles, report.eager_calls) == (0, 0)
    assert "Dynamo" in report.fallbacks[0].reason
    assert "test_compile.py" in report.fallbacks[0].where


def test_training_mode_with_gradients_is_eager(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    with torch.enable_grad():
        model.train()
        loss = compiled(torch.randn(3, 8)).sum()
        loss.backward()
    assert model.first.weight.grad is not None
    assert compiled.report().eager_calls == 1


def test_many_threads_share_a_program(model: Mlp) -> None:
    compiled = pydisc.optimize(model, [torch.randn(3, 8)])
    wrong: list[str] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for i in range(40):
                x = torch.randn((seed * 7 + i * 13) % 50, 8, generator=generator)
                if not torch.allclose(compiled(x), model(x), atol=1e-5):
                    wrong.append(f"{seed} {i}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert compiled.report().compiles == 1


def test_a_fault_of_the_compiler_leaves_a_repro(
    model: Mlp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pydisc.torch_backend import variant

    whole = variant.compile_capture

    def broken(*args: Any) -> Any:
        raise pydisc.InternalError("broken on purpose")

    monkeypatch.setattr(variant, "compile_capture", broken)
    with knobs.scope(on_error="eager", repro=str(tmp_path)):
        compiled = pydisc.compile(model)
        check(compiled, model, torch.randn(3, 8))
        check(compiled, model, torch.randn(4, 8))
    report = compiled.report()
    assert report.eager_calls == 2
    (folder,) = tmp_path.iterdir()
    assert str(folder) in report.fallbacks[0].where
    assert "broken on purpose" in (folder / "error.txt").read_text()
    monkeypatch.setattr(variant, "compile_capture", whole)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    assert main(["replay", str(folder)]) == 0
    assert "does not fail" in capsys.readouterr().out


def test_report_as_text_and_html(model: Mlp) -> None:
    compiled = pydisc.compile(model)
    compiled(torch.randn(3, 8))
    report = compiled.report()
    text, html = str(report), report.html()
    for word in ("compiles 1", "dot", "x.shape[0]"):
        assert word in text
        assert word in html
    assert set(report.seconds) >= {"trace", "fuse", "codegen"}


def test_dumped_stages_are_read_again(model: Mlp, tmp_path: Path) -> None:
    with knobs.scope(dump=str(tmp_path)):
        pydisc.compile(model)(torch.randn(3, 8))
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [
        "01_hlo.mlir",
        "02_optimized.mlir",
        "03_fused.mlir",
        "04_scheduled.txt",
        "05_kernels.mlir",
    ]
    for name in names:
        if name.endswith(".mlir"):
            assert main(["opt", str(tmp_path / name)]) == 0
    assert main(["opt", str(tmp_path / "01_hlo.mlir"), "--passes=optimize,fuse"]) == 0


def test_errors_of_optimize_are_raised() -> None:
    with pytest.raises(pydisc.Unsupported, match=r"test_compile\.py"):
        pydisc.optimize(lambda x: x + 1 if x.sum() > 0 else x, [torch.ones(3)])
    with pytest.raises(ValueError, match="expected a module or a function"):
        pydisc.compile(3)  # type: ignore[arg-type]
