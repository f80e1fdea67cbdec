"""The text of errors: what, where, why, what to try."""

import pickle

from pydisc.support.errors import InternalError, PydiscError, Unsupported
from pydisc.support.source import SourceLine

_WHERE = SourceLine("model.py", 12, "Net.forward")


def test_unsupported_says_what_why_where_and_what_to_try():
    error = Unsupported("aten.foo.default", "no rule for it", "register a rule", _WHERE)
    assert str(error) == (
        "aten.foo.default: no rule for it\n"
        "  at:  model.py:12 in Net.forward\n"
        "  try: register a rule"
    )


def test_unsupported_leaves_out_what_it_does_not_know():
    assert str(Unsupported("aten.foo.default", "no rule for it")) == (
        "aten.foo.default: no rule for it"
    )


def test_internal_error_names_the_folder_and_the_command():
    assert str(InternalError("symbol S0 has two values", "/tmp/repro")) == (
        "symbol S0 has two values\n"
        "  this is a fault of pydisc, not of your model\n"
        "  repro: /tmp/repro\n"
        "  try: pydisc replay /tmp/repro"
    )


def test_all_are_pydisc_errors():
    assert issubclass(Unsupported, PydiscError)
    assert issubclass(InternalError, PydiscError)


def test_errors_survive_a_trip_between_processes():
    error = pickle.loads(pickle.dumps(Unsupported("op", "why", "hint", _WHERE)))
    assert (error.what, error.why, error.hint, error.where) == ("op", "why", "hint", _WHERE)
    assert str(error) == str(Unsupported("op", "why", "hint", _WHERE))
