"""Writes docs/performance.md, with a plot a benchmark, from the rows that benchmarks wrote."""

import argparse
import json
import os
import platform
from html import escape
from pathlib import Path
from typing import Any

import torch

COLOURS = {
    "eager": "#9aa0a6",
    "inductor": "#c58af9",
    "onednn": "#fcad70",
    "mkl": "#e8c468",
    "pydisc": "#78d9ec",
    "pydisc_optimize": "#1a73e8",
    "pydisc_torch_compile": "#81c995",
}
Row = dict[str, Any]


def read_rows(files: list[Path]) -> list[Row]:
    """All rows of all files."""
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.strip()]


def unique(values: list[str]) -> list[str]:
    """Without repetitions, first come first."""
    return list(dict.fromkeys(values))


def make_table(rows: list[Row]) -> list[str]:
    """Markdown: a line a case, a column an implementation. All rows are of one metric."""
    impls, cases = unique([r["impl"] for r in rows]), unique([r["case"] for r in rows])
    cells = {(r["case"], r["impl"]): format_cell(r) for r in rows}
    lines = ["| case | " + " | ".join(impls) + " |", "|---|" + "---:|" * len(impls)]
    for case in cases:
        values = [cells.get((case, impl), "") for impl in impls]
        lines.append(f"| {case} | " + " | ".join(values) + " |")
    return lines


def format_cell(row: Row) -> str:
    """One value, marked where the result was wrong, with the reason where there is none."""
    if row["value"] is None:
        return f"({row.get('why', 'no value')})".replace("|", "/")
    return f"{row['value']:.4g}" + (" **wrong**" if row.get("ok") is False else "")


def make_plot(rows: list[Row], title: str) -> str:
    """An SVG of speed relative to eager, a group of bars a case; longer is faster."""
    rows = [r for r in rows if r.get("vs_eager")]
    impls, cases = unique([r["impl"] for r in rows]), unique([r["case"] for r in rows])
    speed = {(r["case"], r["impl"]): r["vs_eager"] for r in rows}
    scale = 520 / max(speed.values())
    bar, gap, left, top = 11, 10, 120, 46
    parts: list[str] = []
    for i, impl in enumerate(impls):
        x = left + i * 150
        parts.append(f'<rect x="{x}" y="26" width="10" height="10" fill="{colour(impl)}"/>')
        parts.append(f'<text x="{x + 14}" y="35">{escape(impl)}</text>')
    y = top
    for case in cases:
        parts.append(f'<text x="{left - 8}" y="{y + 9}" text-anchor="end">{escape(case)}</text>')
        for impl in impls:
            value = speed.get((case, impl), 0.0)
            width = f"{value * scale:.1f}"
            parts.append(
                f'<rect x="{left}" y="{y}" width="{width}" height="{bar - 1}" '
                f'fill="{colour(impl)}"/><text x="{left + value * scale + 4:.1f}" y="{y + 9}">'
                f"{value:.2f}</text>"
            )
            y += bar
        y += gap
    x = left + scale
    parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{y}" stroke="#666"/>')
    width = max(left + 600, left + 150 * len(impls))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 10}" '
        'font-family="sans-serif" font-size="10">'
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="{left}" y="16" font-size="12">{escape(title)}</text>'
        + "".join(parts)
        + "</svg>\n"
    )


def colour(impl: str) -> str:
    """The fixed colour of an implementation."""
    return COLOURS.get(impl, "#444444")


def processor() -> str:
    """The model name of the CPU."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def write_report(rows: list[Row], out: Path) -> None:
    """The page, and its plots beside it."""
    lines = [
        "# Performance",
        "",
        "Made by `make bench-cpu`. Medians; all implementations run in turns in one process, and",
        "each result is compared with eager first.",
        "",
        f"Machine: {processor()}, {os.cpu_count()} cores. torch {torch.__version__}.",
    ]
    for bench in unique([r["bench"] for r in rows]):
        own = [r for r in rows if r["bench"] == bench]
        lines += ["", f"## {bench}"]
        if any(r.get("vs_eager") for r in own):
            plot = out.parent / "plots" / f"{bench}.svg"
            plot.parent.mkdir(parents=True, exist_ok=True)
            title = f"{bench}: speed relative to eager (longer is faster)"
            plot.write_text(make_plot(own, title), encoding="utf-8")
            lines += ["", f"![speed relative to eager](plots/{bench}.svg)"]
        for metric in unique([r["metric"] for r in own]):
            chosen = [r for r in own if r["metric"] == metric]
            lines += ["", f"### {metric} ({chosen[0]['unit']})", "", *make_table(chosen)]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Parse and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", type=Path, metavar="FILE", help="rows, a JSON a line")
    parser.add_argument("--out", type=Path, required=True, metavar="PAGE.md")
    args = parser.parse_args()
    write_report(read_rows(args.rows), args.out)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
