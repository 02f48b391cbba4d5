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


@dataclass(frozen=True)
class Local:
    """What a client does by itself.

    `gradient(x, c, t)` is the mean gradient ḡ along a trial path x ← x − λ_t (g + c) that begins at
    x and never leaves the client; `step(t)` is K·λ_t.
    """

    gradient: Callable[[Tensor, Tensor, int], Tensor]
    step: Callable[[int], float]
    adapt_first: bool = False


class Update(Protocol):
    """One way to go on from a round. `noised` names the vector that noise enters before it is sent.

    `start` makes all vectors that a client keeps; `combine` those after round t from its own (noise
    included) and from the mixture Σ_j w_ij · of what travelled. "theta" must be among them: it is
    the model that is tested and kept. Vectors that travel are as long as θ, but for the `scalars`
    among them, which have one number.
    """

    travels: tuple[str, ...]
    noised: str
    scalars: tuple[str, ...]

    def start(self, theta: Tensor, local: Local) -> Vectors: ...

    def combine(self, own: Vectors, mixed: Vectors, t: int, local: Local) -> Vectors: ...


class GradientTracking:
    """Algorithm 1: γ tracks the mean of all clients' gradients, and Σγ = Σḡ."""

    travels: tuple[str, ...] = ("theta", "gamma")
    noised = "gamma"
    scalars: tuple[str, ...] = ()

    def start(self, theta: Tensor, local: Local) -> Vectors:
        """γ begins as the client's own gradient."""
        g = local.gradient(theta, torch.zeros_like(theta), 0)
        return {"theta": theta, "gamma": g, "g": g}

    def combine(self, own: Vectors, mixed: Vectors, t: int, local: Local) -> Vectors:
        """θ' = mix(θ) − Kλ·γ;  γ' = mix(γ) + ḡ' − ḡ."""
        direction = mixed["gamma"] if local.adapt_first else own["gamma"]
        # In the memory of its own first term: each of these is as large as the model.
        step = local.step(t) * direction
        theta = torch.sub(mixed["theta"], step, out=step)
        g = local.gradient(theta, mixed["gamma"] - own["g"], t + 1)
        gamma = (mixed["gamma"] + g).sub_(own["g"])
        return {"theta": theta, "gamma": gamma, "g": g}


class DSGD:
    """D-SGD: θ alone travels, with noise in it, and each client adds its own gradient's step."""

    travels: tuple[str, ...] = ("theta",)
    noised = "theta"
    scalars: tuple[str, ...] = ()

    def start(self, theta: Tensor, local: Local) -> Vectors:
        """Nothing but a model: the first message has no gradient in it."""
        return {"theta": theta, "g": torch.zeros_like(theta)}

    def combine(self, own: Vectors, mixed: Vectors, t: int, local: Local) -> Vectors:
        """θ' = mix(θ) − Kλ·ḡ, the gradient taken where the models have met, or where one was."""
        theta = mixed["theta"] if local.adapt_first else own["theta"]
        g = local.gradient(theta, torch.zeros_like(theta), t)
        return {"theta": mixed["theta"] - local.step(t) * g, "g": g}


def excess(vectors: Vectors) -> Tensor | None:
    """What must sum to zero over all clients where gradients are tracked: γ − ḡ."""
    if "gamma" not in vectors or "g" not in vectors:
        return None
    return vectors["gamma"] - vectors["g"]
