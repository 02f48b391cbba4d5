"""Solves for what no single message tells, with the coefficients that linear algebra finds.

What the coefficients are is `models.tracking`'s matter; here they meet what was recorded.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from torch import Tensor

from lppa.attack.knowledge import Knowledge
from lppa.models.schedule import Name, Schedule
from lppa.models.tracking import best_estimate, known_rows, messages
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import decayed

FURTHER = 3  # rounds after the one that is attacked


def last_whole_round(known: Knowledge, t: int) -> int:
    """The last of the rounds that may help in which all are heard whom one hears in round t.

    A log may end within a round, and so does a graph that changes: some are ahead of others.
    """
    heard, last = set(known.heard(t)), t
    while last < t + FURTHER and heard <= set(known.heard(last + 1)):
        last += 1
    # What the victim sent after round t was heard, or it would not be solved for.
    return max(last, t + 1)


class Solver:
    """All that attackers heard up to some rounds after t, as rows over what nobody tells."""

    def __init__(self, known: Knowledge, t: int) -> None:
        settings = known.settings
        if known.W is None:
            raise WrongUse("`two-hop` needs W")
        self.known, self.W = known, known.W
        self.beta = max(settings.scale, 1e-6 * settings.beta_own)  # the unit of all deviations
        until = last_whole_round(known, t)
        rounds = min(until, settings.rounds - 1)
        schedule = Schedule(
            W=known.W,
            rule=known.rule,
            noisy=settings.noisy,
            step=partial(decayed, known.steps * settings.lr, settings.lr_decay),
            adapt_first=settings.mixing == "adapt-then-combine",
            common_start=settings.init == "common",
            rounds=rounds,
            beta_own=settings.beta_own / self.beta if self.beta else 0.0,
            # Where θ alone is sent anyway, rounds that finish are as good as others.
            finish=until - rounds if known.rule.update.sends == ("theta",) else 0,
        )
        self.rows = messages(schedule)
        # Own gradients are left out: they follow from the rest, and are in no message.
        self.have = known_rows(schedule, self.rows, sorted(known.attackers), own_gradients=False)

    def estimate(self, wanted: np.ndarray, victim: int) -> tuple[Tensor, float]:
        """What the row stands for, in double precision, and the deviation of the noise in it."""
        found = best_estimate(self.have, self.rows, wanted)
        if found is None:
            raise WrongUse(
                f"what the attackers hear does not determine the gradient of node {victim}"
            )
        pairs = zip(found.coefficients, self.have.names, strict=True)
        vector = sum(c * self._value(name).double() for c, name in pairs if abs(c) > 1e-12)
        return vector, found.deviation * math.sqrt(2.0) * self.beta

    def _value(self, name: Name) -> Tensor:
        if name[0] == "noise":
            delta = self.known.delta(*name[1:])
            if delta is None:
                raise WrongUse(f"the noise from node {name[1]} to node {name[2]} was not recorded")
            return delta
        return self.known.vector(name[1], name[2], name[0])
