"""The networks a client can train, by name, each sized to the data's shape.

Plain `torch.nn` modules and how their first weights are drawn; nothing about training, and nothing
about the flat vector, which is `flat`'s.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from lppa.models.layers import HalvingPool, InputLinear
from lppa.protocol.errors import WrongUse

# Not a setting: torch has one default generator per process, so two threads that build a network
# at once would draw from each other's numbers.
_ONE_AT_A_TIME = threading.Lock()


Weights = tuple[float, float] | None
"""Deviation of normally distributed first weights, and their biases; None: as PyTorch draws."""


def build(
    name: str,
    shape: Sequence[int],
    classes: int,
    generator: torch.Generator,
    weights: Weights = None,
) -> nn.Module:
    """The network `name` with first weights that depend on the generator and on nothing else.

    Takes one number from the generator; torch's own generators are left as they were.
    """
    seed = torch.randint(2**63 - 1, (1,), generator=generator, device=generator.device)
    # On the CPU whatever the device is, so that the weights are the same on every machine.
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # torch.manual_seed would seed the GPUs as well, and fork_rng would not put them back.
        torch.default_generator.manual_seed(int(seed))
        network = make(name, shape, classes)
        if weights is not None:
            _draw_anew(network, *weights)
        return network


def make(name: str, shape: Sequence[int], classes: int) -> nn.Module:
    """The network `name`, which may have widths in it, as `mlp:32-16-8` has."""
    kind, colon, widths = name.partition(":")
    if colon and kind == "mlp":
        return mlp(shape, classes, [int(width) for width in widths.split("-")])
    if name not in NETWORKS:
        raise WrongUse(f"unknown model {name}: use one of {', '.join(NETWORKS)}, or mlp:32-16-8")
    return NETWORKS[name](shape, classes)


def _draw_anew(network: nn.Module, deviation: float, bias: float) -> None:
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0.0, deviation)
        else:
            nn.init.constant_(parameter, bias)


def cnn(shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions (max-pool, ReLU) and one linear layer, for images of 4 by 4 or more."""
    channels, height, width = _image("cnn", shape, smallest=4)
    kernel = 5 if min(height, width) >= 16 else 3
    return nn.Sequential(
        # Pooling first gives the same numbers as after the ReLU, which then sees a quarter of them.
        nn.Conv2d(channels, 16, kernel, padding=kernel // 2),
        HalvingPool(),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel, padding=kernel // 2),
        HalvingPool(),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), classes),
    )


def cnn_6_16(shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions of 6 and 16 channels, then 120 and 84 units: LeNet-5 with ReLU.

    The network of the benchmark that the paper takes its splits from (Li et al., 2022).
    """
    channels, height, width = _image("cnn-6-16", shape, smallest=4)
    large = min(height, width) >= 16
    kernel, padding = (5, 0) if large else (3, 1)
    height, width = (((side - 4) // 2 - 4) // 2 if large else side // 4 for side in (height, width))
    return nn.Sequential(
        nn.Conv2d(channels, 6, kernel, padding=padding),
        HalvingPool(),
        nn.ReLU(),
        nn.Conv2d(6, 16, kernel, padding=padding),
        HalvingPool(),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * height * width, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def mlp(shape: Sequence[int], classes: int, widths: Sequence[int] = (128, 64)) -> nn.Module:
    """Hidden layers of these widths, for images, feature vectors and sparse rows."""
    layers: list[nn.Module] = [InputLinear(math.prod(shape), widths[0]), nn.ReLU()]
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


def lenet(shape: Sequence[int], classes: int) -> nn.Module:
    """The network that gradient inversion is usually shown on (Zhu et al., 2019).

    Sigmoids, strides instead of pooling, and wide uniform weights keep its second derivatives
    smooth and large, which is what an attack by optimisation needs.
    """
    channels, height, width = _image("lenet", shape, smallest=1)
    network = nn.Sequential(
        nn.Conv2d(channels, 12, 5, padding=2, stride=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, padding=2, stride=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, padding=2, stride=1),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(12 * math.ceil(height / 4) * math.ceil(width / 4), classes),
    )
    for parameter in network.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return network


NETWORKS: dict[str, Callable[[Sequence[int], int], nn.Module]] = {
    "cnn": cnn,
    "cnn-6-16": cnn_6_16,
    "mlp": mlp,
    "lenet": lenet,
}


def _image(name: str, shape: Sequence[int], smallest: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < smallest:
        raise WrongUse(
            f"model {name} needs images (channels, height, width) with sides of at least "
            f"{smallest}, the data has shape {tuple(shape)}: use mlp"
        )
    channels, height, width = shape
    return channels, height, width
