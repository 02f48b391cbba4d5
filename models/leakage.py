"""What the best linear attacker learns of others' gradients: how exactly, for all victims at once.

The same question as `tracking.best_estimate` answers, without the coefficients and for whole
networks. What attackers know is eliminated before anything is solved: their own states and
gradients, the noise on their edges, and every state that they have heard. What is left are few
rows: what each heard message tells that the earlier ones did not.

In gradient tracking nothing here depends on λ: the first models are unknown, or known, in any unit.
In dsgd noise hides the step along a gradient, so that all noise is counted over the first step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lppa.models.schedule import Name, Schedule

Terms = Sequence[tuple[float, Name]]
"""A target: coefficients and names, of `tracking.gradient_name`."""

NOT_IDENTIFIABLE = float("inf")
ROUNDING = 1e-13  # rows shorter than this are none
RANK = 1e-10  # singular values below this are none, all rows having length 1
PART_OF = 1e-6  # a target that misses the span of what is known by less is in it
NO_NOISE = 1e-7  # noise below this, in units of a draw, is none


@dataclass(frozen=True)
class View:
    """All that attackers learn, as rows of `fixed` @ unknowns + `noise` @ independent unit draws.

    `columns` says which unknown is which; one that is not among them is in no message. `draw` is
    the deviation that a draw has in the unit of the gradients: 1, or 1 over the first step.
    """

    fixed: np.ndarray
    noise: np.ndarray
    columns: dict[Name, int]
    draw: float = 1.0


def view(schedule: Schedule, attackers: Sequence[int]) -> View:
    """The rows of attackers that pool what they know, after all elimination."""
    crowd = _Crowd.around(schedule, attackers)
    names = _blocks(schedule)
    n = len(crowd.nodes)
    news = _News(schedule, crowd, names)
    schedule.update.run(schedule, news)
    rows = np.concatenate(news.told)
    fixed = [k for k, name in enumerate(names) if name[0] != "noise"]
    random = [k for k, name in enumerate(names) if name[0] == "noise"]
    factor = crowd.noise_factor(schedule)
    noise = (rows[:, random] @ factor).reshape(len(rows), len(random) * factor.shape[1])
    columns = {
        (names[k][0], int(node), *names[k][1:]): place * n + i
        for place, k in enumerate(fixed)
        for i, node in enumerate(crowd.nodes)
    }
    shown = _compact(rows[:, fixed].reshape(len(rows), len(fixed) * n), noise, columns)
    # θ is counted in first steps: so is noise in it.
    return replace(shown, draw=1.0 / schedule.step(0) if schedule.rule.in_theta else 1.0)


def deviations(seen: View, targets: Sequence[Terms]) -> np.ndarray:
    """For each target the least deviation of a linear estimate, in units of one draw's deviation.

    0 where it is exact, infinite where no linear combination of what is known leaves only it.
    """
    wanted = np.zeros((seen.fixed.shape[1], len(targets)))
    possible = np.ones(len(targets), dtype=bool)
    for k, terms in enumerate(targets):
        for coefficient, name in terms:
            if name in seen.columns:
                wanted[seen.columns[name], k] += coefficient
            elif coefficient:
                possible[k] = False
    found = np.full(len(targets), NOT_IDENTIFIABLE)
    asked = np.flatnonzero(possible)
    if len(asked):
        found[asked] = _least_deviations(seen, wanted[:, asked]) * seen.draw
    return found


# --- who matters --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Crowd:
    """Honest nodes around attackers: those that they hear come first, then all that can matter."""

    nodes: np.ndarray
    heard: np.ndarray
    spies: frozenset[int]

    @classmethod
    def around(cls, schedule: Schedule, attackers: Sequence[int]) -> _Crowd:
        spies = frozenset(int(a) for a in attackers)
        listens = schedule.W > 0
        honest = np.array([i not in spies for i in range(schedule.nodes)])
        heard = listens[sorted(spies)].any(axis=0) & honest
        reached = heard.copy()
        # What is further away than there are rounds never arrives.
        for _ in range(schedule.rounds + schedule.finish):
            reached |= listens[reached].any(axis=0) & honest
        nodes = np.concatenate([np.flatnonzero(heard), np.flatnonzero(reached & ~heard)])
        return cls(nodes, np.flatnonzero(heard), spies)

    def noise_factor(self, schedule: Schedule) -> np.ndarray:
        """F with the noise of the nodes in one round = F @ independent draws of deviation 1.

        Only draws that no attacker knows are left. Many edges make few columns: what counts is the
        covariance, the Laplacian of the edges between honest nodes.
        """
        parts = []
        if schedule.edge_noise:
            honest = [i for i in range(schedule.nodes) if i not in self.spies]
            among = schedule.W[np.ix_(honest, honest)] > 0
            parts.append(_laplacian_factor(among)[np.searchsorted(honest, self.nodes)])
        if schedule.self_noise > 0:
            parts.append(schedule.self_noise * np.eye(len(self.nodes)))
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(self.nodes), 0))


def _laplacian_factor(adjacency: np.ndarray) -> np.ndarray:
    """F with F Fᵀ = the Laplacian of directed edges, without any tolerance.

    In each component the noise sums to zero, so one node's is minus that of the others.
    """
    weights = adjacency.astype(float) + adjacency.T
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    groups = _connected(len(weights), *np.nonzero(weights))
    factor = np.zeros((len(weights), len(weights) - len(groups)))
    column = 0
    for members in groups:
        free = members[1:]
        if len(free):
            root = np.linalg.cholesky(laplacian[np.ix_(free, free)])
            there = slice(column, column + len(free))
            factor[free, there] = root
            factor[members[0], there] = -root.sum(axis=0)
            column += len(free)
    return factor


# --- rows over blocks of columns ----------------------------------------------------------------


def _blocks(schedule: Schedule) -> list[Name]:
    """The kinds of unknowns; each block has one column per node."""
    names: list[Name] = [] if schedule.common_start else [("theta",)]
    names += [("g", t) for t in range(schedule.rounds + 1)]
    return names + [("noise", t) for t in schedule.noise_rounds]


class _News:
    """Vectors of all relevant honest nodes over (block, node), the heard ones first.

    `told` is what each heard message tells that the earlier ones did not.
    """

    def __init__(self, schedule: Schedule, crowd: _Crowd, names: list[Name]) -> None:
        self.schedule = schedule
        self.mixing = schedule.W[np.ix_(crowd.nodes, crowd.nodes)]
        self.heard = len(crowd.heard)
        self.every = np.arange(len(crowd.nodes))
        self.places = {name: k for k, name in enumerate(names)}
        self.told: list[np.ndarray] = []

    def zeros(self) -> np.ndarray:
        return np.zeros((len(self.every), len(self.places), len(self.every)))

    def add(self, rows: np.ndarray, coefficient: float, kind: str, *when: int) -> None:
        block = (kind, *when)
        # A common start is known to all.
        if block in self.places:
            rows[self.every, self.places[block], self.every] += coefficient

    def add_noise(self, rows: np.ndarray, t: int) -> None:
        self.add(rows, 1.0, "noise", t)

    def send(self, t: int, *vectors: np.ndarray) -> tuple[np.ndarray, ...]:
        for rows in vectors:
            self.told.append(rows[: self.heard].copy())
            # Known from here on, so that no later message tells it again.
            rows[: self.heard] = 0.0
        return vectors

    def mix(self, rows: np.ndarray) -> np.ndarray:
        """W @ rows, where the rows of the heard nodes are known and count as zero."""
        flat = rows[self.heard :].reshape(len(rows) - self.heard, rows[0].size)
        mixed: np.ndarray = self.mixing[:, self.heard :] @ flat
        return mixed.reshape(rows.shape)

    def step(self, t: int) -> float:
        """θ is counted in units of the first step: so λ drops out, or is left to `View.draw`."""
        return self.schedule.step(t) / self.schedule.step(0)


def _compact(fixed: np.ndarray, noise: np.ndarray, columns: dict[Name, int]) -> View:
    """Leaves out what is zero, and gives all rows the same length."""
    length = np.sqrt((fixed**2).sum(axis=1) + (noise**2).sum(axis=1))
    kept = length > ROUNDING
    fixed, noise = (part[kept] / length[kept, None] for part in (fixed, noise))
    used = np.flatnonzero(fixed.any(axis=0))
    place = {int(column): k for k, column in enumerate(used)}
    named = {name: place[column] for name, column in columns.items() if column in place}
    return View(fixed[:, used], noise[:, noise.any(axis=0)], named)


# --- the estimate -------------------------------------------------------------------------------


def _least_deviations(seen: View, wanted: np.ndarray) -> np.ndarray:
    """Coefficients c with fixedᵀ c = wanted and the least ‖noiseᵀ c‖, for every column of wanted.

    One solution and all that can be added to it, then least squares in what can be added. What is
    not noise falls into parts that share no unknown, and each part is solved on its own.
    """
    missed = np.zeros(wanted.shape[1])
    left = np.zeros((seen.noise.shape[1], wanted.shape[1]))
    free = []
    for rows, columns in _parts(seen.fixed):
        # All of u is needed, since what is free is in its last columns; of v only the first.
        wide = len(rows) <= len(columns)
        u, s, vt = np.linalg.svd(seen.fixed[np.ix_(rows, columns)], full_matrices=not wide)
        rank = int((s > RANK).sum())
        noise = seen.noise[rows]
        free.append(noise.T @ u[:, rank:])
        asking = np.flatnonzero(wanted[columns].any(axis=0))
        part = wanted[np.ix_(columns, asking)]
        inside = vt[:rank] @ part
        missed[asking] += ((part - vt[:rank].T @ inside) ** 2).sum(axis=0)
        left[:, asking] += noise.T @ (u[:, :rank] @ (inside / s[:rank, None]))
    size = np.linalg.norm(left, axis=0)
    left = _without(np.concatenate(free, axis=1), left) if free else left
    found: np.ndarray = np.linalg.norm(left, axis=0)
    found[found <= NO_NOISE * np.maximum(1.0, size)] = 0.0
    found[np.sqrt(missed) > PART_OF * np.linalg.norm(wanted, axis=0)] = NOT_IDENTIFIABLE
    return found


def _without(directions: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The vectors without their part in the span of the directions."""
    if not directions.size:
        return vectors
    u, s, _ = np.linalg.svd(directions, full_matrices=False)
    basis = u[:, s > RANK]
    # Twice: the second pass removes what rounding left of large vectors.
    for _ in range(2):
        vectors = vectors - basis @ (basis.T @ vectors)
    return vectors


def _parts(matrix: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and columns that belong together: blocks of the matrix with zeros all around."""
    rows, columns = matrix.shape
    r, c = np.nonzero(matrix)
    for members in _connected(rows + columns, r, c + rows):
        yield members[members < rows], members[members >= rows] - rows


def _connected(count: int, ends: np.ndarray, others: np.ndarray) -> list[np.ndarray]:
    """The connected components of a graph on 0 … count - 1, from the two ends of its edges."""
    # By hand: loading a library for it would take longer than the whole audit of a small run.
    label = np.arange(count)
    while True:
        least = np.minimum(label[ends], label[others])
        lower = label.copy()
        np.minimum.at(lower, ends, least)
        np.minimum.at(lower, others, least)
        lower = lower[lower]
        if np.array_equal(lower, label):
            break
        label = lower
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
