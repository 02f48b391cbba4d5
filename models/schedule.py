"""What is sent in which round, and when noise enters it.

A `Schedule` says what a run's messages depend on besides data. How they follow from each other is
the update's of its rule, in `rules`; what attackers conclude from them is in `tracking` and
`leakage`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lppa.models.rules import Facts, Update

Name = tuple[Any, ...]
"""What an unknown is called: ("theta", node), ("g", node, t) or ("noise", sender, receiver, t)."""


@dataclass(frozen=True)
class Schedule:
    """What the coefficients depend on. `W[i, j]` is the weight that i gives j.

    States are sent in the rounds 0 to `rounds`, then θ alone in `finish` more. `noisy` says whether
    noise is injected before the states of a round are sent. `step` is the length of a round's whole
    step, K·λ with K local steps; a client's gradient is then the mean over its path, which is one
    unknown as any other. `beta_own` is the scale of the independent noise that clients add besides
    noise that cancels, over β; over itself, so 1, where β is 0 and its noise none (`beta_noise`).
    """

    W: np.ndarray
    rule: Facts
    noisy: Callable[[int], bool]
    step: Callable[[int], float]
    adapt_first: bool
    common_start: bool
    rounds: int
    beta_own: float = 0.0
    finish: int = 0
    beta_noise: bool = True

    @property
    def nodes(self) -> int:
        """How many clients there are."""
        return len(self.W)

    def edges(self) -> list[tuple[int, int]]:
        """Directed edges (sender, receiver)."""
        receivers, senders = np.nonzero(self.W)
        return sorted((int(j), int(i)) for i, j in zip(receivers, senders, strict=True) if i != j)

    @property
    def edge_noise(self) -> bool:
        """Whether there is noise that one end of an edge adds and the other takes away."""
        return self.rule.cancels and self.beta_noise

    @property
    def self_noise(self) -> float:
        """Deviation of what a client adds that nobody takes away, over that of one draw."""
        if self.rule.own_noise:
            return float(self.beta_noise)
        return self.beta_own if self.rule.cancels else 0.0

    @property
    def any_noise(self) -> bool:
        """Whether there is noise at all."""
        return self.edge_noise or self.self_noise > 0

    @property
    def update(self) -> Update:
        """How messages follow from each other."""
        return self.rule.update

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


def with_noise_in_every_round(schedule: Schedule) -> Schedule:
    """The same with noise due in every round."""
    return replace(schedule, noisy=lambda _: True)


def gradient_name(node: int, t: int) -> Name:
    """What gradients are called: g^t is the one that a client's round t has, counted from 0.

    In gradient tracking the state sent in round t was made with it, in dsgd that of round t + 1.
    """
    return ("g", node, t)
