"""The page docs/op_coverage.md, and the same totals as text."""

from collections import Counter
from collections.abc import Sequence

import torch

from conformance.outcome import BAD, STATUSES, OpResult

_HEAD = """# Operator coverage

Every operator of PyTorch's test database (`op_db`, torch {version}) on the CPU, compared with eager
by `python -m conformance.opinfo`: {scope}.
An operator has the worst status of its samples; numbers are operators and, in parentheses, samples.

"""


def totals(results: Sequence[OpResult]) -> str:
    """Operators and samples by status, a column a dtype."""
    dtypes = list(dict.fromkeys(r.dtype for r in results))
    lines = [
        f"| status | {' | '.join(dtypes)} | meaning |",
        "|---|" + "---:|" * len(dtypes) + "---|",
    ]
    for status, meaning in STATUSES.items():
        cells = []
        for dtype in dtypes:
            of = [r for r in results if r.dtype == dtype]
            ops = sum(r.status == status for r in of)
            cells.append(f"{ops} ({sum(r.counts[status] for r in of)})")
        lines.append(f"| {status} | {' | '.join(cells)} | {meaning} |")
    cells = []
    for dtype in dtypes:
        of = [r for r in results if r.dtype == dtype]
        cells.append(f"{len(of)} ({sum(len(r.outcomes) for r in of)})")
    lines.append(f"| all | {' | '.join(cells)} | |")
    notes = Counter(note for r in results for o in r.outcomes for note in o.notes)
    lines += [
        "",
        f"Samples that another trace of their structure did not fit: {notes['retrace']}. "
        f"Samples with other strides than eager's: {notes['strides']}.",
    ]
    return "\n".join(lines)


def reasons(results: Sequence[OpResult], limit: int = 25) -> str:
    """Why not our code alone: the most common reasons, by number of operators."""
    counts: Counter[str] = Counter()
    for result in results:
        wanted = {o.reason for o in result.outcomes if o.status in ("part", "extern", "fallback")}
        counts.update({general(reason) for reason in wanted})
    return "\n".join(f"{n:5} {reason}" for reason, n in counts.most_common(limit))


def general(reason: str) -> str:
    """A reason without the operator's name."""
    what, colon, why = reason.partition(": ")
    return why if colon and what.startswith(("aten.", "prims.")) else reason


def failures(results: Sequence[OpResult]) -> str:
    """Every sample that is wrong, hangs or crashes."""
    lines = []
    for result in results:
        for o in result.outcomes:
            if o.status in BAD:
                name = f"{result.op} {result.dtype} #{o.sample}"
                lines.append(f"{o.status} {name} ({o.inputs}): {o.reason}")
        if result.error:
            lines.append(f"left out: {result.op} {result.dtype}: {result.error}")
    return "\n".join(lines)


def page(results: Sequence[OpResult], scope: str) -> str:
    """The whole page."""
    by_op: dict[str, dict[str, OpResult]] = {}
    for result in results:
        by_op.setdefault(result.op, {})[result.dtype] = result
    dtypes = list(dict.fromkeys(r.dtype for r in results))
    lines = [
        _HEAD.format(version=torch.__version__, scope=scope) + totals(results),
        "",
        f"| operator | {' | '.join(dtypes)} | why |",
        "|---|" + "---|" * (len(dtypes) + 1),
    ]
    for op in sorted(by_op):
        found = by_op[op]
        cells = [_cell(found.get(d)) for d in dtypes]
        lines.append(f"| `{op}` | {' | '.join(cells)} | {_why(list(found.values()))} |")
    return "\n".join(lines) + "\n"


def _cell(result: OpResult | None) -> str:
    if result is None or not result.outcomes:
        return ""
    same = result.counts[result.status]
    whole = len(result.outcomes)
    return result.status if same == whole else f"{result.status} ({same}/{whole})"


def _why(results: list[OpResult]) -> str:
    """The reason of the first dtype that is not native throughout."""
    for result in results:
        if result.status not in ("native", "refused"):
            return result.reason.replace("|", "\\|").replace("<", "&lt;")[:160]
    return ""
