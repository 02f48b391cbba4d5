"""A run as linear algebra: every message as a combination of what nobody tells.

Coordinate by coordinate, all that clients send is a fixed linear combination of the clients' first
models, their gradients and the noise. The coefficients follow from topology, W, λ and the rule
alone, so they say before any training what an attacker can solve for, and afterwards how.
Everything is written out densely here, and `best_estimate` gives an attack its coefficients;
`leakage` says the same of whole networks without the coefficients, and much faster. How messages
follow from each other is in `schedule`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lppa.models.schedule import Name, Schedule, gradient_name

EXACT = 1e-9  # noise coefficients below this are none
RANK = 1e-10  # singular values below this are none, all rows having length 1


@dataclass(frozen=True)
class Rows:
    """The messages of all clients as rows over the unknowns: theta[t, i] and gamma[t, i].

    In finishing rounds there is no gamma, and in dsgd there is none at all. `deviations` has one
    number per unknown: of noise its standard deviation, in units of that of a draw for an edge; of
    everything else 0, since nothing is assumed about it.
    """

    theta: np.ndarray
    gamma: np.ndarray
    columns: dict[Name, int]
    deviations: np.ndarray

    @property
    def noise_columns(self) -> np.ndarray:
        """Which unknowns are noise."""
        return np.array([name[0] == "noise" for name in self.columns])

    def gradient(self, node: int, t: int) -> np.ndarray:
        """The row of g_node^t."""
        return self.combination([(1.0, gradient_name(node, t))])

    def combination(self, terms: Iterable[tuple[float, Name]]) -> np.ndarray:
        """The row of a sum of unknowns, each with its coefficient and its name."""
        row = np.zeros(len(self.columns))
        for coefficient, name in terms:
            row[self.columns[name]] += coefficient
        return row


def messages(schedule: Schedule) -> Rows:
    """The rows of everything that is sent in rounds 0 to `rounds`, and in finishing rounds."""
    names = _unknowns(schedule)
    written = _Dense(schedule, names)
    schedule.update.run(schedule, written)
    deviations = np.zeros(len(names))
    for name, place in names.items():
        if name[0] == "noise":
            deviations[place] = schedule.self_noise if name[1] == name[2] else 1.0
    none = np.zeros((0, schedule.nodes, len(names)))
    theta, gamma = (np.array(rows) if rows else none for rows in written.sent)
    return Rows(theta, gamma, names, deviations)


class _Dense:
    """Vectors as dense rows over all unknowns, and all of θ and γ that was sent."""

    def __init__(self, schedule: Schedule, names: dict[Name, int]) -> None:
        self.schedule = schedule
        self.names = names
        self.sent: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        self.step = schedule.step

    def zeros(self) -> np.ndarray:
        return np.zeros((self.schedule.nodes, len(self.names)))

    def add(self, rows: np.ndarray, coefficient: float, kind: str, *when: int) -> None:
        for i in range(self.schedule.nodes):
            whose = 0 if kind == "theta" and self.schedule.common_start else i
            rows[i, self.names[(kind, whose, *when)]] += coefficient

    def add_noise(self, rows: np.ndarray, t: int) -> None:
        for name, place in self.names.items():
            if name[0] == "noise" and name[3] == t:
                _, sender, receiver, _ = name
                rows[sender, place] += 1.0
                if receiver != sender:
                    rows[receiver, place] -= 1.0

    def send(self, t: int, *vectors: np.ndarray) -> tuple[np.ndarray, ...]:
        for kept, rows in zip(self.sent, vectors, strict=False):
            kept.append(rows.copy())
        return vectors

    def mix(self, rows: np.ndarray) -> np.ndarray:
        mixed: np.ndarray = self.schedule.W @ rows
        return mixed


def _unknowns(schedule: Schedule) -> dict[Name, int]:
    """The column of every first model, gradient and draw of noise."""
    names: dict[Name, int] = {}
    for i in range(schedule.nodes):
        names.setdefault(("theta", 0 if schedule.common_start else i), len(names))
        for t in range(schedule.rounds + 1):
            names[gradient_name(i, t)] = len(names)
    for t in schedule.noise_rounds:
        if schedule.edge_noise:
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
    names: tuple[Name, ...]


def known_rows(
    schedule: Schedule, rows: Rows, attackers: Sequence[int], own_gradients: bool = True
) -> Known:
    """All that attackers receive or own: states, their own gradients, noise on their own edges.

    Without `own_gradients` only what passes over their links: their gradients and the noise that
    they add by themselves are in no message.
    """
    spies = set(attackers)
    heard = spies | {s for s, r in schedule.edges() if r in spies}
    found: list[np.ndarray] = []
    names: list[Name] = []
    for t in range(len(rows.theta)):
        for i in sorted(heard):
            found.append(rows.theta[t, i])
            names.append(("theta", i, t))
            if t < len(rows.gamma):
                found.append(rows.gamma[t, i])
                names.append(("gamma", i, t))
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
