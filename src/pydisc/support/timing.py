"""How long each stage of a compile takes."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

OnStage = Callable[[str, int, int], None]
"""Told (name, index, total) when a stage begins; `total` is 0 where it is not known."""


class StageTimer:
    """Adds up wall-clock seconds by stage name, in the order in which stages first ran.

    >>> timer = StageTimer(total=1)
    >>> with timer.stage("trace"):
    ...     pass
    >>> list(timer.seconds)
    ['trace']
    """

    def __init__(self, total: int = 0, on_stage: OnStage | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.total = total
        self.on_stage = on_stage
        self._begun = 0

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Time the block under this name; a name used again is added to."""
        if self.on_stage is not None:
            self.on_stage(name, self._begun, self.total)
        self._begun += 1
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
