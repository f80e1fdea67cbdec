"""`pydisc replay` compiles and calls again what a repro folder holds."""

import torch

from pydisc.cli.main import main
from pydisc.compiler.replay import write_repro
from pydisc.support import knobs


def test_a_fault_that_is_gone(tmp_path, capsys):
    with knobs.scope(repro=str(tmp_path)):
        folder = write_repro(
            torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),), {}, RuntimeError("it was broken")
        )
    assert main(["replay", str(folder)]) == 0
    assert "compiled and ran" in capsys.readouterr().out


def test_a_folder_without_a_model(tmp_path, capsys):
    assert main(["replay", str(tmp_path)]) == 1
    assert "holds no model.pt" in capsys.readouterr().err
