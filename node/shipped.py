"""The problem that settings name: a data set, a network, and the loss that goes with the targets.

How a client learns from it is `learner`'s.
"""

from __future__ import annotations

from functools import partial

import torch

from lppa.models.networks import build
from lppa.models.problem import Metric, Problem, r2, rmse, squared_error
from lppa.node.datasets import chosen_dataset
from lppa.node.datasets.samples import Samples
from lppa.protocol.settings import Settings, drawn


def shipped_problem(settings: Settings, start: int) -> Problem:
    """A data set and a network by their names; `start` is what the network is drawn from."""
    dataset = chosen_dataset(settings)
    generator = torch.Generator().manual_seed(start)
    weights = drawn(settings.init_weights)
    module = build(settings.model, dataset.shape, dataset.classes or 1, generator, weights)
    data = (dataset.train, dataset.test)
    if dataset.classes:
        return Problem(module, *data, name=settings.dataset)
    # The network learns the standardised target; people are told in its own units.
    unit = dataset.train.y_std if isinstance(dataset.train, Samples) else 1.0
    metrics: dict[str, Metric] = {"rmse": partial(rmse, unit=unit), "r2": r2}
    return Problem(module, *data, squared_error, metrics, settings.dataset)
