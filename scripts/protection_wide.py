"""What a wide first layer gives away: an attack on it, beside the noise that is reckoned to hide.

Usage: python scripts/protection_wide.py [--seeds 6]
The first gradient of a client with one example in its batch, on a fresh network whose first layer
is dense. The attacker knows the network, the label, the noise's deviation and what such data looks
like. It takes the layer's errors as they are at its guess, reads the input off the layer's gradient
as the best linear guess, and goes on from there. Prints a table for docs/protection.md.
"""

from __future__ import annotations

import math
import statistics

import click
import torch
from torch import Tensor

from lppa.auditing.grade import HIDDEN_FROM
from lppa.node.learner import DataLearner, make_learner
from lppa.node.spread import largest_noise, spread
from lppa.protocol.settings import make_settings

CASES = (
    *(("digits", "mlp"), ("digits", "mlp:2048")),
    *(("mnist", "mlp"), ("mnist", "mlp:1024")),
)
RATIOS = (10.0, 20.0, 40.0, 80.0)
PUBLIC, TIMES = 2000, 12


def slots(learner: DataLearner) -> tuple[slice, slice, tuple[int, ...]]:
    """Where the first layer's weights and biases lie in a gradient."""
    weights, biases = learner.model.layout[:2]
    return slice(weights.start, weights.stop), slice(biases.start, biases.stop), weights.shape


def rebuilt(
    learner: DataLearner, theta: Tensor, y: Tensor, seen: Tensor, sigma: float, prior: Tensor
) -> Tensor:
    """The best linear guess of the input, again and again; `prior` are inputs of its class."""
    weights, biases, shape = slots(learner)
    mean = prior.mean(0)
    precision = torch.linalg.inv(torch.cov(prior.T) + 1e-3 * torch.eye(prior.shape[1]))
    layer, x = seen[weights].reshape(shape), mean
    for _ in range(TIMES):
        error = learner.model.gradient(theta, x[None], y)[0][biases]
        told = precision @ mean + layer @ error / sigma**2
        known = precision + float(error @ error) / sigma**2 * torch.eye(len(mean))
        x = torch.linalg.solve(known, told)
    return x


def gain(learner: DataLearner, ratio: float, seed: int) -> float:
    """How much nearer than the mean of its class an input is rebuilt, in dB."""
    theta, rows = learner.start(), learner.batches(0)
    x, y = learner.train.take(rows, theta)
    public, labels = learner.test.take(learner.test.rows[:PUBLIC], theta)
    alike = public.flatten(1)[labels == y]
    flat = x.flatten()
    g = learner.model.gradient(theta, flat[None], y)[0]
    sigma = ratio * float(g.double().square().mean().sqrt())
    seen = g + sigma * torch.randn(len(g), generator=torch.Generator().manual_seed(seed))
    found = rebuilt(learner, theta, y, seen, sigma, alike)
    wrong, guess = (float((v - flat).square().sum()) for v in (found, alike.mean(0)))
    return 10 * math.log10(guess / wrong)


@click.command(help=__doc__)
@click.option("--seeds", default=6, show_default=True, help="Victims of each network.")
def main(seeds: int) -> None:
    torch.set_num_threads(1)
    print("| network | parameters | spread | " + " | ".join(f"r = {r:g}" for r in RATIOS) + " |")
    print("|---" * (3 + len(RATIOS)) + "|")
    for dataset, model in CASES:
        learners = [victim(dataset, model, seed) for seed in range(1, seeds + 1)]
        wide = max(own_spread(learner) for learner in learners)
        cells = []
        for ratio in RATIOS:
            gains = [gain(learner, ratio, seed) for seed, learner in enumerate(learners)]
            cells.append(f"{statistics.median(gains):.1f} / {max(gains):.1f}")
        print(f"| {dataset} {model} | {learners[0].size:,} | {wide:.2g} | {' | '.join(cells)} |")


def victim(dataset: str, model: str, seed: int) -> DataLearner:
    """A client with one example in its batch."""
    told = {"dataset": dataset, "model": model, "batch": 1, "seed": seed}
    learner = make_learner(make_settings(told), 0, 5, seed, torch.device("cpu"))
    assert isinstance(learner, DataLearner)
    return learner


def own_spread(learner: DataLearner) -> float:
    """How many times an example of this fresh network counts."""
    theta = learner.start()
    noise = largest_noise(learner, theta, learner.batches(0))
    return spread(noise, learner.example_rms(theta, 0), HIDDEN_FROM, learner.size)


if __name__ == "__main__":
    main()
