"""The networks a client can train, by name, each sized to the data's shape.

Plain `torch.nn` modules and how their first weights are drawn; nothing about training, and nothing
about the flat vector, which is `flat`'s.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

import torch
from torch import nn

from lppa.models.layers import InputLinear
from lppa.protocol.errors import WrongUse

# Not a setting: torch has one default generator per process, so two threads that build a network
# at once would draw from each other's numbers.
_ONE_AT_A_TIME = threading.Lock()


def build(name: str, shape: Sequence[int], classes: int, generator: torch.Generator) -> nn.Module:
    """The network `name` with first weights that depend on the generator and on nothing else.

    Takes one number from the generator; torch's own generators are left as they were.
    """
    if name not in NETWORKS:
        raise WrongUse(f"unknown model {name}: use one of {', '.join(NETWORKS)}")
    seed = torch.randint(2**63 - 1, (1,), generator=generator, device=generator.device)
    # On the CPU whatever the device is, so that the weights are the same on every machine.
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # torch.manual_seed would seed the GPUs as well, and fork_rng would not put them back.
        torch.default_generator.manual_seed(int(seed))
        return NETWORKS[name](shape, classes)


def cnn(shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions (max-pool, ReLU) and one linear layer, for images of 4 by 4 or more."""
    channels, height, width = _image("cnn", shape, smallest=4)
    kernel = 5 if min(height, width) >= 16 else 3
    return nn.Sequential(
        # Pooling first gives the same numbers as after the ReLU, which then sees a quarter of them.
        nn.Conv2d(channels, 16, kernel, padding=kernel // 2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel, padding=kernel // 2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), classes),
    )


def mlp(shape: Sequence[int], classes: int) -> nn.Module:
    """Two hidden layers of 128 and 64, for images, feature vectors and sparse rows."""
    return nn.Sequential(
        InputLinear(math.prod(shape), 128),
        nn.ReLU(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


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
