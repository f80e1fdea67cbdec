"""Packing, micro-kernels and the blocked loop against f64."""

import ctypes
import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from tests.unit.codegen.conftest import aligned, c_function, load

from pydisc.codegen.common.assembly_text import Text
from pydisc.codegen.cpu.gemm_microkernel import (
    EPILOGUE_ARGS,
    PANELS_ARGS,
    Blocking,
    emit_gemm_panels,
    emit_microkernels,
)
from pydisc.codegen.cpu.gemm_pack import PACK_ARGS, emit_pack_b
from pydisc.targets.cpu import AVX2, AVX512, CpuTarget

SIZES = [0, 1, 2, 7, 8, 31, 33, 127]


@pytest.fixture(scope="module", params=[AVX2, AVX512], ids=["lanes8", "lanes16"])
def gemm(request: pytest.FixtureRequest) -> SimpleNamespace:
    target: CpuTarget = request.param
    t = Text(target.vector_lanes_f32)
    emit_microkernels(t, target)
    emit_gemm_panels(t, target, Blocking(mc=18, kc=40))  # small, so that blocks have seams
    emit_pack_b(t, target)
    code = load(t)
    return SimpleNamespace(
        nr=target.nr,
        panels=c_function(code, "gemm_panels", PANELS_ARGS),
        pack=c_function(code, "pack_b", PACK_ARGS),
    )


def operands(K: int, N: int) -> dict[str, torch.Tensor]:
    """B[K][N] in every layout that packing treats differently."""
    return {
        "rows": torch.randn(K, N),
        "columns": torch.randn(N, K).t(),
        "strided": torch.randn(K, N, 2)[:, :, 0],
    }


def packed(gemm: SimpleNamespace, B: torch.Tensor) -> torch.Tensor:
    K, N = B.shape
    panels = -(-N // gemm.nr)
    out = aligned(panels * K * gemm.nr)
    gemm.pack(B, B.stride(0), B.stride(1), K, N, out, 0, panels)
    return out


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
def test_pack(gemm: SimpleNamespace, layout: str) -> None:
    for K, N in itertools.product(SIZES, SIZES):
        B = operands(K, N)[layout]
        panels = -(-N // gemm.nr)
        want = torch.zeros(K, panels * gemm.nr)
        want[:, :N] = B
        want = want.view(K, panels, gemm.nr).transpose(0, 1)
        assert torch.equal(packed(gemm, B).view(panels, K, gemm.nr), want), (K, N)


@pytest.mark.parametrize("bias", [True, False])
def test_gemm(gemm: SimpleNamespace, bias: bool) -> None:
    for M, N, K in itertools.product(SIZES, SIZES, SIZES):
        A, B = torch.randn(M, K), torch.randn(K, N)
        panels = -(-N // gemm.nr)
        init = torch.randn(panels * gemm.nr) if bias else None
        C = torch.full((M, N + 3), 9.0)
        args = [A, K, packed(gemm, B), C, N + 3, 0, M, N, K, 0, panels, init, None, None]
        gemm.panels(*args)
        want = A.double() @ B.double() + (0 if init is None else init[:N].double())
        torch.testing.assert_close(C[:, :N].double(), want, rtol=1e-4, atol=1e-4)
        assert (C[:, N:] == 9).all()


def test_part_of_rows_and_panels(gemm: SimpleNamespace) -> None:
    M, N, K = 50, 3 * gemm.nr + 5, 33
    A, B = torch.randn(M, K), torch.randn(K, N)
    C = torch.full((M, N), 9.0)
    gemm.panels(A, K, packed(gemm, B), C, N, 11, 42, N, K, 1, 3, None, None, None)
    want = torch.full((M, N), 9.0)
    inside = slice(gemm.nr, 3 * gemm.nr)
    want[11:42, inside] = (A @ B)[11:42, inside]
    torch.testing.assert_close(C, want)


@pytest.mark.parametrize(("M", "N", "K"), [(1, 1, 1), (7, 33, 127), (50, 131, 90), (4, 128, 0)])
def test_epilogue_sees_each_tile_once(gemm: SimpleNamespace, M: int, N: int, K: int) -> None:
    A, B = torch.randn(M, K), torch.randn(K, N)
    C = torch.full((M, N), 9.0)
    seen = torch.zeros(M, N, dtype=torch.int64)

    def epilogue(env: int, tile: int, ld: int, m0: int, rows: int, n0: int, cols: int) -> None:
        assert env == 42
        seen[m0 : m0 + rows, n0 : n0 + cols] += 1
        for i in range(rows):
            row = (ctypes.c_float * cols).from_address(tile + 4 * i * ld)
            C[m0 + i, n0 : n0 + cols] = torch.tensor(list(row)) * 2

    types = [ctypes.c_int64 if type_ == "i64" else ctypes.c_void_p for _, type_ in EPILOGUE_ARGS]
    callback: Callable = ctypes.CFUNCTYPE(None, *types)(epilogue)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    panels = -(-N // gemm.nr)
    args = [A, K, packed(gemm, B), C, N, 0, M, N, K, 0, panels, None, address, 42]
    gemm.panels(*args)
    assert (seen == 1).all()
    torch.testing.assert_close(C, 2 * (A @ B), rtol=1e-4, atol=1e-4)
