"""What is sent in which round, and how it follows from what was sent before.

A `Schedule` says what a run's messages depend on besides data. An update is one small object that
goes through the rounds as a client does, over whatever stands for a vector: `tracking` puts dense
rows in, `leakage` what attackers do not know yet. What follows from the messages is said there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Name = tuple[Any, ...]
"""What an unknown is called: ("theta", node), ("g", node, t) or ("noise", sender, receiver, t)."""


@dataclass(frozen=True)
class Schedule:
    """What the coefficients depend on. `W[i, j]` is the weight that i gives j.

    States are sent in the rounds 0 to `rounds`, then θ alone in `finish` more. `lam` is the length
    of a round's whole step, K·λ with K local steps; a client's gradient is then the mean over its
    path, which is one unknown as any other. `beta_own` is the scale of the independent noise that
    lppa and dsgd clients add, over that of the noise on edges; over itself, so 1, where dsgd has
    no noise on edges (`edges_noisy`).
    """

    W: np.ndarray
    rule: str
    noise_every: int
    adapt_first: bool
    common_start: bool
    lam: float
    rounds: int
    beta_own: float = 0.0
    lam_decay: float = 0.0
    finish: int = 0
    edges_noisy: bool = True

    @property
    def nodes(self) -> int:
        """How many clients there are."""
        return len(self.W)

    def edges(self) -> list[tuple[int, int]]:
        """Directed edges (sender, receiver)."""
        receivers, senders = np.nonzero(self.W)
        return sorted((int(j), int(i)) for i, j in zip(receivers, senders, strict=True) if i != j)

    def noisy(self, t: int) -> bool:
        """Whether noise is injected before the states of round t are sent."""
        return t == 0 or (self.noise_every > 0 and t % self.noise_every == 0)

    def step(self, t: int) -> float:
        """The length of round t's step."""
        return self.lam / (1.0 + self.lam_decay * t)

    @property
    def edge_noise(self) -> bool:
        """Whether there is noise that one end of an edge adds and the other takes away."""
        return self.rule in ("lppa", "dsgd") and self.edges_noisy

    @property
    def self_noise(self) -> float:
        """Deviation of what a client adds that nobody takes away, over that of one draw."""
        return {"dp": 1.0, "lppa": self.beta_own, "dsgd": self.beta_own}.get(self.rule, 0.0)

    @property
    def any_noise(self) -> bool:
        """Whether there is noise at all."""
        return self.edge_noise or self.self_noise > 0

    @property
    def update(self) -> Update:
        """How messages follow from each other; an unknown rule is taken to track gradients."""
        return UPDATES.get(self.rule, _TRACKING)

    @property
    def noise_rounds(self) -> list[int]:
        """The rounds in which noise enters."""
        due = self.update.may_have_noise(self) if self.any_noise else ()
        return [t for t in due if self.noisy(t)]


def noise_in_every_round(schedule: Schedule) -> bool:
    """Whether every message that brings a new gradient had fresh noise added to it."""
    return schedule.any_noise and all(
        map(schedule.noisy, schedule.update.bring_gradients(schedule))
    )


def gradient_name(node: int, t: int) -> Name:
    """What gradients are called: g^t is the one that a client's round t has, counted from 0.

    In gradient tracking the state sent in round t was made with it, in dsgd that of round t + 1.
    """
    return ("g", node, t)


# --- how messages follow from each other --------------------------------------------------------


class Algebra(Protocol):
    """What stands for the clients' vectors: one array whose first axis is the clients."""

    def zeros(self) -> np.ndarray:
        """Vectors that depend on nothing."""

    def add(self, rows: np.ndarray, coefficient: float, kind: str, *when: int) -> None:
        """Adds to each client's vector its own unknown: "theta", or "g" of a round t."""

    def add_noise(self, rows: np.ndarray, t: int) -> None:
        """Adds round t's noise, if there is any."""

    def send(self, t: int, *vectors: np.ndarray) -> tuple[np.ndarray, ...]:
        """Sends θ, or θ and γ; returns what clients go on with."""

    def mix(self, rows: np.ndarray) -> np.ndarray:
        """W @ rows."""

    def step(self, t: int) -> float:
        """The length of round t's step, in the unit that θ is counted in."""


