"""A residual network with BatchNorm on images of CIFAR-10's shape.

    lppa run --problem residual_net.py:problem -n 4 --topology ring

The images are made up: four kinds of coloured stripes under noise. Put your own pair of arrays in
the place of `images()`.
"""

import torch
from torch import nn

import lppa


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm_one, self.norm_two = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm_one(self.one(x)))
        return torch.relu(x + self.norm_two(self.two(y)))


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        Block(8),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(8 * 4 * 4, 4),
    )


def images(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 4, (count,), generator=draw)
    wave = torch.sin(torch.arange(32.0) * 0.8)
    across, down = wave.expand(32, 32), wave.expand(32, 32).T
    stripes = torch.stack([across, down, -across, across * down])[kind]
    noise = torch.randn(count, 3, 32, 32, generator=draw)
    return stripes[:, None] + noise, kind


def problem() -> lppa.Problem:
    return lppa.Problem(network, train=images(800, 1), test=images(200, 2), name="stripes")


if __name__ == "__main__":
    run = lppa.run(problem, nodes=4, topology="ring", rounds=20, seed=1, quiet=False)
    print(run)
