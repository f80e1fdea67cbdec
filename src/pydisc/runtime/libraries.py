"""Functions of libraries that programs call by address: OpenMP as PyTorch has loaded it."""

import ctypes
from functools import cache
from pathlib import Path

import torch

from pydisc.support.errors import Unsupported


@cache
def openmp_table() -> "ctypes.Array[ctypes.c_int64]":
    """Addresses of GOMP_parallel, omp_get_thread_num, omp_get_num_threads (artifact/program.py).

    It must be the very library that PyTorch uses, so that both share one pool of threads.
    """
    folder = Path(torch.__file__).parent / "lib"
    candidates = [*sorted(folder.glob("libgomp*.so*")), None]
    for path in candidates:
        try:
            library = ctypes.CDLL(str(path) if path else None)
            functions = [
                library.GOMP_parallel,
                library.omp_get_thread_num,
                library.omp_get_num_threads,
            ]
        except (OSError, AttributeError):
            continue
        addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]
        return (ctypes.c_int64 * 3)(*addresses)
    raise Unsupported("this PyTorch", "its OpenMP library has no GOMP_parallel")
