"""The old import name, and the backend's entry point."""

from importlib.metadata import entry_points

import torch

import torch_blade


def test_optimize_takes_the_old_arguments():
    model, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
    with torch.no_grad():
        compiled = torch_blade.optimize(model, allow_tracing=True, model_inputs=x)
        torch.testing.assert_close(compiled(x), model(x))
        torch.testing.assert_close(compiled(x[:1]), model(x[:1]))


def test_torch_compile_finds_the_backend_by_its_entry_point():
    (found,) = entry_points(group="torch_dynamo_backends", name="disc")
    assert callable(found.load())
