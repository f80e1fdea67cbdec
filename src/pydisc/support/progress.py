"""A progress bar over the stages of a compile, for a person at a terminal."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from tqdm import tqdm

from pydisc.support.knobs import Knobs
from pydisc.support.timing import OnStage


@contextmanager
def stage_bar(title: str, knobs: Knobs) -> Generator[OnStage | None]:
    """Yield a callback for `StageTimer.on_stage` that draws a bar on stderr.

    Yields None, and draws nothing, where stderr is no terminal and knob `progress` is off.
    """
    if not (knobs.progress or sys.stderr.isatty()):
        yield None
        return
    # ASCII, because a terminal without UTF-8 would raise inside the compile.
    bar = tqdm(
        desc=title, unit="stage", file=sys.stderr, ascii=True, leave=True, dynamic_ncols=True
    )

    def on_stage(name: str, index: int, total: int) -> None:
        bar.total = total or None
        bar.n = index
        bar.set_postfix_str(name)

    with bar:
        yield on_stage
        if bar.total:
            bar.n = bar.total
        bar.set_postfix_str("done")
