"""What the command says about bad input: one message, exit code 1, no traceback."""

import pytest

from pydisc.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "nonsense"], "'nonsense' is not of the form MODULE:CALLABLE"),
        (["explain", "no_such_module:f"], "no module 'no_such_module'"),
        (["explain", "json:no_such"], "module 'json' has no 'no_such'"),
        (["explain", "json:__doc__"], "is a str, not a function"),
        (["replay", "no/such/folder"], "no/such/folder is not a folder"),
        (["opt", "no_such.mlir"], "No such file"),
    ],
)
def test_bad_input(arguments, message, capsys):
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.startswith("pydisc: ")


def test_no_command_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "usage: pydisc" in capsys.readouterr().err
