"""A client between two rounds: all that it needs to go on from there.

Whoever has this, the client's data and the view of the graph can continue as if nothing had
happened. Writing it to a disk is not done here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class NoiseSecrets:
    """The seeds of a client's noise: what it drew for each receiver (itself for its own noise),
    and what it was told by each sender."""

    drawn: Mapping[tuple[str, int], bytes] = field(default_factory=dict)
    told: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientState:
    """After `t` rounds, in an epoch of the graph: the rule's vectors, such as θ, γ and ḡ.

    `steps` counts the gradient steps that were taken, which is what has been used of the data:
    batches are a function of it. Noise is a function of epoch, round and secrets.
    """

    epoch: int
    t: int
    steps: int
    vectors: Mapping[str, Tensor]
    secrets: NoiseSecrets = NoiseSecrets()

    @property
    def theta(self) -> Tensor:
        """The model."""
        return self.vectors["theta"]


@dataclass(frozen=True)
class Newcomer:
    """A client that comes, or comes back, before round `t`, after `steps` gradient steps.

    It begins from the models of its `hosts`: the in-neighbours that were there before.
    """

    t: int
    steps: int
    hosts: tuple[int, ...]
