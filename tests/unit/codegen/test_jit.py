"""Errors of the JIT, functions of the process, reading of /proc/cpuinfo."""

import ctypes

import pytest

from pydisc.codegen.cpu.host_target import detect_cpu_target, parse_cpu_info
from pydisc.codegen.cpu.jit import compile_to_object
from pydisc.runtime.object_code import ObjectCode, define_symbol
from pydisc.support.errors import InternalError, Unsupported

Unary = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def test_declared_functions_are_resolved_at_load() -> None:
    data = compile_to_object(
        """func.func private @pydisc_test_outside(i64) -> i64
        func.func @f(%x: i64) -> i64 {
          %r = func.call @pydisc_test_outside(%x) : (i64) -> i64
          return %r : i64
        }"""
    )
    outside = Unary(lambda x: 2 * x)
    define_symbol("pydisc_test_outside", ctypes.cast(outside, ctypes.c_void_p).value or 0)
    code = ObjectCode(data)
    assert Unary(code.address("f"))(21) == 42
    with pytest.raises(KeyError, match="no function 'g'"):
        code.address("g")


def test_leftovers_raise() -> None:
    text = """func.func @f(%x: f32) -> tensor<1xf32> {
      %y = tensor.from_elements %x : tensor<1xf32>
      return %y : tensor<1xf32>
    }"""
    with pytest.raises(InternalError, match="from_elements"):
        compile_to_object(text)


def test_invalid_text_raises() -> None:
    with pytest.raises(InternalError, match="not valid MLIR"):
        compile_to_object("func.func @f() { nonsense }")


def test_cpu_info() -> None:
    assert detect_cpu_target().mr == 6
    avx512 = "flags : fma avx2 f16c avx512f avx512bw avx512dq avx512vl"
    assert parse_cpu_info(avx512, 1, 2).nr == 64
    assert parse_cpu_info("flags : fma avx2 f16c", 1, 2).nr == 16
    assert parse_cpu_info("Features : fp asimd", 1, 2).nr == 16
    with pytest.raises(Unsupported):
        parse_cpu_info("flags : sse2", 1, 2)
