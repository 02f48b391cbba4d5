"""A network over one flat parameter vector, which is what clients send, mix and step on.

The vector is the caller's: a `FlatModel` looks at it through the network's parameters, and neither
keeps nor changes it. No optimiser is here, since a step on a flat vector is one line.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class Slot(NamedTuple):
    """Where one parameter lies in the flat vector."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]


class FlatModel:
    """Runs a network on any flat vector of its size, without copying it.

    Takes the module over: its parameters become views and stand for whatever was bound last.
    """

    def __init__(
        self, module: nn.Module, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> None:
        self.module = module.to(device=device, dtype=dtype)
        named = list(self.module.named_parameters())
        if set(self.module.state_dict()) != {name for name, _ in named}:
            # Running averages and the like would stay behind when clients mix their vectors.
            raise ValueError("a flat model cannot hold buffers or parameters under two names")
        self._parameters = [parameter for _, parameter in named]
        self.layout = _layout(named)
        self.size = self.layout[-1].stop
        self._initial = torch.cat([p.detach().reshape(-1) for p in self._parameters])
        self.bind(self._initial)

    def vector(self) -> Tensor:
        """A fresh copy of the parameters that the module came with."""
        return self._initial.clone()

    def bind(self, theta: Tensor) -> None:
        """Make every parameter a view of theta."""
        if theta.shape != (self.size,) or theta.dtype != self._initial.dtype:
            raise ValueError(
                f"this model needs a vector of {self.size} {self._initial.dtype}, "
                f"got {tuple(theta.shape)} {theta.dtype}"
            )
        for parameter, view in zip(self._parameters, self._views(theta), strict=True):
            parameter.data = view

    def gradient(self, theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, float]:
        """The flat gradient of the batch's mean cross-entropy at theta, and the loss itself."""
        self.bind(theta)
        flat = torch.zeros_like(self._initial)
        # backward() adds in place to a gradient that is already there: it fills the flat vector.
        for parameter, view in zip(self._parameters, self._views(flat), strict=True):
            parameter.grad = view
        loss = cross_entropy(self.module(x), y)
        loss.backward()
        for parameter in self._parameters:
            parameter.grad = None
        return flat, loss.item()

    def logits(self, theta: Tensor, x: Tensor) -> Tensor:
        """The network's output at theta, without a graph."""
        self.bind(theta)
        with torch.no_grad():
            return self.module(x)

    def state_dict(self, theta: Tensor) -> dict[str, Tensor]:
        """Theta as a state dict of copies that the plain network loads."""
        views = self._views(theta)
        return {slot.name: view.clone() for slot, view in zip(self.layout, views, strict=True)}

    def _views(self, vector: Tensor) -> list[Tensor]:
        vector = vector.detach()
        return [vector[slot.start : slot.stop].view(slot.shape) for slot in self.layout]


def _layout(named: list[tuple[str, nn.Parameter]]) -> tuple[Slot, ...]:
    slots, start = [], 0
    for name, parameter in named:
        stop = start + math.prod(parameter.shape)
        slots.append(Slot(name, start, stop, tuple(parameter.shape)))
        start = stop
    return tuple(slots)
