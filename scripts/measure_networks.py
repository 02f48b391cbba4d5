"""Measures what `lppa/running/known_networks.py` knows of each network on each data set.

Usage: python scripts/measure_networks.py [DATASET/NETWORK ...]
One client with all the data and the default steps. Prints a line for each: parameters, rows, the
largest size of an example's gradient, the size of the weights, and the noise that hides the largest
examples of each look. That noise over twenty times the size in the table is the network's spread,
where it is more than a tenth above 1. Whole runs look at more examples and see larger ones: up to
twice what is printed here.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from lppa.auditing.grade import HIDDEN_FROM
from lppa.node.learner import make_learner
from lppa.node.spread import largest_noise, spread
from lppa.protocol.settings import make_settings
from lppa.running.known_networks import NETWORKS

LOOKS = (0, 50, 100, 200, 500, 800)
EXAMPLES, HARD = 64, 2


def rms(vector: torch.Tensor) -> float:
    """Root mean square."""
    return float(vector.double().square().mean().sqrt())


def measure(dataset: str, network: str) -> tuple[int, int, float, float, float]:
    """Parameters, rows, the largest example's gradient, the weights at the end, and the noise."""
    settings = make_settings({"dataset": dataset, "model": network, "seed": 1})
    learner = make_learner(settings, 0, 1, 1, torch.device("cpu"))
    rng = np.random.default_rng(0)
    theta, largest, noise = learner.start(), 0.0, 0.0
    for step in range(max(LOOKS) + 1):
        if step in LOOKS:
            rows, sizes = rng.choice(len(learner.train.data), EXAMPLES, replace=False), []
            for row in rows:
                x, y = learner.train.take(np.array([row]), theta)
                sizes.append(rms(learner.model.gradient(theta, x, y)[0]))
            largest = max(largest, *sizes)
            noise = max(noise, largest_noise(learner, theta, rows[np.argsort(sizes)[-HARD:]]))
        theta = theta - settings.lr * learner.gradient(theta, step)
    return learner.size, len(learner.train.data), largest, rms(theta), noise


def main() -> None:
    """Measures those that are named, or all."""
    torch.set_num_threads(1)
    wanted = [tuple(name.split("/")) for name in sys.argv[1:]] or list(NETWORKS)
    for dataset, network in wanted:
        parameters, rows, largest, weights, noise = measure(dataset, network)
        size = NETWORKS[dataset, network].example_rms
        found = spread(noise, size, HIDDEN_FROM, parameters)
        print(
            f"{dataset}/{network}: {parameters:,} {rows:,} {largest:.3g} {weights:.3g} "
            f"{noise:.3g} {found:.3g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
