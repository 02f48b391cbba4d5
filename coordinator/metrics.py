"""Turns what nodes report into the figures of a run: one row per evaluation, and the summary.

Works on plain figures and sketches only; writing files is not done here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from lppa.coordinator.figures import (
    Accuracy,
    Bytes,
    Outcome,
    Protection,
    Row,
    Seconds,
    Spread,
    Summary,
)
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.reported import FIGURES, MEAN, SPREAD, combined
from lppa.protocol.codec import BadMessage, all_finite
from lppa.protocol.messages import Done, Metrics, Progress

Report = TypeVar("Report")

SKETCH = 256  # numbers in a sketch
# Characters of one report on the disk: a hub that hears a thousand others has 26,000 of hashes.
MOST_WRITTEN = 1 << 15
NORMS = ("gamma_norm", "gradient_norm")  # None where a rule has no such vector
PHASES = ("compute", "exchange", "eval")
EPSILON = {"float32": 1.2e-7, "float64": 2.2e-16}
GENEROUS = 4.0  # all sound runs that were measured, of 2 to 24 nodes, stayed below a tenth of it


@dataclass
class Collection:
    """All reports of a run, by round and node.

    `members` are those who are there to report; `views` has those of each view, by its epoch.
    """

    nodes: int
    members: set[int] = field(default_factory=set)
    views: dict[int, set[int]] = field(default_factory=dict)
    reports: dict[int, dict[int, Metrics]] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)
    done: dict[int, Done] = field(default_factory=dict)
    # The size of the largest example that gradients told of, as nodes said between reports.
    example: float | None = None

    def __post_init__(self) -> None:
        self.members = self.members or set(range(self.nodes))
        self.views = self.views or {0: set(self.members)}

    def has(self, node: int, round: int) -> bool:
        """Whether a node's report of a round is there."""
        return node in self.reports.get(round, {})

    def add(self, node: int, metrics: Metrics) -> Row | None:
        """Takes a report in; returns the round's row when it was the last one missing."""
        of_round = self.reports.setdefault(metrics.round, {})
        if node in of_round:
            return None
        of_round[node] = metrics
        return self._row(metrics.round)

    def notice(self, progress: Progress) -> None:
        """Takes in what a node says between reports."""
        self.example = max([*progress.example, self.example or 0.0]) or self.example

    def change(self, members: set[int]) -> list[Row]:
        """Others are there from now on; returns the rows that waited for who is gone."""
        if members == self.members:
            return []
        self.members = set(members)
        return self.overdue()

    def overdue(self) -> list[Row]:
        """Rows that nothing is missing for and that nobody has seen: of somebody who was killed
        between the last report and its row, or who has waited for others."""
        rows = [self._row(round) for round in sorted(self.reports)]
        return [row for row in rows if row is not None]

    @property
    def _fewest(self) -> int:
        """How many reports any evaluation needs: with less there is nothing to look at."""
        return min(map(len, self.views.values()), default=0)

    def _row(self, round: int) -> Row | None:
        """A round's row, once; None while reports are missing."""
        of_round = self.reports[round]
        if len(of_round) < len(self.members) and len(of_round) < self._fewest:
            return None
        if any(row.round == round for row in reversed(self.history)):
            return None
        if not all(report.theta.size for report in of_round.values()):
            return None
        epoch = max(report.epoch for report in of_round.values())
        whole = self.views.get(epoch, set())
        together = {i for i, report in of_round.items() if report.epoch == epoch}
        if whole and whole <= together:
            row = combine(round, [of_round[i] for i in sorted(whole)])
        elif self.members <= set(of_round):
            # Of those who are left: their sums alone are no law.
            row = combine(round, [of_round[i] for i in sorted(self.members)], whole=False)
        else:
            return None
        self.history.append(row)
        return row


