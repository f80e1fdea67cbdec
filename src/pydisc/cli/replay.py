"""`pydisc replay DIR`: run again the compile that a repro folder holds."""

import argparse
from pathlib import Path
from typing import Any


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("replay", help="run a failed compile again from its repro folder")
    parser.add_argument("directory", metavar="DIR", type=Path, help="the folder an error named")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Replay; an error of the compile is the error of this command."""
    if not args.directory.is_dir():
        raise ValueError(f"{args.directory} is not a folder")
    import torch

    import pydisc
    from pydisc.compiler.replay import load_repro
    from pydisc.support import knobs

    model, arguments, named = load_repro(args.directory)
    compiled = pydisc.compile(model)
    with knobs.scope(on_error="raise"), torch.no_grad():
        compiled(*arguments, **named)
    print(compiled.report())
    print("compiled and ran: the compile does not fail any more")
    return 0
