"""A network over one flat vector, which is what clients send, mix and step on.

The vector is the caller's: a `FlatModel` looks at it through the network's parameters, and neither
keeps nor changes it. Running averages, such as those of BatchNorm, stand behind the parameters; the
"gradient" of one is what makes a step move it as the network itself would, so that averages are
mixed, hidden and tracked like all else. No optimiser is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

# Parameters from which on memory counts more than the time of a pass over it.
LARGE = 1 << 22
COUNT = "num_batches_tracked"


class Slot(NamedTuple):
    """Where one parameter or running average lies in the flat vector."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]


class FlatModel:
    """Runs a network on any flat vector of its size, without copying it.

    Takes the module over: its parameters become views and stand for whatever was bound last.
    `average_step` is the length of the step that moves running averages as far as the network did.
    """

    def __init__(
        self,
        module: nn.Module,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        loss: Callable[[Any, Tensor], Tensor] = cross_entropy,
        average_step: float = 1.0,
    ) -> None:
        self.module = module.to(device=device, dtype=dtype)
        self.loss = loss
        self.average_step = average_step
        parameters = dict(self.module.named_parameters())
        averages = {
            name: buffer
            for name, buffer in self.module.named_buffers()
            if buffer.is_floating_point() and name in self.module.state_dict()
        }
        self._parameters = list(parameters.values())
        # Weights of convolutions have four sides. Without them a batch needs no special layout.
        self.convolves = any(parameter.dim() == 4 for parameter in self._parameters)
        self._owners = [_owner(self.module, name) for name in averages]
        # How many batches a normalisation has seen: no number that is mixed or learned.
        self._counts = [b for name, b in self.module.named_buffers() if name.endswith(COUNT)]
        self.layout = _layout({**parameters, **averages})
        self._lengths = [slot.stop - slot.start for slot in self.layout]
        self.size = self.layout[-1].stop
        # Up to here the vector is parameters, behind it running averages.
        self.learned = self.layout[len(parameters) - 1].stop
        start = [*self._parameters, *averages.values()]
        self._initial: Tensor | None = torch.cat([p.detach().reshape(-1) for p in start])
        self._none = self._initial.new_zeros(1)
        self.bind(self._initial)

    def vector(self) -> Tensor:
        """A fresh copy of what the module came with."""
        if self._initial is None:
            raise ValueError("what this module came with has been handed over")
        return self._initial.clone()

    def hand_over(self) -> Tensor | None:
        """What the module came with, once: none is kept here. For models that fill the memory."""
        taken, self._initial = self._initial, None
        return taken

    def bind(self, theta: Tensor) -> None:
        """Make every parameter and running average a view of theta."""
        if theta.shape != (self.size,) or theta.dtype != self._none.dtype:
            raise ValueError(
                f"this model needs a vector of {self.size} {self._none.dtype}, "
                f"got {tuple(theta.shape)} {theta.dtype}"
            )
        views = self._views(theta)
        for parameter, view in zip(self._parameters, views, strict=False):
            parameter.data = view
        self._bind_averages(views[len(self._parameters) :])

    def gradient(self, theta: Tensor, x: Any, y: Tensor) -> tuple[Tensor, float]:
        """The flat gradient of the batch's mean loss at theta, and the loss itself."""
        self.bind(theta)
        if self._owners:
            # The network moves its averages in place, and theta is the caller's.
            self._bind_averages([view.clone() for view in self._averages(theta)])
        loss = self.loss(self.module(x), y)
        flat = self._joined(loss) if self.size <= LARGE else self._filled(loss)
        if self._owners:
            averages = [cast(Tensor, m._buffers[name]) for m, name in self._owners]
            moved = torch.cat([average.reshape(-1) for average in averages])
            flat[self.learned :] = (theta[self.learned :] - moved) / self.average_step
        return flat, loss.item()

    def have_seen(self, batches: int) -> None:
        """Tells normalisations how many batches there were: it follows from the step, whichever
        process took it."""
        for count in self._counts:
            count.fill_(batches)

    def _joined(self, loss: Tensor) -> Tensor:
        """The parameters' gradients one behind the other: each number is written twice."""
        learned = [p for p in self._parameters if p.requires_grad]
        found = iter(torch.autograd.grad(loss, learned, allow_unused=True))
        parts = [
            _or_zeros(next(found) if p.requires_grad else None, p).reshape(-1)
            for p in self._parameters
        ]
        if self._owners:
            parts.append(self._none.new_zeros(self.size - self.learned))
        return torch.cat(parts)

    def _filled(self, loss: Tensor) -> Tensor:
        """The same without a second copy of all of them, which takes longer."""
        flat = self._none.new_zeros(self.size)
        # backward() adds in place to a gradient that is already there: it fills the flat vector.
        for parameter, view in zip(self._parameters, self._views(flat), strict=False):
            parameter.grad = view if parameter.requires_grad else None
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch gives it no types
        for parameter in self._parameters:
            parameter.grad = None
            # The vector is the caller's: nothing here keeps it in memory.
            parameter.data = self._none.expand(parameter.shape)
        return flat

    def outputs(self, theta: Tensor, x: Any) -> Any:
        """The network's output at theta, without a graph, as when it is used and not trained."""
        self.bind(theta)
        if self._owners:
            # Noise can take a variance that is near zero below it.
            self._bind_averages(
                [
                    view.clamp(min=0) if name == "running_var" else view
                    for (_, name), view in zip(self._owners, self._averages(theta), strict=True)
                ]
            )
        training = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                return self.module(x)
        finally:
            self.module.train(training)

    def state_dict(self, theta: Tensor) -> dict[str, Tensor]:
        """Theta as a state dict of copies that the plain network loads."""
        self.bind(theta)
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}

    def _averages(self, vector: Tensor) -> list[Tensor]:
        return self._views(vector)[len(self._parameters) :]

    def _bind_averages(self, views: list[Tensor]) -> None:
        for (module, name), view in zip(self._owners, views, strict=True):
            module._buffers[name] = view

    def _views(self, vector: Tensor) -> list[Tensor]:
        # In one call, and none for what is flat already: a small network's gradient takes not much
        # longer than looking at its parameters one by one.
        parts = torch.split_with_sizes(vector.detach(), self._lengths)
        return [
            part if len(slot.shape) == 1 else part.view(slot.shape)
            for part, slot in zip(parts, self.layout, strict=True)
        ]


def _or_zeros(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    """The gradient; zeros where a parameter had no part in the loss, or is not to be learned."""
    return torch.zeros_like(parameter) if gradient is None else gradient


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The part of a network that a buffer belongs to, and the buffer's name there."""
    path, _, last = name.rpartition(".")
    return module.get_submodule(path), last


def _layout(named: dict[str, Tensor]) -> tuple[Slot, ...]:
    slots, start = [], 0
    for name, tensor in named.items():
        stop = start + math.prod(tensor.shape)
        slots.append(Slot(name, start, stop, tuple(tensor.shape)))
        start = stop
    return tuple(slots)
