"""`pydisc explain MODULE:CALLABLE`: compile a model and say what became of it, and why."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("explain", help="compile a model and print the report")
    parser.add_argument(
        "target",
        metavar="MODULE:CALLABLE",
        help="a function without arguments that returns (model, example inputs)",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as HTML here")
    parser.set_defaults(run=run)


def find(target: str) -> Callable[[], Any]:
    """The function that MODULE:CALLABLE names; modules of the working directory count."""
    module_name, _, name = target.partition(":")
    if not (module_name and name):
        raise ValueError(f"{target!r} is not of the form MODULE:CALLABLE")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise  # the module is there, and what it imports is not
        raise ValueError(f"no module {error.name!r} (wanted for {target!r})") from None
    except AttributeError:
        raise ValueError(f"module {module_name!r} has no {name!r}") from None
    if not callable(found):
        raise ValueError(f"{target!r} is a {type(found).__name__}, not a function")
    return found


def run(args: argparse.Namespace) -> int:
    """Compile, call once, report."""
    import torch

    import pydisc

    made = find(args.target)()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module)):
        raise ValueError(f"{args.target} must return (model, example inputs)")
    model, inputs = made
    compiled = pydisc.compile(model)
    with torch.no_grad():
        compiled(*inputs)
    report = compiled.report()
    if args.html is None:
        print(report)
    else:
        args.html.write_text(report.html(), encoding="utf-8")
        print(f"wrote {args.html}")
    return 0
