"""Means, deviations and paired losses of finished cells; in per cent where they are accuracies.

Pure: cells that are not finished are left out, and counted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lppa.reproduce.cells import Cell, Results
from lppa.reproduce.results import CellResult

NOTHING = CellResult("not finished")


@dataclass(frozen=True)
class Spread:
    """Several figures in short: `deviation` is that of a sample, None for a single figure."""

    mean: float
    deviation: float | None
    count: int
    median: float
    least: float
    most: float

    @property
    def population(self) -> float | None:
        """The deviation of these figures alone, which is smaller than that of a sample."""
        if self.deviation is None:
            return None
        return self.deviation * math.sqrt((self.count - 1) / self.count)


def spread(values: Sequence[float]) -> Spread | None:
    """None where there are none."""
    if not values:
        return None
    # Nothing here may stop at an attack that ran away to infinity.
    finite = all(map(math.isfinite, values))
    deviation = statistics.stdev(values) if len(values) > 1 and finite else None
    mean, median = math.fsum(values) / len(values), statistics.median(values)
    return Spread(mean, deviation, len(values), median, min(values), max(values))


@dataclass(frozen=True)
class Accuracy:
    """The accuracies of the same cell under several seeds."""

    best: Spread | None
    final: Spread | None
    diverged: int
    untested: int
    """Diverged before their first test: there is no accuracy to count."""


def accuracy(results: Results, cells: Iterable[Cell]) -> Accuracy:
    """Over those cells that are finished; a run that diverged counts with what it reached."""
    found = [results[cell.key] for cell in cells if cell.key in results]
    best = [result.best for result in found if result.best is not None]
    final = [result.final for result in found if result.final is not None]
    return Accuracy(
        spread([100 * value for value in best]),
        spread([100 * value for value in final]),
        sum(result.diverged for result in found),
        len(found) - len(best),
    )


def loss(results: Results, pairs: Iterable[tuple[Cell, Cell]]) -> Spread | None:
    """Accuracy of the first minus that of the second, pair by pair: both have the same seed."""
    differences = []
    for plain, other in pairs:
        one, two = (results.get(cell.key, NOTHING).best for cell in (plain, other))
        if one is not None and two is not None:
            differences.append(100 * (one - two))
    return spread(differences)


def curve(results: Results, cells: Iterable[Cell]) -> list[tuple[float, Spread]]:
    """Accuracy over rounds; a run that diverged is missing from the rounds after."""
    points: dict[int, list[float]] = {}
    for cell in cells:
        for at, value in results.get(cell.key, NOTHING).curve:
            points.setdefault(at, []).append(100 * value)
    found = [(at, spread(points[at])) for at in sorted(points)]
    return [(at, value) for at, value in found if value is not None]


def attack_figures(
    results: Results,
    cells: Iterable[Cell],
    observation: str,
    figure: str,
    at: int = 0,
    guess: str | None = None,
) -> list[float]:
    """One figure of all attacks of a kind on a round, or of a guess that stands beside each.

    `observation` is what the attacker looks at, or the whole name of an attack.
    """
    values = []
    for cell in cells:
        for one in results.get(cell.key, NOTHING).attacks:
            figures = one.scores if guess is None else one.guesses.get(guess, {})
            whole = "/" in observation
            same = one.attack == observation if whole else one.attack.split("/")[0] == observation
            meant = one.round == at and same
            value = figures.get(figure)
            if meant and value is not None:
                values.append(value)
    return values
