"""What each level promises, and what breaking a promise says."""

import pytest
from torch_mlir.ir import Module

from pydisc.ir.context import open_context
from pydisc.ir.verify import verify
from pydisc.support.errors import InternalError

S0 = '"disc_shape.symbolic_dim"() {sym_name = "S0", min = 0 : i64} : () -> ()\n'
S1 = '"disc_shape.symbolic_dim"() {sym_name = "S1", min = 0 : i64} : () -> ()\n'
T0, T1 = "tensor<?xf32, [@S0]>", "tensor<?xf32, [@S1]>"


def check(text: str, level: str = "hlo") -> None:
    with open_context():
        verify(Module.parse(text), level)


def main(body: str, arguments: str = f"%x: {T0}", result: str = T0) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}\n"


def test_a_sound_module_passes() -> None:
    check(S0 + main(f"%0 = stablehlo.tanh %x : {T0}\nreturn %0 : {T0}"))


def test_a_symbol_that_is_not_declared() -> None:
    with pytest.raises(InternalError, match="@S0 is not declared"):
        check(main(f"return %x : {T0}"))


def test_a_dynamic_dim_without_a_symbol() -> None:
    kind = "tensor<?xf32>"
    with pytest.raises(InternalError, match="without symbols"):
        check(S0 + main(f"return %x : {kind}", f"%x: {kind}", kind))


def test_symbols_that_disagree() -> None:
    text = main(
        f'%0 = "stablehlo.add"(%x, %y) : ({T0}, {T1}) -> {T0}\nreturn %0 : {T0}',
        f"%x: {T0}, %y: {T1}",
    )
    with pytest.raises(InternalError, match="disagree"):
        check(S0 + S1 + text)


def test_an_op_outside_of_a_kernel() -> None:
    text = S0 + main(f"%0 = stablehlo.tanh %x : {T0}\nreturn %0 : {T0}")
    with pytest.raises(InternalError, match=r"stablehlo.tanh is outside of any kernel"):
        check(text, "fused")


def fusion(inner: str, attributes: str = '{kind = "loop"}') -> str:
    return S0 + main(
        f'%0 = "disc.fusion"(%x) ({{\n^bb0(%a: {T0}):\n{inner}\n}}) {attributes} : ({T0}) -> {T0}\n'
        f"return %0 : {T0}"
    )


def test_an_op_inside_of_a_kernel() -> None:
    check(fusion(f'%1 = stablehlo.tanh %a : {T0}\n"disc.yield"(%1) : ({T0}) -> ()'), "fused")


def test_a_kernel_that_yields_nothing() -> None:
    with pytest.raises(InternalError, match="yields"):
        check(fusion('"disc.yield"() : () -> ()'), "fused")


def test_a_kernel_without_a_kind() -> None:
    with pytest.raises(InternalError, match="lacks the attribute kind"):
        check(fusion(f'"disc.yield"(%a) : ({T0}) -> ()', ""), "fused")


def test_an_op_that_we_do_not_have() -> None:
    with pytest.raises(InternalError, match=r"no op disc\.dance"):
        check(S0 + main(f'%0 = "disc.dance"(%x) : ({T0}) -> {T0}\nreturn %0 : {T0}'))


def test_a_module_without_main() -> None:
    with pytest.raises(InternalError, match="no function @main"):
        check(S0)
