"""The rules: what noise each injects into γ, and when.

Every edge has a seed of its own that the sender draws; noise sent as a tensor and noise that both
ends expand from the seed are the same numbers. They lie on a grid that is fine against β and coarse
against the number type, so that what one client adds another takes away to the last bit. How a seed
becomes noise is `expansion`'s matter.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from lppa.node.expansion import Expander, derive_seed
from lppa.node.neighbours import Neighbours
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import SEED_BYTES

Rule = Callable[[int], Tensor | None]
"""From the round to the noise that enters γ; None for none."""


@dataclass(frozen=True)
class NoiseSource:
    """One client's noise. With a seed it can be repeated, and so predicted by anyone."""

    expander: Expander
    dtype: torch.dtype
    device: torch.device
    me: int
    seed: int | None = None
    label: str = "edge"
    _drawn: dict[int, bytes] = field(default_factory=dict)

    def seed_of(self, target: int) -> bytes:
        """The secret seed of the noise for a receiver (or for oneself): drawn once, then kept."""
        if target not in self._drawn:
            self._drawn[target] = (
                secrets.token_bytes(SEED_BYTES)
                if self.seed is None
                else derive_seed(self.seed, (self.label, self.me, target))
            )
        return self._drawn[target]

    def draw(self, target: int, t: int) -> Tensor:
        """The noise for a receiver (or for oneself) in round t."""
        return self.to_tensor(self.expander.total([(1, self.seed_of(target))], t))

    def to_tensor(self, steps: np.ndarray) -> Tensor:
        """Steps of the grid as noise."""
        return torch.from_numpy(steps * self.expander.step).to(self.device, self.dtype)


def dsgt(source: NoiseSource, neighbours: Neighbours) -> Rule:
    """No noise: plain gradient tracking."""
    return lambda t: None


def dp(source: NoiseSource, neighbours: Neighbours) -> Rule:
    """ζ_i, which nobody takes away again."""
    return lambda t: source.draw(neighbours.me, t)


def lppa(source: NoiseSource, neighbours: Neighbours) -> Rule:
    """The noise difference Σ_l δ_li − Σ_j δ_ij, with noise that is sent as it is."""

    def difference(t: int) -> Tensor:
        sent = {receiver: source.draw(receiver, t) for receiver in neighbours.outputs}
        received = neighbours.exchange_noise(t, sent)
        return sum(sent.values()) - sum(received)

    return difference


class SeededLppa:
    """The same noise difference, expanded at both ends from seeds that are sent once."""

    def __init__(self, source: NoiseSource, neighbours: Neighbours) -> None:
        self.source = source
        self.neighbours = neighbours
        self.terms: list[tuple[int, bytes]] = []

    def __call__(self, t: int) -> Tensor:
        if not self.terms:
            self.terms = self._agree(t)
        return self.source.to_tensor(self.source.expander.total(self.terms, t))

    def _agree(self, t: int) -> list[tuple[int, bytes]]:
        """Exchanges seeds; one that would make other noise here than there ends the run."""
        commit = self.source.expander.commitment
        sent = {receiver: self.source.seed_of(receiver) for receiver in self.neighbours.outputs}
        pairs = {receiver: (seed, commit(seed)) for receiver, seed in sent.items()}
        received = self.neighbours.exchange_seeds(t, pairs)
        for sender, (seed, commitment) in received.items():
            if not hmac.compare_digest(commit(seed), commitment):
                raise RunFailed(
                    f"the seed that node {sender} sent to node {self.neighbours.me} does not make "
                    "the noise that it committed to: its noise would not cancel",
                    round=t,
                )
        return [(1, seed) for seed in sent.values()] + [(-1, seed) for seed, _ in received.values()]


RULES: dict[str, Callable[[NoiseSource, Neighbours], Rule]] = {
    "dsgt": dsgt,
    "dp": dp,
    "lppa": lppa,
}


def make_rule(name: str, exchange: str, source: NoiseSource, neighbours: Neighbours) -> Rule:
    """A rule by name; how noise is exchanged matters only to the one that exchanges any."""
    if name == "lppa" and exchange == "seed":
        return SeededLppa(source, neighbours)
    return RULES[name](source, neighbours)


class Injection:
    """Applies a rule in the rounds in which noise is `due`.

    `own` is independent noise that comes on top, which nobody takes away again.
    """

    def __init__(self, rule: Rule, due: Callable[[int], bool], own: Rule | None = None) -> None:
        self.rule = rule
        self.due = due
        self.own = own
        self.norm = 0.0

    def __call__(self, gamma: Tensor, t: int) -> Tensor:
        """γ with this round's noise in it. The noise enters the state, not only what is sent."""
        if not self.due(t):
            return gamma
        noise = self.rule(t)
        if self.own is not None:
            noise = self.own(t) if noise is None else noise + self.own(t)
        if noise is None:
            return gamma
        self.norm = float(noise.double().norm())
        return gamma + noise
