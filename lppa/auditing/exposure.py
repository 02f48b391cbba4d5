"""Attacker × victim: how exactly each target is learned, in units of β.

A deviation of 0 is EXACT, an infinite one not identifiable. The mathematics is in `models.leakage`;
the words are in `verdict`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lppa.models.leakage import Terms, deviations, view
from lppa.models.schedule import Schedule, gradient_name, noise_in_every_round

MEAN = "mean"  # reported and not graded: see `Exposure.least`
DRAW = math.sqrt(2.0)  # the standard deviation of one draw of scale β, in units of β


@dataclass(frozen=True)
class Exposure:
    """What pooled attackers learn of one victim: by target the deviation in units of β.

    `unseen` is the deviation, in the same unit, of the noise that they do not know on whatever the
    victim sends, if it adds some before every message with a new gradient; else 0. `bare` says
    that nothing but other clients' gradients hides its later ones.
    """

    attackers: tuple[int, ...]
    victim: int
    values: dict[str, float]
    unseen: float = 0.0
    bare: bool = False

    @property
    def exact(self) -> list[str]:
        """The targets that are learned exactly."""
        return [name for name, value in self.values.items() if value == 0]

    @property
    def least(self) -> float:
        """The deviation of the target that is hidden least, in units of β.

        An example is in one of the two gradients of a change, with the same share as in that alone.
        In the mean over rounds it may have any share, and so that is left to the verdict's words.
        What no linear estimate tells apart from others' gradients has all unknown noise on it.
        """
        found = min(value for name, value in self.values.items() if name != MEAN)
        return self.unseen if math.isinf(found) else found

    def noise(self) -> dict[str, float | str]:
        """As in audit.json: a number, "exact" or "mixed"."""
        return {name: plain(value) for name, value in self.values.items()}


def plain(value: float) -> float | str:
    """A deviation as JSON has it."""
    if math.isinf(value):
        return "mixed"
    return "exact" if value == 0 else float(f"{value:.8g}")


def targets_of(schedule: Schedule, victim: int) -> dict[str, list[Terms]]:
    """By name what is looked for; where there are several, the best counts.

    The first and the second gradient; then, where messages tell changes, the change from one to the
    next and that from first to last, else every gradient by itself and the mean of all.
    """
    g = [gradient_name(victim, t) for t in schedule.update.gradients(schedule)]
    first: dict[str, list[Terms]] = {
        "g0": [[(1.0, name)] for name in g[:1]],
        "g1": [[(1.0, after)] for after in g[1:2]],
    }
    if not schedule.update.tells_changes:
        return {
            **first,
            "gradient": [[(1.0, name)] for name in g],
            MEAN: [[(1.0 / len(g), name) for name in g]] if g else [],
        }
    return {
        **first,
        "change": [[(1.0, after), (-1.0, before)] for before, after in pairwise(g)],
        "telescoped": [[(1.0, g[-1]), (-1.0, g[0])]] if g[1:] else [],
    }


def exposures(
    schedule: Schedule, attackers: Sequence[int], victims: Iterable[int] | None = None
) -> list[Exposure]:
    """What attackers that pool all they know learn of each victim, of all others by default."""
    spies = tuple(sorted(set(attackers)))
    everyone = range(schedule.nodes) if victims is None else victims
    chosen = [v for v in everyone if v not in spies]
    wanted = [(v, name, terms) for v in chosen for name, terms in _listed(schedule, v)]
    found = deviations(view(schedule, spies), [terms for *_, terms in wanted]) * DRAW
    every: dict[int, dict[str, list[float]]]
    every = {v: {name: [] for name in targets_of(schedule, v)} for v in chosen}
    for (victim, name, _), value in zip(wanted, found, strict=True):
        every[victim][name].append(float(value))
    result = []
    for v in chosen:
        best = {name: min(values, default=math.inf) for name, values in every[v].items()}
        unseen = unseen_noise(schedule, spies, v)
        result.append(Exposure(spies, v, best, unseen, unseen == 0 and _bare(schedule, every[v])))
    return result


def _bare(schedule: Schedule, values: dict[str, list[float]]) -> bool:
    """Whether something is without noise of its own, and yet not told apart from others'."""
    if schedule.update.tells_changes:
        return all(map(math.isinf, values["change"]))
    brought = zip(values["gradient"], schedule.update.bring_gradients(schedule), strict=True)
    return any(math.isinf(value) and t not in schedule.noise_rounds for value, t in brought)


def unseen_noise(schedule: Schedule, attackers: Sequence[int], victim: int) -> float:
    """Deviation, in units of β, of what a victim adds to a message that attackers do not know.

    Counted on the gradient in it, the one with the longest step; without limit if none is sent.
    """
    if not schedule.update.gradients(schedule):
        return math.inf
    if not noise_in_every_round(schedule):
        return 0.0
    draws = schedule.self_noise**2
    if schedule.edge_noise:
        for linked in (schedule.W[victim] > 0, schedule.W[:, victim] > 0):
            draws += np.count_nonzero(linked) - 1 - sum(linked[a] for a in attackers)
    return DRAW * math.sqrt(draws) / schedule.update.weight(schedule.step(0))


def by_round(
    schedule: Schedule, attackers: Sequence[int], victim: int
) -> list[tuple[float, float]]:
    """For each round the deviation of its gradient, and of the change from the one before.

    Changes are looked at only where messages tell them: elsewhere they are as good as mixed.
    """
    g = [gradient_name(victim, t) for t in schedule.update.gradients(schedule)]
    changes = targets_of(schedule, victim).get("change", [])
    found = deviations(view(schedule, attackers), [*([(1.0, name)] for name in g), *changes])
    values = [float(value) * DRAW for value in found]
    if not schedule.update.tells_changes:
        return [(value, math.inf) for value in values]
    return list(zip(values[: len(g)], [math.inf, *values[len(g) :]], strict=True))


def _listed(schedule: Schedule, victim: int) -> list[tuple[str, Terms]]:
    return [(name, t) for name, many in targets_of(schedule, victim).items() for t in many]
