"""Updates: which named vectors travel in a round, and how a client goes on from their mixture.

What noise enters them, and when, is the rule's other half (`noise`). The gradient that an update
asks for is the mean over a private path of K steps, and its step is K·λ long: with K = 1 gradient
tracking is Algorithm 1 of the paper to the letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

Vectors = Mapping[str, Tensor]
PIECE = 1 << 16  # numbers that are worked on in one go where a model is large


@dataclass(frozen=True)
class Difference:
    """One vector less another, made piece by piece where it is asked for."""

    one: Tensor
    other: Tensor

    def __len__(self) -> int:
        return len(self.one)

    def __getitem__(self, where: slice) -> Tensor:
        return self.one[where] - self.other[where]


Drift = Tensor | Difference | None


@dataclass(frozen=True)
class Local:
    """What a client does by itself.

    `gradient(x, c, t)` is the mean gradient ḡ along a trial path x ← x − λ_t (g + c) that begins at
    x and never leaves the client; `step(t)` is K·λ_t. Of a `large` model vectors are let go of as
    soon as they are not needed any more.
    """

    gradient: Callable[[Tensor, Drift, int], Tensor]
    step: Callable[[int], float]
    adapt_first: bool = False
    large: bool = False


class Update(Protocol):
    """One way to go on from a round. `noised` names the vector that noise enters before it is sent.

    `start` makes all vectors that a client keeps; `combine` those after round t from its own (noise
    included) and from the mixture Σ_j w_ij · of what travelled, which is its to change. "theta"
    must be among them: it is the model that is tested and kept. Vectors that travel are as long as
    θ, but for the `scalars` among them, which have one number. Nothing goes on from `own` once all
    is mixed: of a large model `combine` may take out of it what it has used.
    """

    travels: tuple[str, ...]
    noised: str
    scalars: tuple[str, ...]

    def start(self, theta: Tensor, local: Local) -> Vectors: ...

    def combine(self, own: dict[str, Tensor], mixed: Vectors, t: int, local: Local) -> Vectors: ...


class GradientTracking:
    """Algorithm 1: γ tracks the mean of all clients' gradients, and Σγ = Σḡ."""

    travels: tuple[str, ...] = ("theta", "gamma")
    noised = "gamma"
    scalars: tuple[str, ...] = ()

    def start(self, theta: Tensor, local: Local) -> Vectors:
        """γ begins as the client's own gradient."""
        g = local.gradient(theta, None, 0)
        return {"theta": theta, "gamma": g, "g": g}

    def combine(self, own: dict[str, Tensor], mixed: Vectors, t: int, local: Local) -> Vectors:
        """θ' = mix(θ) − Kλ·γ;  γ' = mix(γ) + ḡ' − ḡ."""
        direction = mixed["gamma"] if local.adapt_first else own["gamma"]
        theta = stepped(mixed["theta"], local.step(t), direction)
        if local.large:
            # Each of these is as large as the model, and nothing goes on from them.
            del direction, own["theta"], own["gamma"]
        g = local.gradient(theta, Difference(mixed["gamma"], own["g"]), t + 1)
        gamma = mixed["gamma"].add_(g).sub_(own["g"])
        return {"theta": theta, "gamma": gamma, "g": g}


class DSGD:
    """D-SGD: θ alone travels, with noise in it, and each client adds its own gradient's step."""

    travels: tuple[str, ...] = ("theta",)
    noised = "theta"
    scalars: tuple[str, ...] = ()

    def start(self, theta: Tensor, local: Local) -> Vectors:
        """Nothing but a model: the first message has no gradient in it."""
        return {"theta": theta, "g": torch.zeros_like(theta)}

    def combine(self, own: dict[str, Tensor], mixed: Vectors, t: int, local: Local) -> Vectors:
        """θ' = mix(θ) − Kλ·ḡ, the gradient taken where the models have met, or where one was."""
        theta = mixed["theta"] if local.adapt_first else own["theta"]
        g = local.gradient(theta, None, t)
        return {"theta": stepped(mixed["theta"], local.step(t), g), "g": g}


def stepped(theta: Tensor, length: float, direction: Tensor) -> Tensor:
    """θ less a step, in its own memory; what is made on the way stays small."""
    for first in range(0, len(theta), PIECE):
        piece = slice(first, first + PIECE)
        theta[piece].sub_(length * direction[piece])
    return theta


def excess(vectors: Vectors) -> Difference | None:
    """What must sum to zero over all clients where gradients are tracked: γ − ḡ."""
    if "gamma" not in vectors or "g" not in vectors:
        return None
    return Difference(vectors["gamma"], vectors["g"])
