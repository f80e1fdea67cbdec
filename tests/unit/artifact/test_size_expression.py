"""Size expressions in artifacts have the values that the compiler gives them."""

import pytest

from pydisc.artifact.size_expression import evaluate, names_in

ENV = {"S0": 3, "S1": 4}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("S0*S1 - 3", 9),
        ("-S0 + 1", -2),
        ("max(S0, 5) // min(S1, 2)", 2),
        ("S0 // (S1 - 4)", 0),
        ("S1 % 3", 1),
        ("S0 % (S1 - 4)", 3),
        ("ite((S0 >= 2) and (not (S1 == 3)), S0, 7)", 3),
        ("ite(S0 > 3 or 1.5 <= 0.5, S0, 7)", 7),
        ("floor((float(S0) / 2.0))", 1),
        ("ceil((float(S0) * 0.5))", 2),
        ("round((float(S0) / float((S1 - 4))))", 0),
        ("trunc(sqrt((-float(S1))))", 0),
        ("floor((float(S1) ** 0.5))", 2),
    ],
)
def test_values(text: str, value: int) -> None:
    assert evaluate(text, ENV) == value


def test_names() -> None:
    assert names_in("ite(S0 > K, floor(float(S1)), 2)") == {"S0", "K", "S1"}


@pytest.mark.parametrize(
    "text", ["S0.real", "[S0]", "open('x')", "'S0'", "S0 << 2", "(lambda: 1)()"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        evaluate(text, ENV)
