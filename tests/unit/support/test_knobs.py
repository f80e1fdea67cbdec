"""Knobs: from the environment, scoped, checked, documented."""

import threading

import pytest

from pydisc.support import knobs


def test_defaults_when_nothing_is_set():
    assert knobs.from_env({}) == knobs.Knobs()


def test_environment_is_parsed_by_type():
    got = knobs.from_env(
        {"PYDISC_DEBUG": "3", "PYDISC_TIME": "1", "PYDISC_DUMP": "out", "PYDISC_ON_ERROR": "raise"}
    )
    assert (got.debug, got.time, got.dump, got.on_error) == (3, True, "out", "raise")


def test_current_reads_the_environment(monkeypatch):
    monkeypatch.setenv("PYDISC_THREADS", "1")
    assert knobs.current().threads == 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [("PYDISC_DEBUG", "loud"), ("PYDISC_TIME", "2"), ("PYDISC_ON_ERROR", "ignore")],
)
def test_a_bad_variable_is_named(variable, value):
    with pytest.raises(ValueError, match=f"{variable}='{value}'"):
        knobs.from_env({variable: value})


def test_scopes_nest_and_end():
    with knobs.scope(dump="a"):
        with knobs.scope(verify=2) as inner:
            assert (inner.dump, inner.verify) == ("a", 2)
        assert knobs.current().verify == 1
    assert knobs.current().dump == ""


def test_a_scope_ends_with_an_error():
    with pytest.raises(KeyError), knobs.scope(debug=4):
        raise KeyError
    assert knobs.current().debug == 0


def test_a_scope_is_of_one_thread():
    seen: list[int] = []
    with knobs.scope(debug=4):
        thread = threading.Thread(target=lambda: seen.append(knobs.current().debug))
        thread.start()
        thread.join()
    assert seen == [0]


@pytest.mark.parametrize("values", [{"nonsense": 1}, {"verify": "2"}, {"on_error": "ignore"}])
def test_a_scope_refuses_what_the_environment_would(values):
    with pytest.raises(ValueError), knobs.scope(**values):  # noqa: PT011
        pass


def test_disabled_is_a_set_of_names():
    assert knobs.Knobs(disable="cse, fold-pad,").disabled == {"cse", "fold-pad"}


def test_only_knobs_that_change_the_code_are_in_the_cache_key():
    base = knobs.Knobs()
    assert knobs.Knobs(debug=4, dump="x").cache_key() == base.cache_key()
    assert knobs.Knobs(disable="cse").cache_key() != base.cache_key()


def test_every_knob_is_documented():
    for knob in knobs.table():
        assert knob.env == f"PYDISC_{knob.name.upper()}"
        assert len(knob.help) > 10
