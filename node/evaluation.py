"""When a model is tested, and the figures of that moment; what becomes of them is not decided."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from lppa.node.examples import Examples
from lppa.node.learner import Learner
from lppa.node.lengths import norm_of
from lppa.node.memory import give_back, proportional_bytes
from lppa.node.neighbours import Neighbours
from lppa.node.noise import Injection
from lppa.node.sketch import Sketch
from lppa.node.state import ClientState
from lppa.node.updates import excess
from lppa.protocol.messages import Metrics
from lppa.protocol.settings import Settings

# Seconds between two looks at one's own memory: each goes through all pages of the process, which
# takes as long as the test of a small model.
MEMORY_EVERY = 5.0


class Evaluation:
    """Decides when a model is tested, and gathers the figures of that moment."""

    def __init__(
        self,
        settings: Settings,
        learner: Learner,
        inject: Injection,
        neighbours: Neighbours,
        sketch: Sketch,
        examples: Examples,
    ) -> None:
        self.due = settings.evaluated
        self.learner = learner
        self.examples = examples
        self.inject = inject
        self.links = neighbours.links
        self.scrutiny = neighbours.scrutiny
        self.clock = neighbours.clock
        self.sketch = sketch
        self.memory: int | None = None
        self.looked = -math.inf

    def notice(self, now: ClientState) -> None:
        """Looks at examples in rounds without a test, where gradients have grown."""
        if self.examples.due:
            with self.clock("eval"):
                found = self.learner.example_rms(now.theta, max(0, now.steps - 1))
                self.examples.look(found)

    def __call__(self, now: ClientState) -> Metrics:
        with self.clock("eval"):
            tested = self.learner.evaluate(now.theta, max(0, now.steps - 1))
            self.examples.look(tested["example_rms"])
            tested["example_rms"] = self.examples.largest
            norms = {
                name: norm_of(now.vectors[name]) if name in now.vectors else None
                for name in ("theta", "gamma", "g")
            }
            # JSON has no NaN: a loss that overflowed is not a number to report.
            values = finite(
                {
                    **tested,
                    "theta_norm": norms["theta"],
                    "gradient_norm": norms["g"],
                    "gamma_norm": norms["gamma"],
                    "noise_norm": self.inject.norm,
                    "noise_to_gradient": self.inject.norm / norms["g"] if norms["g"] else None,
                }
            )
            sums_to_zero = excess(now.vectors)
            nothing = np.zeros(0)
            told = nothing if sums_to_zero is None else self.sketch(sums_to_zero)
            theta = self.sketch(now.theta)
        values["seconds"] = self.clock.split()
        values["bytes"] = {"noise": 0, "state": 0, **self.links.sent}
        values["dropped"] = dict(self.links.dropped)
        give_back()
        if time.monotonic() - self.looked >= MEMORY_EVERY:
            self.memory, self.looked = proportional_bytes(), time.monotonic()
        values["memory"] = self.memory
        values |= self.scrutiny.about()
        return Metrics(now.t, values, theta, told, now.epoch)


def finite(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures, None in the place of those that are no numbers."""
    return {
        name: finite(value)
        if isinstance(value, dict)
        else value
        if value is None or math.isfinite(value)
        else None
        for name, value in figures.items()
    }
