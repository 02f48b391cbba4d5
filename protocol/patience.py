"""How long somebody has been waited for, by whoever waits: time in which it was away itself does
not count.

A process that was stopped, or got no processor for long, finds a deadline behind it and messages
before it. Knows clocks alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_LOOK = 2.0  # seconds between two looks, at most, by a process that is not held up


class Patience:
    """A number of seconds that are used up between looks; `renew` gives all of them back."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.clock = clock
        self.waited = 0.0
        self._looked = clock()

    def look(self) -> float:
        """What is left, at most 0 when all is used up."""
        now = self.clock()
        self.waited += min(now - self._looked, LONGEST_LOOK)
        self._looked = now
        return self.seconds - self.waited

    def renew(self) -> None:
        """Somebody was heard."""
        self.waited, self._looked = 0.0, self.clock()
