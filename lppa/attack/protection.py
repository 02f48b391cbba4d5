"""How much noise it takes: attacks on gradients that have a chosen amount of noise in them.

No run is needed. The gradient, the law of the noise, the attacks and the scores are those of a run
and of `lppa attack`; only the scale of the noise is chosen here, as a ratio to the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lppa.attack.inversion import invert
from lppa.attack.labels import label_guesses
from lppa.attack.problem import Problem
from lppa.attack.restarts import Options
from lppa.attack.scene import PUBLIC, precision_root
from lppa.attack.score import baselines, score
from lppa.attack.target import Target, Term, Victim
from lppa.node.datasets import Dataset
from lppa.node.expansion import Expander, derive_seed
from lppa.node.learner import DataLearner, make_learner
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings

NODES = 5
LEFT = 2 * (NODES - 2)
"""Draws of noise that a neighbour in a full graph does not know: in and out of all others."""
CLASS_PRIOR = "likelihood+class"
"""`likelihood` with the prior of the label that it reads off, in place of that of all data."""


@dataclass(frozen=True, eq=False)
class Exposed:
    """What a victim would show without noise, and the truth behind it.

    `rms` is what ratios count against: the gradient's root mean square over all parameters, and
    for a change of the gradient that of two independent gradients, √2 times as large. Inputs are
    (batches, 1, *shape).
    """

    target: Target
    rms: float
    inputs: Tensor
    labels: Tensor


def first_gradient(settings: Settings, seed: int) -> Exposed:
    """The first client's first gradient in a run of five with this seed."""
    client = _Client(settings, 0, seed)
    theta = client.start
    return _exposed([Term(1.0, theta, 0)], [client.gradient(theta)], client)


def first_change(settings: Settings, seed: int) -> Exposed:
    """The change of the first client's gradient after one step of five clients on a full graph.

    Their noise is not in the step: on a full graph it cancels when models are mixed.
    """
    clients = [_Client(settings, me, seed) for me in range(NODES)]
    before = clients[0].start
    gradients = [client.gradient(before) for client in clients]
    after = before - settings.lr * torch.stack(gradients).mean(0)
    terms = [Term(1.0, after, 1), Term(-1.0, before, 0)]
    return _exposed(terms, [clients[0].gradient(after), gradients[0]], clients[0])


OBSERVED: dict[str, Callable[[Settings, int], Exposed]] = {
    "gradient": first_gradient,
    "difference": first_change,
}


class _Client:
    """A client of a run, that remembers the batches it has used."""

    def __init__(self, settings: Settings, me: int, seed: int) -> None:
        learner = make_learner(settings, me, NODES, seed, torch.device("cpu"))
        if not isinstance(learner, DataLearner):
            raise WrongUse(f"{settings.dataset} has no examples to attack: use another --dataset")
        self.learner = learner
        self.rows: list[np.ndarray] = []
        self.learner.on_batch = self.rows.append
        self.start = self.learner.start()

    def gradient(self, theta: Tensor) -> Tensor:
        """On the next batch."""
        return self.learner.gradient(theta, len(self.rows))


def _exposed(terms: list[Term], gradients: list[Tensor], client: _Client) -> Exposed:
    pairs = zip(terms, gradients, strict=True)
    vector = sum((term.coefficient * gradient for term, gradient in pairs), torch.zeros(()))
    rms = math.sqrt(sum(root_mean_square(gradient) ** 2 for gradient in gradients))
    taken = [client.learner.train.data.take(rows, vector.dtype) for rows in client.rows]
    inputs, labels = (torch.stack(parts) for parts in zip(*taken, strict=True))
    return Exposed(Target(vector, tuple(terms)), rms, inputs, labels)


def root_mean_square(vector: Tensor) -> float:
    """Of all coordinates together."""
    return float(vector.double().square().mean().sqrt())


def with_noise(exposed: Exposed, ratio: float, seed: int) -> Target:
    """What a neighbour in a full graph of five is left with, when it has taken out its own noise.

    The deviation of the rest is `ratio` times the gradient's rms. One seed gives the same draws
    for every ratio, so that curves over the ratio differ in nothing else.
    """
    target, sigma = exposed.target, ratio * exposed.rms
    expander = Expander("laplace", sigma / math.sqrt(2 * LEFT), len(target.vector))
    edges = [(1 if k % 2 else -1, derive_seed(seed, ("edge", k))) for k in range(LEFT)]
    noise = torch.from_numpy(expander.total(edges, 0) * expander.step)
    return replace(target, vector=target.vector + noise.to(target.vector.dtype), sigma=sigma)


def class_priors(dataset: Dataset, about: Victim) -> list[Victim]:
    """What is public, for each label on its own: mean and covariance of the test part's rows."""
    rows = np.arange(min(PUBLIC, len(dataset.test)))
    x, y = dataset.test.take(rows, about.dtype)
    kinds = (x[y == label] for label in range(dataset.classes))
    return [
        replace(about, prior_mean=kind.mean(0), prior_root=precision_root(kind.flatten(1)))
        for kind in kinds
    ]


def read_label(target: Target, about: Victim) -> Tensor:
    """The label of a single image as every attack reads it off the last layer, without a search."""
    return label_guesses(Problem(target, about))[0][0, 0]


def attack(
    name: str, target: Target, about: Victim, classes: list[Victim], options: Options
) -> tuple[Tensor, Tensor, float]:
    """Images, labels and seconds of an attack by name; all that it may know is in its arguments."""
    prior = about
    if name == CLASS_PRIOR:
        name, prior = "likelihood", classes[int(read_label(target, about))]
    found = invert(name, target, prior, options)
    if found.images is None:
        raise WrongUse(f"{name} makes no images to judge: use another attack")
    return found.images, found.labels, found.seconds


def judge(
    exposed: Exposed, images: Tensor, labels: Tensor, about: Victim, classes: list[Victim]
) -> list[dict[str, Any]]:
    """The figures of each image beside those of the mean image, and of its own label's mean."""
    judged = []
    for k, (truth, true_label) in enumerate(zip(exposed.inputs, exposed.labels, strict=True)):
        figures = score(images[k], truth, about, labels[k], true_label)
        mean = baselines(truth, about)["mean"]
        own = baselines(truth, classes[int(true_label)])["mean"]
        judged.append(
            {
                "image": k,
                "psnr": figures["psnr"],
                "mean_psnr": mean["psnr"],
                "class_psnr": own["psnr"],
                "ssim": figures["ssim"],
                "mean_ssim": mean["ssim"],
                "label_right": int(figures["label_accuracy"]),
            }
        )
    return judged
