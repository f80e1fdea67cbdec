"""`pydisc explain` compiles what a function returns and prints the report."""

import pytest

from pydisc.cli.main import main

_MODULE = """
import torch

def make():
    return torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),)

def make_nothing():
    return None
"""


@pytest.fixture
def _module(tmp_path, monkeypatch):
    (tmp_path / "explained_model.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_module")
def test_text(capsys):
    assert main(["explain", "explained_model:make"]) == 0
    assert "compiles 1, recompiles 0, fallbacks 0" in capsys.readouterr().out


@pytest.mark.usefixtures("_module")
def test_html(tmp_path):
    assert main(["explain", "explained_model:make", "--html", "report.html"]) == 0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.usefixtures("_module")
def test_a_function_that_returns_something_else(capsys):
    assert main(["explain", "explained_model:make_nothing"]) == 1
    assert "must return (model, example inputs)" in capsys.readouterr().err
