"""Parses the command line and hands over to one command."""

import argparse
import sys
from collections.abc import Sequence

from pydisc.cli import demo, explain, opt, replay
from pydisc.support.errors import PydiscError

_COMMANDS = (opt, explain, replay, demo)


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(prog="pydisc", description="A dynamic-shape compiler.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_to(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; what pydisc refuses is printed as one message, without a traceback."""
    args = make_parser().parse_args(argv)
    try:
        return args.run(args)
    except (PydiscError, ValueError, OSError) as error:
        print(f"pydisc: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
