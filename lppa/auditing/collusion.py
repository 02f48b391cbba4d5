"""The smallest set of nodes that, pooling all they know, learn something of a victim exactly.

Knowledge only grows with the set, so bounds come first: if all other nodes together do not learn
anything exactly, nobody does; and if noise enters in every round, nobody does with less than all
neighbours. What is between the bounds is searched, smaller sets first, as far as the budget goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from lppa.auditing.exposure import Exposure, exposures
from lppa.models.schedule import Schedule, noise_in_every_round

BUDGET = 700  # sets that are looked at for one audit


@dataclass
class Collusion:
    """By victim the smallest set found, None where no set exists.

    `unsure` are victims for whom a smaller set may exist, because the search was cut.
    """

    sets: dict[int, tuple[int, ...] | None] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)


class OutOfBudget(Exception):
    """No more sets may be looked at."""


@dataclass
class _Asker:
    """Asks what sets learn exactly, as often as the budget allows."""

    schedule: Schedule
    left: int

    def exact(self, attackers: Iterable[int], victims: Sequence[int]) -> list[int]:
        """The victims of whom these attackers learn something exactly."""
        if self.left == 0:
            raise OutOfBudget
        self.left -= 1
        found = exposures(self.schedule, tuple(attackers), victims)
        return [e.victim for e in found if e.exact]


def smallest_sets(
    schedule: Schedule,
    singles: Sequence[Exposure],
    victims: Iterable[int] | None = None,
    budget: int = BUDGET,
) -> Collusion:
    """For each victim the smallest set that learns any target exactly.

    `singles` is the table of what nodes learn alone, as far as it is known already.
    """
    found, everyone = Collusion(), set(range(schedule.nodes))
    for victim in range(schedule.nodes) if victims is None else victims:
        alone = [e.attackers for e in singles if e.victim == victim and e.exact]
        # One honest node is a small system: asking this costs nothing.
        if alone:
            found.sets[victim] = min(alone)
        elif not exposures(schedule, tuple(everyone - {victim}), [victim])[0].exact:
            found.sets[victim] = None
        else:
            found.sets[victim] = tuple(sorted(_enough(schedule, victim)))
    if not _needs_all_neighbours(schedule):
        looked_at = {(e.attackers, e.victim) for e in singles}
        _shrink(_Asker(schedule, budget), found, looked_at)
    return found


def neighbours(schedule: Schedule, node: int) -> set[int]:
    """All that send to a node or hear it."""
    linked = (schedule.W[node] > 0) | (schedule.W[:, node] > 0)
    return {int(i) for i in np.flatnonzero(linked)} - {node}


def _needs_all_neighbours(schedule: Schedule) -> bool:
    """Whether all neighbours are the smallest set, without any search.

    In gradient tracking all messages are made of θ^0 and e_i^t = g_i^t − g_i^{t−1} + n_i^t. If
    every n^t is fresh noise, a combination Σ c_it e_i^t without noise has, for every t, the same
    c_it for all nodes of an honest component. If only g_v is to be left, c_it = c_i,t+1 for all
    other nodes and all t, and so 0 after the last round and before: v must be alone in its
    component, that is, all its neighbours collude. In dsgd e_i^t = n_i^t − step·g_i^{t−1}, and
    each gradient is in one of them alone: c_it = 0 for all other nodes of the component at once.
    """
    return noise_in_every_round(schedule)


def _enough(schedule: Schedule, victim: int) -> set[int]:
    """All neighbours if they learn something exactly, else all others."""
    around = neighbours(schedule, victim)
    if exposures(schedule, tuple(around), [victim])[0].exact:
        return around
    return set(range(schedule.nodes)) - {victim}


def _shrink(asker: _Asker, found: Collusion, looked_at: set[tuple[tuple[int, ...], int]]) -> None:
    """Replaces sets by smaller ones, until none is thinkable or the budget is spent."""
    size = 0
    try:
        while beyond := _larger_than(found, size + 1):
            _look_at_all(asker, found, beyond, size + 1, looked_at)
            size += 1
            if size == 1:
                for victim in _larger_than(found, 2):
                    _thin_out(asker, found, victim)
    except OutOfBudget:
        # All sets up to that size were looked at: one more than that is the least.
        found.unsure |= set(_larger_than(found, size + 1))


def _larger_than(found: Collusion, size: int) -> list[int]:
    return [v for v, s in found.sets.items() if s is not None and len(s) > size]


def _thin_out(asker: _Asker, found: Collusion, victim: int) -> None:
    """Leaves out who can be spared: a good bound for little, before the search."""
    left = found.sets[victim] or ()
    for node in left[::-1]:
        fewer = tuple(a for a in left if a != node)
        if asker.exact(fewer, [victim]):
            found.sets[victim] = left = fewer


def _look_at_all(
    asker: _Asker,
    found: Collusion,
    victims: Sequence[int],
    size: int,
    looked_at: set[tuple[tuple[int, ...], int]],
) -> None:
    """All sets of one size; a set is asked for all victims at once."""
    for attackers in combinations(range(asker.schedule.nodes), size):
        asked = [
            v
            for v in victims
            if size < len(found.sets[v] or ())
            and v not in attackers
            and (attackers, v) not in looked_at
        ]
        for victim in asker.exact(attackers, asked) if asked else ():
            found.sets[victim] = attackers
