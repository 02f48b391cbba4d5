"""Where the time goes: seconds by phase, with no clutter at the place that is timed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Stopwatch:
    """Adds up the seconds spent in named phases since it was made.

    `before` is an earlier watch's split, to go on from.
    """

    def __init__(self, before: Mapping[str, float] | None = None) -> None:
        self.seconds = dict(before or {})
        self.started = time.perf_counter() - self.seconds.pop("total", 0.0)
        self.idle = time.process_time() - self.seconds.pop("cpu", 0.0)
        self.seconds.pop("compute", None)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        before = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - before
            self.seconds[phase] = self.seconds.get(phase, 0.0) + spent

    def total(self) -> float:
        """Seconds since the watch was made, and before."""
        return time.perf_counter() - self.started

    def split(self) -> dict[str, float]:
        """Seconds by phase; what is in no phase is computing."""
        total = self.total()
        compute = total - sum(self.seconds.values())
        return {**self.seconds, "compute": compute, "total": total, "cpu": self.cpu()}

    def cpu(self) -> float:
        """Seconds that the processor spent on this process, all its threads together."""
        return time.process_time() - self.idle
