"""Attacker × victim: how exactly each target is learned, in units of β.

A deviation of 0 is EXACT, an infinite one not identifiable. The mathematics is in `models.leakage`;
the words are in `verdict`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lppa.models.leakage import Terms, deviations, view
from lppa.models.schedule import Schedule, gradient_name, noise_in_every_round

TARGETS = {
    "g0": "the first gradient",
    "g1": "the second gradient",
    "change": "the change from one gradient to the next, the best over all rounds",
    "telescoped": "the change from the first gradient to the last",
}
DRAW = math.sqrt(2.0)  # the standard deviation of one draw of scale β, in units of β


@dataclass(frozen=True)
class Exposure:
    """What pooled attackers learn of one victim: by target the deviation in units of β.

    `unseen` is the deviation, in the same unit, of the noise that they do not know on whatever the
    victim sends, if it adds some before every message; else 0. `bare` says that nothing but other
    clients' gradients hides its later ones.
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
        What no linear estimate tells apart from others' gradients has all unknown noise on it.
        """
        found = min(self.values.values())
        return self.unseen if math.isinf(found) else found

    def record(self) -> dict[str, object]:
        """As in audit.json: a number, "exact" or "mixed"."""
        values = {name: plain(value) for name, value in self.values.items()}
        return {"attackers": list(self.attackers), "victim": self.victim, **values}


def plain(value: float) -> float | str:
    """A deviation as JSON has it."""
    if math.isinf(value):
        return "mixed"
    return "exact" if value == 0 else float(f"{value:.8g}")


def targets_of(schedule: Schedule, victim: int) -> dict[str, list[Terms]]:
    """By name what is looked for; where there are several, the best counts."""
    g = [gradient_name(victim, t) for t in range(schedule.rounds + 1)]
    return {
        "g0": [[(1.0, g[0])]],
        "g1": [[(1.0, after)] for after in g[1:2]],
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
    best = {v: dict.fromkeys(TARGETS, math.inf) for v in chosen}
    for (victim, name, _), value in zip(wanted, found, strict=True):
        best[victim][name] = min(best[victim][name], float(value))
    unseen = {v: unseen_noise(schedule, spies, v) for v in chosen}
    bare = {v: unseen[v] == 0 and math.isinf(best[v]["change"]) for v in chosen}
    return [Exposure(spies, v, best[v], unseen[v], bare[v]) for v in chosen]


def unseen_noise(schedule: Schedule, attackers: Sequence[int], victim: int) -> float:
    """Deviation, in units of β, of what a victim adds to a message that attackers do not know."""
    if not noise_in_every_round(schedule):
        return 0.0
    draws = schedule.self_noise**2
    if schedule.rule == "lppa":
        for linked in (schedule.W[victim] > 0, schedule.W[:, victim] > 0):
            draws += sum(linked) - 1 - sum(linked[a] for a in attackers)
    return DRAW * math.sqrt(draws)


def by_round(
    schedule: Schedule, attackers: Sequence[int], victim: int
) -> list[tuple[float, float]]:
    """For each round the deviation of its gradient, and of the change from the one before."""
    g = [gradient_name(victim, t) for t in range(schedule.rounds + 1)]
    changes = targets_of(schedule, victim)["change"]
    found = deviations(view(schedule, attackers), [*([(1.0, name)] for name in g), *changes])
    values = [float(value) * DRAW for value in found]
    return list(zip(values[: len(g)], [math.inf, *values[len(g) :]], strict=True))


def _listed(schedule: Schedule, victim: int) -> list[tuple[str, Terms]]:
    return [(name, t) for name, many in targets_of(schedule, victim).items() for t in many]
