"""Where the time goes: seconds by phase, with no clutter at the place that is timed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType


class Stopwatch:
    """Adds up the seconds spent in named phases since it was made.

    `before` is an earlier watch's split, to go on from.
    """

    def __init__(self, before: Mapping[str, float] | None = None) -> None:
        self.seconds = dict(before or {})
        self.started = time.perf_counter() - self.seconds.pop("total", 0.0)
        self.idle = time.process_time() - self.seconds.pop("cpu", 0.0)
        self.seconds.pop("compute", None)

    def __call__(self, phase: str) -> Phase:
        """Times what is done in a `with` block."""
        return Phase(self.seconds, phase)

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


class Phase:
    """One stretch of time; a class, since entering a generator takes longer than what it times."""

    __slots__ = ("began", "name", "seconds")

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds = seconds
        self.name = name

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        spent = time.perf_counter() - self.began
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + spent
