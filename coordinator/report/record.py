"""What a run's files say, checked: the plain values that the page is drawn from.

A figure that is missing or makes no sense is None here, so that nothing after this has to ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

PHASES = ("compute", "exchange", "eval")
RUNNING = "running"  # there is no summary.json yet
COMPLETED = "completed"


@dataclass(frozen=True)
class Spread:
    """A figure over all clients."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One evaluation over all clients."""

    round: int
    accuracy: Spread | None = None
    loss: Spread | None = None
    consensus: float | None = None
    conservation: float | None = None
    gradient: Spread | None = None  # norms
    noise: Spread | None = None
    ratio: float | None = None  # noise to gradient


@dataclass(frozen=True)
class Graph:
    """Who sends to whom: a row of edges is (sender, receiver), without loops, sorted, unique.

    W[i, j] is the weight that client i gives to what client j sent.
    """

    name: str
    edges: np.ndarray
    W: np.ndarray
    gap: float | None = None

    @property
    def nodes(self) -> int:
        """How many clients there are."""
        return len(self.W)


@dataclass(frozen=True)
class Audit:
    """What linear attackers learn. A cell: least standard deviation in β, 0.0 if exact, None if
    the target cannot be estimated at all."""

    targets: tuple[str, ...]
    cells: Mapping[str, Mapping[tuple[tuple[int, ...], int], float | None]]
    smallest: Mapping[int, tuple[int, ...] | None]
    verdict: tuple[str, ...]
    advice: str | None
    bad: bool
    law: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attack:
    """One attack's result; `scores` has the attack's own and those of trivial guesses by name."""

    name: str
    attackers: tuple[int, ...]
    victim: int | None
    round: int | None
    scores: Mapping[str, Mapping[str, float]]
    figures: Mapping[str, float]
    picture: bytes | None = None
    labels: int = 0  # how many were guessed


@dataclass(frozen=True)
class RunRecord:
    """One run, as far as its files tell."""

    folder: Path
    name: str
    status: str = RUNNING
    reason: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    nodes: int | None = None
    rounds: int | None = None
    rows: tuple[Row, ...] = ()
    best: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    seconds_by_node: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    sent: Mapping[str, float] = field(default_factory=dict)
    memory: float | None = None
    graph: Graph | None = None
    partition: tuple[tuple[int, ...], ...] | None = None
    audit: Audit | None = None
    attacks: tuple[Attack, ...] = ()
    pictures: tuple[tuple[str, bytes], ...] = ()  # of the attacks, that belong to no single one
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # files that could not be read

    @property
    def last(self) -> Row:
        """The latest evaluation; one with no figures if there was none."""
        return self.rows[-1] if self.rows else Row(0)

    @property
    def classes(self) -> int | None:
        """How many labels the data has."""
        return len(self.partition[0]) if self.partition else None

    @property
    def over(self) -> bool:
        """Whether the run has come to an end, good or bad."""
        return self.status != RUNNING

    def setting(self, name: str) -> str:
        """A setting in words; empty if it is not known."""
        value = self.settings.get(name)
        return "" if value is None else str(value)
