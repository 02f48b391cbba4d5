"""What a run's files say, checked: the plain values that the page is drawn from.

A figure that is missing or makes no sense is None here, so that nothing after this has to ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lppa.auditing.grade import GRADES
from lppa.coordinator.figures import Spread

PHASES = ("compute", "exchange", "eval")
RUNNING = "running"  # there is no summary.json yet
COMPLETED = "completed"
DOUBTFUL = "doubtful"  # came to its end, but something is wrong
EXACT, MIXED = "exact", "mixed"  # mixed: cannot be told apart from others' by linear means

Who = tuple[tuple[int, ...], int]  # attackers, and the client that they attack


@dataclass(frozen=True)
class Row:
    """One evaluation over all clients.

    `reported` has what is known of the figures in `coordinator.reported`, by name.
    """

    round: int
    reported: Mapping[str, Spread] = field(default_factory=dict)
    consensus: float | None = None
    conservation: float | None = None
    metrics: Mapping[str, Spread] = field(default_factory=dict)  # what else it is judged by

    @property
    def accuracy(self) -> Spread | None:
        """Over the test set."""
        return self.reported.get("accuracy")

    @property
    def loss(self) -> Spread | None:
        """Over the test set."""
        return self.reported.get("loss")

    def mean(self, name: str) -> float | None:
        """A reported figure of a client, on average."""
        spread = self.reported.get(name)
        return None if spread is None else spread.mean

    @property
    def ratio(self) -> float | None:
        """The noise over the gradient, by their norms."""
        return self.mean("noise_to_gradient")


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
class Pair:
    """How well one client is hidden from others that pool what they know.

    `ratio` is the noise in their way over the size of what they want, None where there is none.
    """

    grade: str
    ratio: float | None
    exact: bool = False


@dataclass(frozen=True)
class Hidden:
    """What is to be hidden: the size of an example's share of a gradient, and where it is from."""

    rms: float
    source: str | None = None
    examples: int | None = None
    spread: float = 1.0


@dataclass(frozen=True)
class Dropout:
    """What is left of a client's noise, in units of β or EXACT, when one neighbour leaves."""

    victim: int
    gone: int
    attackers: tuple[int, ...]
    noise: float | str
    ratio: float | None
    grade: str


@dataclass(frozen=True)
class Epsilon:
    """(ε, δ) of one release and of so many; `run` is None where none holds for all of them."""

    release: float
    run: float | None
    delta: float
    releases: int | None = None


@dataclass(frozen=True)
class Audit:
    """What linear attackers learn. A cell: least standard deviation in β, EXACT, or MIXED.

    `grade` is None where the file has none; green is for hidden only.
    """

    targets: tuple[str, ...]
    cells: Mapping[str, Mapping[Who, float | str]]
    smallest: Mapping[int, tuple[int, ...] | None]
    verdict: tuple[str, ...]
    advice: str | None
    exact: bool
    law: tuple[str, ...] = ()
    grade: str | None = None
    pairs: Mapping[Who, Pair] = field(default_factory=dict)
    hide: Hidden | None = None
    thresholds: tuple[float, float] | None = None  # open below the first, hidden from the second
    dropout: Dropout | None = None
    epsilon: Epsilon | None = None
    unit: str = "β"
    scale: float | None = None  # of that unit

    @property
    def worst(self) -> Pair | None:
        """The pair that is hidden least; None where no pair has a grade."""
        pairs = self.pairs.values()
        return min(pairs, key=lambda p: (GRADES.index(p.grade), p.ratio or 0.0), default=None)


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
    done: int = 0
    """Rounds that all have reached, as far as a summary tells."""
    rows: tuple[Row, ...] = ()
    best: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    seconds_by_node: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    sent: Mapping[str, float] = field(default_factory=dict)
    memory: float | None = None
    graph: Graph | None = None
    partition: tuple[tuple[int, ...], ...] | None = None  # samples by client and class
    labels: tuple[str, ...] = ()  # the classes; none in regression
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
        return len(self.labels) or None

    @property
    def metric(self) -> str | None:
        """What stands in the place of accuracy where there is none: the first of the metrics."""
        return None if self.last.accuracy else next(iter(self.last.metrics), None)

    @property
    def over(self) -> bool:
        """Whether the run has come to an end, good or bad."""
        return self.status != RUNNING

    def setting(self, name: str) -> str:
        """A setting in words; empty if it is not known."""
        value = self.settings.get(name)
        return "" if value is None else str(value)
