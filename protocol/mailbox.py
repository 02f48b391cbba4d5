"""Arrivals wait here until the round loop asks for them, by kind, epoch, round, part and sender.

A directed edge is one-way, so a sender can be several rounds ahead. What may enter is decided by
the links; the mailbox only keeps it and, for a simulated network, holds it back for a while.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeVar

When = tuple[int, int, int]
Key = tuple[type, When, int]
Kind = TypeVar("Kind")


class Dated(Protocol):
    """A message of one round in one epoch."""

    @property
    def epoch(self) -> int:
        """Which view of the graph it belongs to."""

    @property
    def round(self) -> int:
        """Which round it belongs to."""


@dataclass
class Mailbox:
    """Messages by kind, date and sender; `delay` draws how many seconds each is held."""

    delay: Callable[[], float] | None = None
    _known: set[Key] = field(default_factory=set)
    _taken: dict[tuple[type, int], When] = field(default_factory=dict)
    _ready: dict[Key, Any] = field(default_factory=dict)
    _held: list[tuple[float, int, Key, Any]] = field(default_factory=list)
    _order: count[int] = field(default_factory=count)

    def put(self, sender: int, message: Dated) -> None:
        """Keeps a message until it is taken."""
        key = (type(message), date_of(message), sender)
        self._known.add(key)
        if self.delay is None:
            self._ready[key] = message
        else:
            due = time.monotonic() + self.delay()
            heapq.heappush(self._held, (due, next(self._order), key, message))

    def has_had(self, sender: int, message: Dated) -> bool:
        """Whether a message of the same kind, round and sender is waiting, or was taken."""
        kind, when = type(message), date_of(message)
        taken = self._taken.get((kind, sender), (-1, -1, -1))
        return when <= taken or (kind, when, sender) in self._known

    def take_all(self, kind: type[Kind], when: When, senders: Sequence[int]) -> dict[int, Kind]:
        """Hands out, once, what is there (yet) of some senders."""
        now = time.monotonic() if self._held else 0.0
        while self._held and self._held[0][0] <= now:
            _, _, due, held = heapq.heappop(self._held)
            self._ready[due] = held
        found: dict[int, Kind] = {}
        for sender in senders:
            key = (kind, when, sender)
            message = self._ready.pop(key, None)
            if message is not None:
                self._known.discard(key)
                self._taken[kind, sender] = when
                found[sender] = message
        return found

    def count_lacking(self, kind: type, when: When, senders: Sequence[int]) -> int:
        """How many of some senders' messages are not even held back here."""
        return sum((kind, when, sender) not in self._known for sender in senders)

    def next_due(self) -> float | None:
        """Seconds until the first message that is held back may be taken."""
        return max(0.0, self._held[0][0] - time.monotonic()) if self._held else None

    def __len__(self) -> int:
        return len(self._known)


def date_of(message: Dated) -> When:
    """When a message is due: most kinds have no parts."""
    return message.epoch, message.round, getattr(message, "part", 0)


def random_delay(latency: float) -> Callable[[], float] | None:
    """Draws a delay in seconds of up to `latency` milliseconds; None for no delay at all."""
    if latency <= 0:
        return None
    # Not seeded on purpose: results must not depend on when messages arrive.
    return lambda: random.SystemRandom().uniform(0.0, latency / 1000)
