"""`pydisc opt FILE`: run passes over the dump of a stage and print the result."""

import argparse
import sys
from pathlib import Path
from typing import Any


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("opt", help="run passes over a stage dump")
    parser.add_argument("file", metavar="FILE", help="a dumped stage (.mlir), or - for stdin")
    parser.add_argument(
        "-p",
        "--passes",
        default="",
        metavar="NAME,..",
        help="passes or pipelines by name, in this order (default: none, parse and print)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, run the passes, print."""
    text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text(encoding="utf-8")
    from pydisc.compiler.opt import run_text

    passes = tuple(name.strip() for name in args.passes.split(",") if name.strip())
    print(run_text(text, passes), end="")
    return 0
