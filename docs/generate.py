"""Writes the pages of docs/ that are made from code."""

import inspect
from pathlib import Path

from pydisc.compiler.pipelines import PASSES, PIPELINES
from pydisc.support import knobs

HERE = Path(__file__).parent


def knobs_page() -> str:
    """docs/knobs.md: every switch, from `support/knobs.py`."""
    lines = [
        "# Knobs",
        "",
        "Made from `src/pydisc/support/knobs.py` by `make docs`; do not edit.",
        "",
        "Set one for a process by its environment variable, or for a block of code:",
        "",
        "```python",
        "from pydisc.support import knobs",
        "",
        'with knobs.scope(dump="out", verify=2):',
        "    compiled(x)",
        "```",
        "",
        "| variable | type | default | what it does | part of the cache key |",
        "|---|---|---|---|---|",
    ]
    for knob in knobs.table():
        key = "yes" if knob.in_cache_key else "no"
        lines.append(f"| `{knob.env}` | {knob.type} | `{knob.default!r}` | {knob.help} | {key} |")
    return "\n".join(lines) + "\n"


def passes_page() -> str:
    """docs/passes.md: pipelines, and each pass with its docstring."""
    lines = [
        "# Passes",
        "",
        "Made from the docstrings of the passes by `make docs`; do not edit.",
        "",
        "Run any over a dumped stage: `pydisc opt stage.mlir --passes=NAME,..`",
        "",
        "| pipeline | passes, in order |",
        "|---|---|",
    ]
    for name, passes in PIPELINES.items():
        lines.append(f"| `{name}` | {', '.join(p.name for p in passes)} |")
    for name, one in PASSES.items():
        lines += ["", f"## {name}", "", "```", inspect.getdoc(one) or "", "```"]
    return "\n".join(lines) + "\n"


PAGES = {"knobs.md": knobs_page, "passes.md": passes_page}


def main() -> None:
    """Write all pages."""
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
        print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
