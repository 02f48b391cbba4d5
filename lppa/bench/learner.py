"""What clients learn in `lppa bench`: random images, since their values do not matter there."""

from __future__ import annotations

import numpy as np
import torch

from lppa.models.flat import FlatModel
from lppa.models.networks import build
from lppa.models.problem import Problem
from lppa.node.batches import Batches
from lppa.node.datasets import Samples
from lppa.node.learner import DataLearner, Part

CLASSES, ROWS = 10, 2048
SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28)}


def random_learner(
    me: int, model: str, batch: int, dataset: str = "mnist", rows: int = ROWS
) -> DataLearner:
    """A network on random images of a data set's shape."""
    random, shape = np.random.default_rng(me), SHAPES[dataset]
    images = random.random((rows, *shape), dtype=np.float32)
    samples = Samples(images, random.integers(0, CLASSES, rows))
    module = build(model, shape, CLASSES, torch.Generator().manual_seed(0))
    everything = Part(samples, np.arange(rows))
    return DataLearner(
        FlatModel(module, torch.float32, torch.device("cpu")),
        Problem(module, samples, samples),
        everything,
        everything,
        Batches(everything.rows, batch, 0, me),
        rows // batch,
    )
