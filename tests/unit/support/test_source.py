"""The innermost line of the user's code."""

import inspect

import torch

from pydisc.support.source import SourceLine, current_source_line


def test_it_is_the_calling_line():
    line = inspect.currentframe().f_lineno + 1  # pyright: ignore
    found = current_source_line()
    assert found == SourceLine(__file__, line, "test_it_is_the_calling_line")


def test_frames_of_torch_are_passed_over():
    class Model(torch.nn.Module):
        def forward(self, x):
            return self.register(x)

        def register(self, x):
            seen.append(current_source_line())
            return x

    seen = []
    Model()(torch.ones(1))
    assert seen[0].function.endswith("Model.register")

    seen.clear()
    torch.nn.Sequential(torch.nn.Identity()).apply(lambda m: seen.append(current_source_line()))
    assert seen[0].file == __file__


def test_it_prints_as_a_place_to_click_on():
    assert str(SourceLine("model.py", 12, "forward")) == "model.py:12 in forward"


def test_generated_code_is_passed_over():
    scope = {"current_source_line": current_source_line}
    exec(compile("def made(): return current_source_line()", "<generated>", "exec"), scope)
    assert scope["made"]().file == __file__  # pyright: ignore
