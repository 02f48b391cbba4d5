"""Which node runs on which host: blocks of ids that follow each other. Pure; starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from lppa.protocol.errors import WrongUse


def place(nodes: int, slots: Sequence[int]) -> list[tuple[int, ...]]:
    """The ids on each host, as many as its share of all slots; a host may get none.

    Neighbours on a ring have ids that follow each other, and so mostly talk inside a host.
    """
    if not slots:
        raise WrongUse("there is no host to run nodes on")
    if min(slots) < 0 or sum(slots) == 0:
        raise WrongUse("slots are how many nodes a host should have: whole numbers, not all 0")
    whole = sum(slots)
    # Rounded in whole numbers, the half up: the same on every machine.
    bounds = [(2 * nodes * part + whole) // (2 * whole) for part in accumulate(slots, initial=0)]
    return [tuple(range(first, last)) for first, last in pairwise(bounds)]
