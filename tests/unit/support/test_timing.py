"""Stage times, and who is told when a stage begins."""

import io
import sys

import pytest

from pydisc.support.knobs import Knobs
from pydisc.support.progress import stage_bar
from pydisc.support.timing import StageTimer


def test_seconds_add_up_by_name_in_order():
    timer = StageTimer()
    for name in ("trace", "fuse", "trace"):
        with timer.stage(name):
            pass
    assert list(timer.seconds) == ["trace", "fuse"]
    assert all(value >= 0 for value in timer.seconds.values())


def test_a_stage_that_fails_is_timed_too():
    timer = StageTimer()
    with pytest.raises(KeyError), timer.stage("trace"):
        raise KeyError
    assert "trace" in timer.seconds


def test_the_callback_hears_each_beginning():
    heard = []
    timer = StageTimer(total=2, on_stage=lambda *what: heard.append(what))
    for name in ("trace", "fuse"):
        with timer.stage(name):
            pass
    assert heard == [("trace", 0, 2), ("fuse", 1, 2)]


def test_no_bar_where_no_one_looks():
    with stage_bar("compile", Knobs()) as on_stage:
        assert on_stage is None or sys.stderr.isatty()


def test_a_bar_where_the_knob_asks(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with stage_bar("compile", Knobs(progress=True)) as on_stage:
        timer = StageTimer(total=2, on_stage=on_stage)
        with timer.stage("trace"):
            pass
        with timer.stage("fuse"):
            pass
    assert "compile" in sys.stderr.getvalue()  # pyright: ignore
    assert "2/2" in sys.stderr.getvalue()  # pyright: ignore
