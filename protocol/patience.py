"""How long somebody has been waited for, by whoever waits: time in which it was away itself does
not count.

A process that was stopped, or got no processor for long, finds a deadline behind it and messages
before it. `Patience` is for one wait, `OwnTime` for whoever has many under way. Knows clocks alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_LOOK = 2.0  # seconds between two looks, at most, by a process that is not held up


class Patience:
    """A number of seconds that are used up between looks; `renew` gives all of them back.

    Between two looks it was away for whatever is more than `longest`.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        longest: float = LONGEST_LOOK,
    ) -> None:
        self.seconds = seconds
        self.clock = clock
        self.longest = longest
        self.waited = 0.0
        self._looked = clock()

    def look(self) -> float:
        """What is left, at most 0 when all is used up."""
        now = self.clock()
        self.waited += min(now - self._looked, self.longest)
        self._looked = now
        return self.seconds - self.waited

    def pause(self) -> None:
        """The time since the last look does not count."""
        self._looked = self.clock()

    def renew(self) -> None:
        """Somebody was heard."""
        self.waited, self._looked = 0.0, self.clock()


class OwnTime:
    """A clock that goes on by at most `longest` seconds from one look at it to the next.

    `missed` is all that went by without counting, `held_up` the longest time between two looks.
    """

    def __init__(self, longest: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.longest = longest
        self.clock = clock
        self.missed = self.held_up = 0.0
        self._looked = self._now = clock()

    def __call__(self) -> float:
        """Seconds since some moment."""
        now = self.clock()
        passed, self._looked = now - self._looked, now
        counts = min(passed, self.longest)
        self._now += counts
        self.missed += passed - counts
        self.held_up = max(self.held_up, passed)
        return self._now
