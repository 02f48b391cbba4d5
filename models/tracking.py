"""Algorithm 1 as linear algebra: every message as a combination of what nobody tells.

Coordinate by coordinate, all that clients send is a fixed linear combination of the clients' first
models, their gradients and the noise. The coefficients follow from topology, W, λ and the rule
alone, so they say before any training what an attacker can solve for, and afterwards how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXACT = 1e-9  # noise coefficients below this are none


@dataclass(frozen=True)
class Schedule:
    """What the coefficients depend on. `W[i, j]` is the weight that i gives j."""

    W: np.ndarray
    rule: str
    noise_every: int
    adapt_first: bool
    common_start: bool
    lam: float
    rounds: int

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


@dataclass(frozen=True)
class Rows:
    """The messages of all clients as rows over the unknowns: theta[t, i] and gamma[t, i]."""

    theta: np.ndarray
    gamma: np.ndarray
    columns: dict[tuple, int]

    @property
    def noise_columns(self) -> np.ndarray:
        """Which unknowns are noise."""
        return np.array([name[0] == "noise" for name in self.columns])

    def gradient(self, node: int, t: int) -> np.ndarray:
        """The row of g_node^t."""
        row = np.zeros(len(self.columns))
        row[self.columns["g", node, t]] = 1.0
        return row


def messages(schedule: Schedule) -> Rows:
    """The rows of everything that is sent in rounds 0 to `rounds`."""
    n, T, edges = schedule.nodes, schedule.rounds, schedule.edges()
    names: dict[tuple, int] = {}

    def column(*name: object) -> int:
        return names.setdefault(name, len(names))

    for i in range(n):
        column("theta", 0 if schedule.common_start else i)
        for t in range(T + 1):
            column("g", i, t)
    for t in range(T + 1):
        if schedule.noisy(t) and schedule.rule == "dp":
            for i in range(n):
                column("noise", i, i, t)
        elif schedule.noisy(t) and schedule.rule == "lppa":
            for sender, receiver in edges:
                column("noise", sender, receiver, t)
    theta = np.zeros((T + 1, n, len(names)))
    gamma = np.zeros((T + 1, n, len(names)))
    for i in range(n):
        theta[0, i, names["theta", 0 if schedule.common_start else i]] = 1.0
        gamma[0, i, names["g", i, 0]] = 1.0
    for t in range(T + 1):
        for name, place in names.items():
            if name[0] == "noise" and name[3] == t:
                _, sender, receiver, _ = name
                gamma[t, sender, place] += 1.0
                if receiver != sender:
                    gamma[t, receiver, place] -= 1.0
        if t == T:
            break
        mixed = schedule.W @ gamma[t]
        step = mixed if schedule.adapt_first else gamma[t]
        theta[t + 1] = schedule.W @ theta[t] - schedule.lam * step
        gamma[t + 1] = mixed
        for i in range(n):
            gamma[t + 1, i, names["g", i, t + 1]] += 1.0
            gamma[t + 1, i, names["g", i, t]] -= 1.0
    return Rows(theta, gamma, names)


@dataclass(frozen=True)
class Known:
    """What attackers know: rows, and what each row is, so that values can be filled in."""

    rows: np.ndarray
    names: tuple[tuple, ...]


def known_rows(
    schedule: Schedule, rows: Rows, attackers: Sequence[int], own_gradients: bool = True
) -> Known:
    """All that attackers receive or own: states, their own gradients, noise on their own edges."""
    spies = set(attackers)
    heard = spies | {s for s, r in schedule.edges() if r in spies}
    found, names = [], []
    for t in range(schedule.rounds + 1):
        for i in sorted(heard):
            found += [rows.theta[t, i], rows.gamma[t, i]]
            names += [("theta", i, t), ("gamma", i, t)]
    for name, place in rows.columns.items():
        own_gradient = own_gradients and name[0] == "g" and name[1] in spies
        own_noise = name[0] == "noise" and (name[1] in spies or name[2] in spies)
        if own_gradient or own_noise:
            unit = np.zeros(len(rows.columns))
            unit[place] = 1.0
            found.append(unit)
            names.append(name)
    return Known(np.array(found), tuple(names))


@dataclass(frozen=True)
class Estimate:
    """The best linear estimate of a target: what to multiply what is known with, and its noise.

    `deviation` is in units of one noise draw's own standard deviation; 0 means exact.
    """

    coefficients: np.ndarray
    deviation: float


def best_estimate(known: Known, rows: Rows, target: np.ndarray) -> Estimate | None:
    """The unbiased linear estimate with the least noise; None where there is none."""
    noise = rows.noise_columns
    fixed, random = known.rows[:, ~noise], known.rows[:, noise]
    # All coefficients that leave the target and nothing else: one solution, plus a null space.
    particular, *_ = np.linalg.lstsq(fixed.T, target[~noise], rcond=None)
    scale = max(1.0, float(np.abs(target).max()))
    if np.abs(fixed.T @ particular - target[~noise]).max() > 1e-8 * scale:
        return None
    u, s, _ = np.linalg.svd(fixed, full_matrices=True)
    rank = int((s > s[0] * 1e-10).sum())
    free = u[:, rank:]
    wanted = target[noise]
    shift, *_ = np.linalg.lstsq((free.T @ random).T, wanted - particular @ random, rcond=1e-10)
    coefficients = particular + free @ shift
    deviation = float(np.linalg.norm(coefficients @ random - wanted))
    return Estimate(coefficients, 0.0 if deviation < EXACT else deviation)
