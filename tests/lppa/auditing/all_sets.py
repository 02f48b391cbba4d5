"""The smallest set of attackers, found by looking at all sets: slow, and sure."""

from __future__ import annotations

from itertools import combinations

from lppa.auditing.exposure import exposures


def brute_force(schedule, victim):
    """The size of the smallest set that learns something exactly; None if there is none."""
    others = [i for i in range(schedule.nodes) if i != victim]
    for size in range(1, len(others) + 1):
        for attackers in combinations(others, size):
            if exposures(schedule, attackers, [victim])[0].exact:
                return size
    return None
