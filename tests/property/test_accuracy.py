"""Elementary functions of CPU kernels over the whole range of f32, at both vector widths."""

import pytest
from conformance.accuracy import FUNCTIONS, WIDTHS, compile_functions, measure, runs

from pydisc.runtime.object_code import ObjectCode

STEP = 65537
"""Prime to every power of 2, so that all low bits occur."""


@pytest.fixture(scope="module", params=WIDTHS)
def code(request: pytest.FixtureRequest) -> ObjectCode:
    if not runs(WIDTHS[request.param]):
        pytest.skip(f"this machine has no {request.param}")
    return compile_functions(list(FUNCTIONS), *WIDTHS[request.param])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_within_its_bound(code: ObjectCode, name: str) -> None:
    found = measure(code, name, STEP)
    assert found.wrong == 0, found
    assert found.ulps <= FUNCTIONS[name].bound, found
