"""How much noise hides an input in a gradient: what the size of the gradient alone does not tell.

The thresholds of the audit were measured on networks of a few thousand parameters. One with more of
them tells of the same input in more numbers, each of which may be small, and an attack averages
over all. Here is what anybody could get at most who knows the network, the label and what such data
looks like: the gradient is taken as linear in the input around the truth, and inputs as normally
distributed around the mean of their class. Nothing is attacked, and what becomes of it is not
decided here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lppa.node.datasets.samples import is_classes
from lppa.node.learner import DataLearner

PUBLIC, NUMBERS = 2000, 3_000_000  # rows that tell what such data looks like, and their numbers
MANY = 96  # directions in which it varies most: nine tenths of what images vary
FEW, SMALL = 48, 100_000  # and for networks of more parameters than that
LARGEST = 1_000_000  # parameters of a network that is looked at
STEP = 1e-2  # of a difference quotient, in deviations along a direction
GAIN = 2.0  # how many times less is left to guess: 3 dB
WORDS = 12  # of a sparse row that are looked at
MEASURED = 30_000  # parameters of the largest network that the thresholds were measured on


@dataclass(frozen=True)
class Variety:
    """How inputs differ from the mean of their class: orthogonal directions, and the variances.

    `beyond` is the variance in all other directions.
    """

    directions: Tensor
    variances: Tensor
    beyond: float


def variety(x: Tensor, labels: np.ndarray | None, most: int) -> Variety:
    """The main directions of some inputs, one a row, and not more than so many."""
    about = x.double()
    if labels is None:
        about = about - about.mean(0)
    else:
        for label in np.unique(labels):
            alike = torch.from_numpy(np.flatnonzero(labels == label))
            about[alike] = about[alike] - about[alike].mean(0)
    _, singular, directions = torch.linalg.svd(about, full_matrices=False)
    variances = singular.square() / max(1, len(about) - 1)
    count = min(most, int((variances > 1e-9 * variances[:1]).sum()))
    return Variety(directions[:count], variances[:count], float(variances[count:].sum()))


def noise_that_hides(gradient: Callable[[Tensor], Tensor], x: Tensor, about: Variety) -> float:
    """The deviation of noise on each number of a gradient that leaves half of x's variance.

    With less, who sees the gradient knows x better than by 3 dB beyond the mean of its class. NaN
    where the gradient has no value.
    """
    changes = []
    for direction, variance in zip(about.directions, about.variances, strict=True):
        step = (STEP * variance.sqrt() * direction).to(x.dtype).reshape(x.shape)
        changes.append((gradient(x + step) - gradient(x - step)) / (2 * STEP))
    if not changes:
        return 0.0
    told = torch.stack(changes)
    if not torch.isfinite(told).all():
        return math.nan
    strength, axes = torch.linalg.eigh((told @ told.T).double())
    # What is to be guessed along each axis of what the gradient tells.
    weights = axes.square().T @ about.variances
    goal = (float(weights.sum()) + about.beyond) / GAIN

    def left(deviation: float) -> float:
        return float((weights / (1 + strength.clamp(min=0) / deviation**2)).sum()) + about.beyond

    low, high = 0.0, len(changes) * math.sqrt(max(0.0, float(strength[-1])))
    if high == 0.0 or about.beyond >= goal:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) < goal else (low, middle)
    return high


def noise_that_hides_words(gradient: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """The same for a sparse row: the middle of what one of its words changes in the gradient.

    With less noise than that a word stands out of it by more than a deviation.
    """
    columns, values = x.col_indices(), x.values()
    whole, changes = gradient(x).double(), []
    for place in range(0, len(values), max(1, len(values) // WORDS)):
        without = values.clone()
        without[place] = 0.0
        lacking = torch.sparse_csr_tensor(
            x.crow_indices(), columns, without, x.shape, check_invariants=False
        )
        changes.append(float((gradient(lacking).double() - whole).norm()))
    return float(np.median(changes)) if changes else 0.0


def largest_noise(learner: DataLearner, theta: Tensor, rows: np.ndarray) -> float:
    """The noise that hides each of some training rows, one at a time.

    NaN where nobody can say how inputs differ, as they are no vectors of numbers, and where the
    network is too large to look.
    """
    train, model = learner.train, learner.model
    one, _ = train.take(rows[:1], theta)
    if not isinstance(one, Tensor) or not one.is_floating_point() or model.learned > LARGEST:
        return math.nan
    about = None
    if one.layout != torch.sparse_csr:
        public = train.rows[: min(PUBLIC, max(2, NUMBERS // one.numel()))]
        inputs, targets = train.take(public, theta)
        if not torch.isfinite(inputs).all():
            return math.nan
        classes = targets.cpu().numpy()
        labels = classes if classes.ndim == 1 and is_classes(classes) else None
        most = MANY if model.learned <= SMALL else FEW
        about = variety(inputs.reshape(len(public), -1), labels, most)
    training = model.module.training
    model.module.eval()  # nothing is drawn, and one example alone is no batch to normalise by
    try:
        found = [hides_one(learner, theta, row, about) for row in rows]
        return math.nan if any(map(math.isnan, found)) else max(found)
    finally:
        model.module.train(training)


def hides_one(learner: DataLearner, theta: Tensor, row: int, about: Variety | None) -> float:
    """The noise that hides a training row."""
    x, y = learner.train.take(np.array([row]), theta)

    def gradient(x: Tensor) -> Tensor:
        return learner.model.gradient(theta, x, y)[0][: learner.model.learned]

    return (
        noise_that_hides_words(gradient, x)
        if about is None
        else noise_that_hides(gradient, x, about)
    )


def spread(noise: float, example_rms: float, hidden_from: float, parameters: int) -> float:
    """How many times an example counts, so that so many times its size is the noise that hides it.

    Never less than once: the thresholds were measured, and this is reckoned. Where the noise is not
    known, as if all parameters told of it alike.
    """
    if math.isnan(noise):
        return max(1.0, math.sqrt(parameters / MEASURED))
    return max(1.0, noise / (hidden_from * example_rms)) if example_rms > 0 else 1.0
