"""Algorithm 1 as linear algebra: every message as a combination of what nobody tells.

Coordinate by coordinate, all that clients send is a fixed linear combination of the clients' first
models, their gradients and the noise. The coefficients follow from topology, W, λ and the rule
alone, so they say before any training what an attacker can solve for, and afterwards how.
Everything is written out densely here, and `best_estimate` gives an attack its coefficients;
`leakage` says the same of whole networks without the coefficients, and much faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

EXACT = 1e-9  # noise coefficients below this are none
RANK = 1e-10  # singular values below this are none, all rows having length 1


@dataclass(frozen=True)
class Schedule:
    """What the coefficients depend on. `W[i, j]` is the weight that i gives j.

    States are sent in the rounds 0 to `rounds`, then θ alone in `finish` more. `lam` is the length
    of a round's whole step, K·λ with K local steps; a client's gradient is then the mean over its
    path, which is one unknown as any other. `beta_own` is the scale of the independent noise that
    lppa clients add, over that of the noise on edges.
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
    def self_noise(self) -> float:
        """Deviation of what a client adds that nobody takes away, over that of one draw."""
        return {"dp": 1.0, "lppa": self.beta_own}.get(self.rule, 0.0)


def noise_in_every_round(schedule: Schedule) -> bool:
    """Whether every state that is overheard had fresh noise added to it."""
    noisy = schedule.rule == "lppa" or schedule.self_noise > 0
    return noisy and all(schedule.noisy(t) for t in range(schedule.rounds + 1))


def gradient_name(node: int, t: int) -> tuple:
    """What gradients are called: g^t is the one that the state sent in round t was made with."""
    return ("g", node, t)


@dataclass(frozen=True)
class Rows:
    """The messages of all clients as rows over the unknowns: theta[t, i] and gamma[t, i].

    In finishing rounds there is no gamma. `deviations` has one number per unknown: of noise its
    standard deviation, in units of that of a draw for an edge; of everything else 0, since nothing
    is assumed about it.
    """

    theta: np.ndarray
    gamma: np.ndarray
    columns: dict[tuple, int]
    deviations: np.ndarray

    @property
    def noise_columns(self) -> np.ndarray:
        """Which unknowns are noise."""
        return np.array([name[0] == "noise" for name in self.columns])

    def gradient(self, node: int, t: int) -> np.ndarray:
        """The row of g_node^t."""
        return self.combination([(1.0, gradient_name(node, t))])

    def combination(self, terms: Iterable[tuple[float, tuple]]) -> np.ndarray:
        """The row of a sum of unknowns, each with its coefficient and its name."""
        row = np.zeros(len(self.columns))
        for coefficient, name in terms:
            row[self.columns[name]] += coefficient
        return row


def messages(schedule: Schedule) -> Rows:
    """The rows of everything that is sent in rounds 0 to `rounds`, and in finishing rounds."""
    n, T = schedule.nodes, schedule.rounds
    names = _unknowns(schedule)
    theta = np.zeros((T + 1 + schedule.finish, n, len(names)))
    gamma = np.zeros((T + 1, n, len(names)))
    for i in range(n):
        theta[0, i, names["theta", 0 if schedule.common_start else i]] = 1.0
        gamma[0, i, names[gradient_name(i, 0)]] = 1.0
    for t in range(T + 1):
        for name, place in names.items():
            if name[0] == "noise" and name[3] == t:
                _, sender, receiver, _ = name
                gamma[t, sender, place] += 1.0
                if receiver != sender:
                    gamma[t, receiver, place] -= 1.0
        mixed, lam = schedule.W @ gamma[t], schedule.step(t)
        if t < T or schedule.finish:
            theta[t + 1] = schedule.W @ theta[t]
            theta[t + 1] -= lam * (mixed if schedule.adapt_first else gamma[t])
        if t == T:
            break
        gamma[t + 1] = mixed
        for i in range(n):
            gamma[t + 1, i, names[gradient_name(i, t + 1)]] += 1.0
            gamma[t + 1, i, names[gradient_name(i, t)]] -= 1.0
    for t in range(T + 1, T + schedule.finish):
        theta[t + 1] = schedule.W @ theta[t]
    deviations = np.zeros(len(names))
    for name, place in names.items():
        if name[0] == "noise":
            deviations[place] = schedule.self_noise if name[1] == name[2] else 1.0
    return Rows(theta, gamma, names, deviations)


def _unknowns(schedule: Schedule) -> dict[tuple, int]:
    """The column of every first model, gradient and draw of noise."""
    names: dict[tuple, int] = {}
    for i in range(schedule.nodes):
        names.setdefault(("theta", 0 if schedule.common_start else i), len(names))
        for t in range(schedule.rounds + 1):
            names[gradient_name(i, t)] = len(names)
    for t in filter(schedule.noisy, range(schedule.rounds + 1)):
        if schedule.rule == "lppa":
            for sender, receiver in schedule.edges():
                names["noise", sender, receiver, t] = len(names)
        if schedule.self_noise > 0:
            for i in range(schedule.nodes):
                names["noise", i, i, t] = len(names)
    return names


@dataclass(frozen=True)
class Known:
    """What attackers know: rows, and what each row is, so that values can be filled in."""

    rows: np.ndarray
    names: tuple[tuple, ...]


def known_rows(
    schedule: Schedule, rows: Rows, attackers: Sequence[int], own_gradients: bool = True
) -> Known:
    """All that attackers receive or own: states, their own gradients, noise on their own edges.

    Without `own_gradients` only what passes over their links: their gradients and the noise that
    they add by themselves are in no message.
    """
    spies = set(attackers)
    heard = spies | {s for s, r in schedule.edges() if r in spies}
    found, names = [], []
    for t in range(schedule.rounds + 1):
        for i in sorted(heard):
            found += [rows.theta[t, i], rows.gamma[t, i]]
            names += [("theta", i, t), ("gamma", i, t)]
    for t in range(schedule.rounds + 1, schedule.rounds + 1 + schedule.finish):
        for i in sorted(heard):
            found.append(rows.theta[t, i])
            names.append(("theta", i, t))
    for name, place in rows.columns.items():
        own_gradient = own_gradients and name[0] == "g" and name[1] in spies
        own_noise = name[0] == "noise" and (name[1] in spies or name[2] in spies)
        own_noise = own_noise and (own_gradients or name[1] != name[2])
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
    scales = rows.deviations[noise]
    # Rows of one length, so that below one number everything is rounding.
    lengths = np.linalg.norm(known.rows, axis=1)
    even = known.rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    fixed, random = even[:, ~noise], even[:, noise] * scales
    # All coefficients that leave the target and nothing else: one solution, plus a null space.
    u, s, vt = np.linalg.svd(fixed, full_matrices=True)
    rank = int((s > RANK).sum())
    particular = u[:, :rank] @ (vt[:rank] @ target[~noise] / s[:rank])
    scale = max(1.0, float(np.abs(target).max()))
    if np.abs(fixed.T @ particular - target[~noise]).max() > 1e-8 * scale:
        return None
    free = u[:, rank:]
    wanted = target[noise] * scales
    du, ds, dvt = np.linalg.svd(random.T @ free, full_matrices=False)
    sure = ds > RANK
    away = du[:, sure].T @ (wanted - random.T @ particular) / ds[sure]
    coefficients = particular + free @ (dvt[sure].T @ away)
    deviation = float(np.linalg.norm(random.T @ coefficients - wanted))
    coefficients = coefficients / np.where(lengths > 0, lengths, 1.0)
    return Estimate(coefficients, 0.0 if deviation < EXACT else deviation)
