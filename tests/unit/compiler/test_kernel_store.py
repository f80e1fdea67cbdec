"""Programs of one process share kernels and packed weights."""

import gc

import pytest
import torch
from torch import Tensor

import pydisc
from pydisc.artifact.program import ObjectFile
from pydisc.codegen.cpu.host_target import detect_cpu_target
from pydisc.compiler.kernel_store import kernel_store
from pydisc.runtime import weights
from pydisc.runtime.object_code import load_shared
from pydisc.support import knobs


class Branching(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(24, 40)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.softmax(self.linear(x), -1)
        return y + 1 if x.shape[0] > 8 else y


def test_a_branch_compiles_only_what_is_new() -> None:
    store = kernel_store(detect_cpu_target())
    model = pydisc.compile(Branching().eval())
    with torch.no_grad(), knobs.scope(on_error="raise"):
        model(torch.randn(3, 24))
        before = store.compiled
        model(torch.randn(30, 24))
        assert model.report().compiles == 2
        assert store.compiled - before == 1  # softmax with + 1
        again = pydisc.compile(Branching().eval())
        before = store.compiled
        again(torch.randn(3, 24))
        assert store.compiled == before


def test_packed_weights_are_shared_and_follow_changes() -> None:
    gc.collect()
    module = Branching().eval()
    before = len(weights._packs)
    model = pydisc.compile(module)
    x, y = torch.randn(3, 24), torch.randn(30, 24)
    with torch.no_grad(), knobs.scope(on_error="raise"):
        model(x), model(y)
        assert len(weights._packs) == before + 1
        for change in (
            lambda w: w.mul_(2),
            lambda w: w.data.add_(1),
            lambda w: setattr(w, "data", w.data.clone().neg_()),
        ):
            change(module.linear.weight)
            for value in (x, y):
                torch.testing.assert_close(model(value), module(value))
        assert len(weights._packs) == before + 1


def test_one_name_two_objects() -> None:
    with pytest.raises(ValueError, match="two objects define 'gemm_panels'"):
        load_shared([ObjectFile(b"other code", ("gemm_panels",))])