class Update(Protocol):
    """How messages follow from each other.

    `tells_changes` says that what a message brings of a gradient is its change from the one before,
    and not the gradient by itself.
    """

    tells_changes: bool

    def run(self, schedule: Schedule, over: Algebra) -> None:
        """Goes through all rounds, and sends what is sent."""

    def gradients(self, schedule: Schedule) -> range:
        """The t of all gradients that are in a message."""

    def bring_gradients(self, schedule: Schedule) -> range:
        """The rounds whose messages are the first to have another gradient in them."""

    def may_have_noise(self, schedule: Schedule) -> range:
        """The rounds in which noise enters if it is due."""

    def weight(self, schedule: Schedule, t: int) -> float:
        """What g^t is multiplied with where noise is added to it."""


class GradientTracking:
    """Algorithm 1 of the paper: noise enters γ, which follows the mean gradient."""

    tells_changes = True

    def run(self, schedule: Schedule, over: Algebra) -> None:
        theta, gamma = over.zeros(), over.zeros()
        over.add(theta, 1.0, "theta")
        over.add(gamma, 1.0, "g", 0)
        for t in range(schedule.rounds + 1):
            over.add_noise(gamma, t)
            theta, gamma = over.send(t, theta, gamma)
            mixed = over.mix(gamma)
            theta = over.mix(theta) - over.step(t) * (mixed if schedule.adapt_first else gamma)
            gamma = mixed
            if t < schedule.rounds:
                over.add(gamma, 1.0, "g", t + 1)
                over.add(gamma, -1.0, "g", t)
        for t in range(schedule.rounds + 1, schedule.rounds + 1 + schedule.finish):
            (theta,) = over.send(t, theta)
            theta = over.mix(theta)

    def gradients(self, schedule: Schedule) -> range:
        return range(schedule.rounds + 1)

    def bring_gradients(self, schedule: Schedule) -> range:
        return range(schedule.rounds + 1)

    def may_have_noise(self, schedule: Schedule) -> range:
        return range(schedule.rounds + 1)

    def weight(self, schedule: Schedule, t: int) -> float:
        return 1.0


class NoisyDsgd:
    """D-SGD with noise in the θ that is sent: no γ, and a gradient shows in the next round's θ."""

    tells_changes = False

    def run(self, schedule: Schedule, over: Algebra) -> None:
        theta = over.zeros()
        over.add(theta, 1.0, "theta")
        for t in range(schedule.rounds + 1):
            over.add_noise(theta, t)
            (theta,) = over.send(t, theta)
            # Where on the way the gradient is taken makes no difference here: it is an unknown.
            theta = over.mix(theta)
            over.add(theta, -over.step(t), "g", t)
        for t in range(schedule.rounds + 1, schedule.rounds + 1 + schedule.finish):
            # The first finishing round sends the last gradient, and so has noise if it is due.
            if t == schedule.rounds + 1:
                over.add_noise(theta, t)
            (theta,) = over.send(t, theta)
            theta = over.mix(theta)

    def gradients(self, schedule: Schedule) -> range:
        return range(schedule.rounds + (schedule.finish > 0))

    def bring_gradients(self, schedule: Schedule) -> range:
        return range(1, len(self.gradients(schedule)) + 1)

    def may_have_noise(self, schedule: Schedule) -> range:
        return range(len(self.gradients(schedule)) + 1)

    def weight(self, schedule: Schedule, t: int) -> float:
        return schedule.step(t)


_TRACKING = GradientTracking()
UPDATES: dict[str, Update] = {
    "dsgt": _TRACKING,
    "dp": _TRACKING,
    "lppa": _TRACKING,
    "dsgd": NoisyDsgd(),
}
