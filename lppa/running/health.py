"""Whether a run is what it seems: looks at its figures when it is over, and says what is wrong.

Every finding names what was seen and what to try. Only figures that clients report are looked at;
what the run protects is the audit's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from lppa.coordinator.figures import Row
from lppa.coordinator.metrics import Collection, rounding_bound
from lppa.coordinator.witness import statements
from lppa.models.rules import facts_of
from lppa.protocol.messages import Metrics
from lppa.protocol.settings import Settings

NEAR_CHANCE = 0.1  # of the way from chance to perfect
ENOUGH_STEPS = 100  # after fewer, being near chance is no illness
LOST = 0.2  # of what was gained over chance
LOST_POINTS = 0.05
DEAD = 0.5  # share of a layer's units
APART = 0.2  # consensus distance over the size of the models
GROWTH = 2.0  # of the consensus distance, over the second half of a run
WILD = 10.0  # a loss that only wrong certainty has: the logarithm of 22,000 classes
FAR = 10.0  # times the largest of the others
ENOUGH_LOOKS = 3  # evaluations that tell whether a client's gradients are large or just were once


@dataclass(frozen=True)
class Finding:
    """Something wrong, in a sentence; `ill` where the run is not what it seems."""

    text: str
    ill: bool = True


def examine(collection: Collection, settings: Settings, steps: int) -> list[Finding]:
    """What is wrong with a run that came to its end, `steps` being its gradient steps in all."""
    history = collection.history
    untested = Finding(
        "not all models of the last round were tested, or a report was refused: look into the logs"
    )
    if not history:
        return [untested]
    reports = collection.reports[history[-1].round]
    last = [reports[node] for node in sorted(reports)]
    return [
        *([untested] if history[-1].round < settings.total else []),
        *_accuracy(history, last, settings, steps),
        *_conservation(history, settings, collection.nodes, steps),
        *_consensus(history, last),
        *_dead(last, settings),
        *_strange_gradients(collection),
        *_strange_models(last),
        *_statements(collection),
    ]


def _values(reports: Sequence[Metrics], name: str) -> list[float]:
    return [r.values[name] for r in reports if r.values.get(name) is not None]


def _accuracy(
    history: Sequence[Row], last: Sequence[Metrics], settings: Settings, steps: int
) -> list[Finding]:
    accuracy, chances = history[-1].accuracy, _values(last, "chance")
    if accuracy is None or not chances:
        return []
    now, chance = accuracy.mean, max(chances)
    best = max(row.accuracy.mean for row in history if row.accuracy is not None)
    near = chance + NEAR_CHANCE * (1.0 - chance)
    # Who was never better than chance has nothing to lose, and a few test rows are soon lost.
    by_chance = LOST_POINTS + (settings.eval_samples**-0.5 if settings.eval_samples else 0.0)
    if best >= near and best - now > max(by_chance, LOST * (best - chance)):
        return [
            Finding(
                f"accuracy fell from {best:.1%} to {now:.1%}: try a smaller --lr or --beta, or "
                "fewer --local-steps"
            )
        ]
    if now < near:
        return [
            Finding(
                f"accuracy {now:.1%} is near chance ({chance:.1%}, always the same answer): try "
                f"{_toward_less_loss(history, last)}",
                ill=steps >= ENOUGH_STEPS,
            )
        ]
    return []


def _toward_less_loss(history: Sequence[Row], last: Sequence[Metrics]) -> str:
    """What to change so that something is learned, by what became of the loss."""
    loss, first = history[-1].loss, history[0].loss
    # Of answers drawn by lot: whoever is far above that has been thrown there.
    if loss is None or loss > WILD or (first is not None and loss > GROWTH * first):
        return "a smaller --lr or --beta"
    shares = _values(last, "dead")
    if shares and median(shares) > DEAD:
        return "a smaller --lr or --beta, or another --seed"
    return "a larger --lr or more --rounds"


def _conservation(
    history: Sequence[Row], settings: Settings, nodes: int, steps: int
) -> list[Finding]:
    rule = facts_of(settings.rule)
    cancels = rule.noiseless or (rule.cancels and settings.beta_own == 0)
    now, per_round = history[-1], max(1, steps // settings.rounds)
    residual, ratio = now.conservation, now.noise_to_gradient
    bound = rounding_bound(settings.dtype, now.round, nodes, ratio, per_round)
    if not cancels or residual is None or residual <= bound:
        return []
    return [
        Finding(
            f"the conservation residual is {residual:.2g}, and rounding explains {bound:.2g}: "
            "noise did not cancel, or a client does not follow the protocol; try --dtype float64, "
            "and look into the nodes' logs"
        )
    ]


def _consensus(history: Sequence[Row], last: Sequence[Metrics]) -> list[Finding]:
    apart = [row.consensus or 0.0 for row in history]
    sizes = _values(last, "theta_norm")
    if len(apart) < 4 or not sizes or apart[-1] < max(apart):
        return []
    middle = apart[len(apart) // 2]
    if apart[-1] < GROWTH * middle or apart[-1] < APART * float(np.mean(sizes)):
        return []
    return [
        Finding(
            f"clients' models drift apart: the consensus distance grew from {middle:.3g} to "
            f"{apart[-1]:.3g} and did not stop; try a smaller --beta, --lr or --local-steps, or a "
            "denser --topology"
        )
    ]


def _dead(last: Sequence[Metrics], settings: Settings) -> list[Finding]:
    shares = _values(last, "dead")
    if not shares or median(shares) <= DEAD:
        return []
    more = "" if settings.normalize else ", and --normalize"
    return [
        Finding(
            f"{median(shares):.0%} of a layer's units are dead, zero for all inputs: try a smaller "
            f"--lr or --beta{more}"
        )
    ]


def _strange_gradients(collection: Collection) -> list[Finding]:
    """A client whose gradients are mostly far larger than all others'.

    Single gradients tell nothing: that of a small batch may be many times another's at any time.
    """
    looks = [one for one in collection.reports.values() if len(one) == collection.nodes]
    looks = [
        one for one in looks if all(r.values["gradient_norm"] is not None for r in one.values())
    ]
    if collection.nodes < 3 or len(looks) < ENOUGH_LOOKS:
        return []
    sizes = [
        median(one[node].values["gradient_norm"] for one in looks)
        for node in range(collection.nodes)
    ]
    return _far_from_all("gradients are", sizes)


def _strange_models(last: Sequence[Metrics]) -> list[Finding]:
    """A client whose model is far further off than all others'."""
    if len(last) < 3:
        return []
    theta = np.stack([report.theta for report in last])
    middle = np.median(theta, axis=0)
    distances = np.linalg.norm(theta - middle, axis=1).tolist()
    return _far_from_all("model is", distances, APART * float(np.linalg.norm(middle)))


def _statements(collection: Collection) -> list[Finding]:
    """What clients said about each other, once each; one witness alone makes no illness."""
    said: dict[str, bool] = {}
    for round in sorted(collection.reports):
        said |= dict(statements(collection.reports[round]))
    return [Finding(text, ill) for text, ill in said.items()]


def _far_from_all(what: str, values: Sequence[float], least: float = 0.0) -> list[Finding]:
    node = max(range(len(values)), key=values.__getitem__)
    others = max(value for k, value in enumerate(values) if k != node)
    if values[node] <= least or values[node] <= FAR * others:
        return []
    return [
        Finding(
            f"node {node} is far from all others: its {what} {values[node]:.3g} "
            f"against at most {others:.3g}; look at its data and its log"
        )
    ]
