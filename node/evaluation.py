"""When a model is tested, and the figures of that moment; what becomes of them is not decided."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from lppa.node.learner import Learner, norm_of
from lppa.node.memory import give_back, proportional_bytes
from lppa.node.neighbours import Neighbours
from lppa.node.noise import Injection
from lppa.node.robust import length
from lppa.node.sketch import Sketch
from lppa.node.state import ClientState
from lppa.node.updates import excess
from lppa.protocol.messages import Metrics
from lppa.protocol.settings import Settings

# Seconds between two looks at one's own memory: each goes through all pages of the process, which
# takes as long as the test of a small model.
MEMORY_EVERY = 5.0
# Examples are measured again where the gradient is so much longer than wherever they were.
GROWN = 1.5


class Evaluation:
    """Decides when a model is tested, and gathers the figures of that moment."""

    def __init__(
        self,
        settings: Settings,
        learner: Learner,
        inject: Injection,
        neighbours: Neighbours,
        sketch: Sketch,
    ) -> None:
        self.due = settings.evaluated
        self.learner = learner
        self.inject = inject
        self.links = neighbours.links
        self.scrutiny = neighbours.scrutiny
        self.clock = neighbours.clock
        self.sketch = sketch
        self.memory: int | None = None
        self.looked = -math.inf
        # The longest gradient of which examples were measured, and the largest example.
        self.longest = 0.0
        self.largest = 0.0

    def notice(self, now: ClientState) -> None:
        """Measures examples in rounds without a test, where gradients have grown.

        What has to be hidden is the largest example of any round, however seldom models are tested.
        """
        g = now.vectors.get("g")
        if g is None or (size := length(g)) <= GROWN * self.longest:
            return
        self.longest = size
        found = self.learner.example_rms(now.theta, max(0, now.steps - 1))
        if found is not None and math.isfinite(found):
            self.largest = max(self.largest, found)

    def __call__(self, now: ClientState) -> Metrics:
        with self.clock("eval"):
            tested = self.learner.evaluate(now.theta, max(0, now.steps - 1))
            if tested["example_rms"] is not None:
                tested["example_rms"] = max(tested["example_rms"], self.largest)
            norms = {
                name: norm_of(now.vectors[name]) if name in now.vectors else None
                for name in ("theta", "gamma", "g")
            }
            values = {
                # JSON has no NaN: a loss that overflowed is not a number to report.
                **finite(tested),
                "theta_norm": norms["theta"],
                "gradient_norm": norms["g"],
                "gamma_norm": norms["gamma"],
                "noise_norm": self.inject.norm,
                "noise_to_gradient": self.inject.norm / norms["g"] if norms["g"] else None,
            }
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
