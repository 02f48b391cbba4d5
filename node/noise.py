"""Noise: what enters a vector before it is sent, and when.

Every edge has a seed of its own that the sender draws; noise sent as a tensor and noise that both
ends expand from the seed are the same numbers. They lie on a grid that is fine against β and coarse
against the number type, so that what one client adds another takes away to the last bit. How a seed
becomes noise is in `expansion`, which vector it enters in `updates`.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from torch import Tensor

from lppa.node.expansion import Expander, derive_seed
from lppa.node.neighbours import Neighbours
from lppa.node.state import NoiseSecrets
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import SEED_BYTES

Draw = Callable[[int], Tensor | None]
"""From the round to the noise that enters a vector; None for none."""


@dataclass(frozen=True)
class NoiseSource:
    """One client's noise. With a seed it can be repeated, and so predicted by anyone."""

    expander: Expander
    dtype: torch.dtype
    device: torch.device
    me: int
    seed: int | None = None
    label: str = "edge"
    epoch: int = 0
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

    @property
    def drawn(self) -> dict[tuple[str, int], bytes]:
        """All seeds that were drawn so far, by what for and by receiver."""
        return {(self.label, target): seed for target, seed in self._drawn.items()}

    def draw(self, target: int, t: int) -> Tensor:
        """The noise for a receiver (or for oneself) in round t."""
        return self.to_tensor(self.expander.total([(1, self.seed_of(target))], t, self.epoch))

    def to_tensor(self, steps: np.ndarray) -> Tensor:
        """Steps of the grid as noise."""
        return torch.from_numpy(steps * self.expander.step).to(self.device, self.dtype)


def none(source: NoiseSource, neighbours: Neighbours) -> Draw:
    """No noise."""
    return lambda t: None


def own(source: NoiseSource, neighbours: Neighbours) -> Draw:
    """ζ_i, which nobody takes away again."""
    return lambda t: source.draw(neighbours.me, t)


def difference(source: NoiseSource, neighbours: Neighbours) -> Draw:
    """The noise difference Σ_l δ_li − Σ_j δ_ij, with noise that is sent as it is."""

    def drawn(t: int) -> Tensor:
        sent = {receiver: source.draw(receiver, t) for receiver in neighbours.outputs}
        received = neighbours.exchange_noise(t, sent)
        # Everybody has neighbours both ways: the graph is strongly connected.
        return cast(Tensor, sum(sent.values()) - sum(received))

    return drawn


class SeededDifference:
    """The same noise difference, expanded at both ends from seeds that are sent once.

    `told` are the seeds that senders have told already, for a client that goes on.
    """

    def __init__(
        self,
        source: NoiseSource,
        neighbours: Neighbours,
        told: Mapping[int, bytes] | None = None,
    ) -> None:
        self.source = source
        self.neighbours = neighbours
        self.told: dict[int, bytes] = dict(told or {})
        self.terms = self._terms() if self.told else []

    def __call__(self, t: int) -> Tensor:
        if not self.terms:
            self.terms = self._agree(t)
        total = self.source.expander.total(self.terms, t, self.source.epoch)
        return self.source.to_tensor(total)

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
        self.told = {sender: seed for sender, (seed, _) in received.items()}
        return self._terms()

    def _terms(self) -> list[tuple[int, bytes]]:
        sent = [(1, self.source.seed_of(receiver)) for receiver in self.neighbours.outputs]
        return sent + [(-1, seed) for seed in self.told.values()]


NOISES: dict[str, Callable[[NoiseSource, Neighbours], Draw]] = {
    "none": none,
    "own": own,
    "difference": difference,
}


def make_noise(
    name: str,
    exchange: str,
    source: NoiseSource,
    neighbours: Neighbours,
    told: Mapping[int, bytes] | None = None,
) -> Draw:
    """Noise by name; how it is exchanged matters only to the one that is."""
    if name == "difference" and exchange == "seed":
        return SeededDifference(source, neighbours, told)
    return NOISES[name](source, neighbours)


class Injection:
    """Adds noise in the rounds in which it is `due`.

    `on_top` is independent noise besides, which nobody takes away again; `sources` are what both
    are drawn from.
    """

    def __init__(
        self,
        draw: Draw,
        due: Callable[[int], bool],
        on_top: Draw | None = None,
        sources: Sequence[NoiseSource] = (),
    ) -> None:
        self.draw = draw
        self.due = due
        self.on_top = on_top
        self.sources = sources
        self.norm = 0.0
        self._prepared: tuple[int, Tensor | None] | None = None

    def __call__(self, vector: Tensor, t: int) -> Tensor:
        """The vector with this round's noise. It enters the state, not only what is sent."""
        if not self.due(t):
            return vector
        self.prepare(t)
        noise = self._prepared[1] if self._prepared else None
        self._prepared = None
        if noise is None:
            return vector
        self.norm = float(noise.double().norm())
        return vector + noise

    def prepare(self, t: int) -> None:
        """Makes the noise of a round before it is needed, with all that neighbours must say."""
        if self._prepared is not None and self._prepared[0] == t:
            return
        noise = self.draw(t)
        extra = None if self.on_top is None else self.on_top(t)
        if extra is not None:
            noise = extra if noise is None else noise + extra
        self._prepared = (t, noise)

    @property
    def secrets(self) -> NoiseSecrets:
        """What the noise is made from, as far as it has been drawn and told."""
        drawn = {key: seed for source in self.sources for key, seed in source.drawn.items()}
        return NoiseSecrets(drawn, getattr(self.draw, "told", {}))