def check_metrics(metrics: Metrics) -> None:
    """Raises BadMessage unless a report has the figures that are needed, as numbers."""
    try:
        length = len(json.dumps(metrics.values, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise BadMessage("a report that cannot be written down") from None
    if length > MOST_WRITTEN:
        raise BadMessage(f"a report of {length} characters")
    for name, figure in FIGURES.items():
        value = metrics.values.get(name, "missing" if figure.needed else None)
        if not isinstance(value, (int, float)) and value is not None:
            raise BadMessage(f"a report whose {name} is not a number")
    for name in ("seconds", "bytes"):
        check_totals(metrics.values.get(name), name)
    others = metrics.values.get("metrics", {})
    known = {k: v for k, v in others.items() if v is not None} if isinstance(others, dict) else None
    check_totals(known, "metrics")
    # By some rules nothing has to sum to zero.
    for sketch in (metrics.theta, *([metrics.excess] if metrics.excess.size else [])):
        if sketch.shape != (SKETCH,) or not all_finite(sketch):
            raise BadMessage("a report with a broken sketch")


def check_totals(totals: Any, name: str) -> None:
    """Raises BadMessage unless it is a mapping to numbers."""
    if not isinstance(totals, dict) or not all(
        isinstance(n, (int, float)) and math.isfinite(n) for n in totals.values()
    ):
        raise BadMessage(f"a report whose {name} are not numbers")


def combine(round: int, reports: list[Metrics], whole: bool = True) -> Row:
    """One evaluation over all nodes; of a part of a view there is no conservation."""
    theta = np.stack([report.theta for report in reports])
    distances = np.linalg.norm(theta - theta.mean(0), axis=1)
    others = [report.values.get("metrics", {}) for report in reports]
    return Row(
        round=round,
        reported={name: COMBINE[FIGURES[name].over](told(reports, name)) for name in combined()},
        consensus=float(np.sqrt((distances**2).mean())),
        conservation=conservation(reports) if whole else None,
        metrics={name: spread_of([of.get(name) for of in others]) for name in others[0]},
    )


def told(reports: Sequence[Metrics], name: str) -> list[float | None]:
    """One figure of every client."""
    return [report.values.get(name) for report in reports]


def conservation(reports: list[Metrics]) -> float | None:
    """How far the sum of γ is from that of the gradients; None where they are not tracked."""
    if not all(report.excess.size for report in reports):
        return None
    excess = np.sum([report.excess for report in reports], axis=0)
    # Rounding is as large as what was added up: near an optimum γ vanishes, the gradients do not.
    sizes = [[report.values[name] or 0.0 for report in reports] for name in NORMS]
    scale = max(map(sum, sizes))
    return float(np.linalg.norm(excess) / scale) if scale else 0.0


def rounding_bound(
    dtype: str, rounds: int, nodes: int, noise_to_gradient: float | None = None, steps: int = 1
) -> float:
    """The largest conservation residual that rounding explains; above it, something else did it.

    Each round rounds once more, and a node's mixing adds up more terms where there are more nodes:
    measured, the residual grows about linearly with rounds and about with the root of the nodes,
    and at most with the root of the gradient `steps` of a round. It is relative to gradients, but
    what is rounded is γ with its noise, hence their ratio. One message that is lost or counted
    twice leaves far more, as does the noise that dp and --beta-own leave in the sum. So does a run
    that blew up and came back: its gradients were larger once.
    """
    larger = max(1.0, noise_to_gradient or 0.0)
    return GENEROUS * EPSILON[dtype] * max(1, rounds) * math.sqrt(nodes * steps) * larger


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """Mean, least and greatest; None where there is nothing to measure, or a value is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Spread(float(np.mean(known)), min(known), max(known))


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean; None where there is nothing to measure, or a value is missing."""
    spread = spread_of(values)
    return None if spread is None else spread.mean


COMBINE: dict[str | None, Callable[[Sequence[float | None]], Spread | float | None]] = {
    SPREAD: spread_of,
    MEAN: mean_of,
}


def summarise(
    blueprint: Blueprint,
    collection: Collection,
    outcome: Outcome,
    protection: Protection,
    warnings: list[str],
    *,
    rounds_done: int,
    total: float,
    start: float,
) -> Summary:
    """What came of a run.

    `rounds_done` is the round that all nodes have reached; `total` are the seconds that the run
    took, `start` those before its first round.
    """
    settings, history = blueprint.settings, collection.history
    last = history[-1] if history else Row(0)
    totals = [done.values for done in collection.done.values()] or latest_values(collection)
    return Summary(
        status=outcome.status,
        error=outcome.error,
        node=outcome.node,
        round=outcome.round,
        name=blueprint.name,
        rule=settings.rule,
        dataset=settings.dataset,
        partition=settings.partition,
        model=settings.model,
        nodes=blueprint.nodes,
        topology=blueprint.topology.name,
        rounds=settings.rounds,
        finish=settings.finishing,
        rounds_done=rounds_done,
        accuracy=last_and_best(history),
        loss=last.loss,
        consensus=last.consensus,
        conservation=last.conservation,
        metrics=last.metrics,
        seconds=Seconds(
            total=total,
            start=start,
            **{phase: phase_mean(totals, phase) for phase in PHASES},
            round=phase_mean(totals, "total") / max(1, last.round),
            cpu=phase_mean(totals, "cpu"),
        ),
        bytes=Bytes(noise=byte_sum(totals, "noise"), state=byte_sum(totals, "state")),
        memory=mean_of([values.get("memory") for values in latest_values(collection)]),
        peak=max((peak for of in totals if (peak := of.get("peak")) is not None), default=None),
        grade=protection.grade,
        noise_to_example=protection.noise_to_example,
        epsilon=protection.epsilon,
        warnings=warnings,
        history=history,
    )


def last_and_best(history: Sequence[Row]) -> Accuracy | None:
    """The accuracy at the end, and the best mean in any round; None where there is none."""
    last = history[-1].accuracy if history else None
    if last is None:
        return None
    best = max(row.accuracy.mean for row in history if row.accuracy is not None)
    return Accuracy(last.mean, last.min, last.max, best)


def largest_example(collection: Collection) -> float | None:
    """The largest size of a single example's gradient that any node reported, if any did."""
    sizes = [
        report.values.get("example_rms")
        for of_round in collection.reports.values()
        for report in of_round.values()
    ]
    return max((size for size in [*sizes, collection.example] if size is not None), default=None)


def latest_values(collection: Collection) -> list[dict[str, Any]]:
    """Each node's latest report, for a run that did not come to its end."""
    return [report.values for report in latest(collection.reports).values()]


def latest(reports: Mapping[int, Mapping[int, Report]]) -> dict[int, Report]:
    """Each node's last word, of reports by round and node."""
    found: dict[int, Report] = {}
    for round in sorted(reports):
        found |= reports[round]
    return found


def phase_mean(totals: Sequence[Mapping[str, Any]], phase: str) -> float:
    """Seconds that a node spent in a phase, on average."""
    return mean_of([values.get("seconds", {}).get(phase, 0.0) for values in totals]) or 0.0


def byte_sum(totals: Sequence[Mapping[str, Any]], kind: str) -> int:
    """Bytes of one kind that all nodes sent."""
    return sum(values.get("bytes", {}).get(kind, 0) for values in totals)
