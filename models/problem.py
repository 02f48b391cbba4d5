"""A learning problem: a network, its loss, its data, and what it is judged by.

Whoever has a problem of their own makes one of these. How data is split over clients, and how a
network becomes one flat vector, is not decided here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from lppa.protocol.errors import WrongUse

Loss = Callable[[Any, Tensor], Tensor]
"""From a network's output and the targets to the mean loss over a batch."""

Metric = Callable[[Tensor, Tensor], float]
"""From the outputs and the targets of the whole test part to a figure."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What is learned.

    `module` is a network, or a function that makes one; a function is called with PyTorch's random
    numbers seeded by the run, so that the start follows from the seed. `train` and `test` are
    (inputs, targets) as arrays or tensors, or any `torch.utils.data.Dataset` of such pairs; a list
    of them as `train` has one for each client, else it is split over them. Of `metrics`, one that
    is called "accuracy" is shown first everywhere; without any, and with cross-entropy on class
    numbers, that one is taken.
    """

    module: nn.Module | Callable[[], nn.Module]
    train: Any
    test: Any
    loss: Loss = cross_entropy
    metrics: Mapping[str, Metric] | None = None
    name: str = "problem"

    def __post_init__(self) -> None:
        if not callable(self.module):
            raise WrongUse("a problem's `module` is an nn.Module, or a function that makes one")
        if not callable(self.loss):
            raise WrongUse("a problem's `loss` is a function of output and targets")
        for name, metric in (self.metrics or {}).items():
            if not isinstance(name, str) or not callable(metric):
                raise WrongUse(f"a problem's metric {name!r} is not a name and a function")

    def build(self, seed: int) -> nn.Module:
        """The network at its start; one that was made already starts as it is."""
        if isinstance(self.module, nn.Module):
            # A copy: whoever trains it takes it over.
            return copy.deepcopy(self.module)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = self.module()
        if not isinstance(made, nn.Module):
            raise WrongUse(
                f"the problem's `module` function made a {type(made).__name__}, not an nn.Module"
            )
        return made

    def figures(self, targets: Tensor) -> Mapping[str, Metric]:
        """The metrics by name."""
        if self.metrics is not None:
            return self.metrics
        classes = not targets.is_floating_point() and targets.dim() == 1
        return {"accuracy": accuracy} if self.loss is cross_entropy and classes else {}

    def per_client(self) -> Sequence[Any] | None:
        """The training data of each client, None where there is one data set to be split."""
        return self.train if isinstance(self.train, list) else None


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error of a network with one output."""
    return mse_loss(outputs.flatten(), targets)


def rmse(outputs: Tensor, targets: Tensor, unit: float = 1.0) -> float:
    """The root of the mean squared error, times what a target of 1 stands for."""
    return unit * float((outputs.flatten() - targets).double().square().mean().sqrt())


def r2(outputs: Tensor, targets: Tensor) -> float:
    """The share of the targets' variance that is explained: 1 at best, 0 for their mean.

    NaN where they do not vary.
    """
    wrong = (outputs.flatten() - targets).double().square().sum()
    spread = (targets.double() - targets.double().mean()).square().sum()
    return float(1.0 - wrong / spread) if spread > 0 else math.nan


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """The share of rows whose largest output is that of their class."""
    return float((outputs.argmax(1) == targets).double().mean())
