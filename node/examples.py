"""How large the examples are that a client's gradients tell of: the largest of any round.

What noise has to hide is decided by it, however seldom models are tested. Few examples are looked
at, where gradients have grown; of all others the mean over their batch tells how large one of them
is at least, on the private path too. What follows for a grade is the audit's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lppa.node.learner import Learner

# Examples are looked at again where a gradient is so much longer than wherever they were.
GROWN = 1.5
BEYOND = 1e300  # what is beyond all numbers counts as so large: JSON has no infinity


@dataclass(frozen=True)
class Sizes:
    """What is known of examples: the largest, and the longest gradient, now and at the last look.

    None of them where there are no examples.
    """

    largest: float | None = None
    longest: float = 0.0
    looked_at: float = 0.0


NOTHING = Sizes()


class Examples:
    """The largest example so far, `since` being what was known after an earlier part of the run.

    It is told when it has grown, so that it is known of a run that is broken off too.
    """

    def __init__(self, learner: Learner, since: Sizes = NOTHING) -> None:
        self.learner = learner
        self.largest = since.largest
        self.before = since.longest
        self.looked_at = since.looked_at
        self.told = 0.0

    @property
    def longest(self) -> float:
        """The longest gradient of all."""
        return max(self.before, self.learner.longest)

    @property
    def sizes(self) -> Sizes:
        """What is known by now."""
        return Sizes(self.largest, self.longest, self.looked_at)

    @property
    def due(self) -> bool:
        """Whether gradients have grown since examples were looked at."""
        return self.longest > GROWN * self.looked_at

    def look(self, found: float | None) -> None:
        """Takes in what was found where the model is now, and what gradients themselves tell."""
        self.looked_at = self.longest
        if found is None:
            return
        for size in (found, self.longest):
            known = min(size, BEYOND) if not math.isnan(size) else BEYOND
            self.largest = max(self.largest or 0.0, known)

    @property
    def grown(self) -> bool:
        """Whether it is worth telling at once."""
        return (self.largest or 0.0) > GROWN * self.told

    def tell(self) -> tuple[float, ...]:
        """What is told of it."""
        self.told = self.largest or 0.0
        return () if self.largest is None else (self.largest,)
