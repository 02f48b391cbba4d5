"""Measures what `lppa/running/known_networks.py` knows of each network on each data set.

Usage: python scripts/measure_networks.py [DATASET/NETWORK ...]
One client with all the data and the default steps. Prints a line for each: parameters, rows, the
largest size of an example's gradient, the size of the weights. Whole runs look at more examples and
see larger ones: up to twice what is printed here.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from lppa.node.learner import make_learner
from lppa.protocol.settings import make_settings
from lppa.running.known_networks import NETWORKS

LOOKS = (0, 50, 100, 200, 500, 800)
EXAMPLES = 64


def rms(vector: torch.Tensor) -> float:
    """Root mean square."""
    return float(vector.double().square().mean().sqrt())


def measure(dataset: str, network: str) -> tuple[int, int, float, float]:
    """Parameters, rows, the largest example's gradient, and the weights at the end."""
    settings = make_settings({"dataset": dataset, "model": network, "seed": 1})
    learner = make_learner(settings, 0, 1, 1, torch.device("cpu"))
    rng = np.random.default_rng(0)
    theta, largest = learner.start(), 0.0
    for step in range(max(LOOKS) + 1):
        if step in LOOKS:
            for row in rng.choice(len(learner.train.data), EXAMPLES, replace=False):
                x, y = learner.train.take(np.array([row]), theta)
                largest = max(largest, rms(learner.model.gradient(theta, x, y)[0]))
        theta = theta - settings.lr * learner.gradient(theta, step)
    return learner.size, len(learner.train.data), largest, rms(theta)


def main() -> None:
    """Measures those that are named, or all."""
    torch.set_num_threads(1)
    wanted = [tuple(name.split("/")) for name in sys.argv[1:]] or list(NETWORKS)
    for dataset, network in wanted:
        parameters, rows, largest, weights = measure(dataset, network)
        print(f"{dataset}/{network}: {parameters:,} {rows:,} {largest:.3g} {weights:.3g}")


if __name__ == "__main__":
    main()
