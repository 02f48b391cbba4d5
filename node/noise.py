"""Noise: what enters a vector before it is sent, and when.

Every edge has a seed of its own that the sender draws. On an edge that goes one way, noise sent as
a tensor and noise that both ends expand from the seed are the same numbers; where two clients send
to each other and exchange seeds, one draw stands for both (`pairs`). All noise lies on a grid that
is fine against β and coarse against the number type, so that what one client adds another takes
away to the last bit. How a seed becomes noise is in `expansion`, which vector it enters in
`updates`.
"""

from __future__ import annotations

import hmac
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from lppa.node.expansion import Expander, derive_seed
from lppa.node.lengths import length
from lppa.node.neighbours import Neighbours
from lppa.node.pairs import PairExpander, pair_key
from lppa.node.state import NoiseSecrets
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import SEED_BYTES


class Draw(Protocol):
    """From the round to the noise that enters a vector, or some coordinates of it; None for none.

    Each call makes a tensor of its own, which is the caller's to change.
    Parts of a vector are asked for in their order: neighbours make theirs at the same time.
    """

    def __call__(self, t: int, where: range | None = None) -> Tensor | None: ...


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

    def draw(self, target: int, t: int, where: range | None = None) -> Tensor:
        """The noise for a receiver (or for oneself) in round t, or that of some coordinates."""
        terms = [(1, self.seed_of(target))]
        return self.to_tensor(self.expander.total(terms, t, self.epoch, where))

    def to_tensor(self, steps: np.ndarray) -> Tensor:
        """Steps of the grid as noise."""
        noise = torch.empty(len(steps), dtype=self.dtype)
        there = noise.numpy()
        # Rounded to the type first: times a power of two they stay what they were rounded to. NumPy
        # does both in one pass.
        np.multiply(steps, self.expander.step, out=there, dtype=there.dtype)
        return noise.to(self.device)


def none(source: NoiseSource, neighbours: Neighbours) -> Draw:
    """No noise."""
    return lambda t, where=None: None


def own(source: NoiseSource, neighbours: Neighbours) -> Draw:
    """ζ_i, which nobody takes away again."""
    return lambda t, where=None: source.draw(neighbours.me, t, where)


def difference(source: NoiseSource, neighbours: Neighbours) -> Draw:
    """The noise difference Σ_l δ_li − Σ_j δ_ij, with noise that is sent as it is."""

    def drawn(t: int, where: range | None = None) -> Tensor:
        sent = {receiver: source.draw(receiver, t, where) for receiver in neighbours.outputs}
        received = neighbours.exchange_noise(t, sent, where)
        # Everybody has neighbours both ways: the graph is strongly connected.
        return cast(Tensor, sum(sent.values()) - sum(received))

    return drawn


class Terms(NamedTuple):
    """What a noise difference is the sum of: signs with the seeds of edges that go one way, and
    signs with the keys of pairs."""

    single: list[tuple[int, bytes]]
    pairs: list[tuple[int, bytes]]


class SeededDifference:
    """A noise difference of the same law, expanded at both ends from seeds that are sent once.

    Of a neighbour that is both receiver and sender, one draw has what is added and taken away.
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
        self.terms = self._terms() if self.told else None

    @property
    def ready(self) -> bool:
        """Whether all that it is made from is known, so that it can be made without a message."""
        return self.terms is not None

    def __call__(self, t: int, where: range | None = None) -> Tensor:
        if self.terms is None:
            self._agree(t)
            self.terms = self._terms()
        return self.source.to_tensor(self._total(self.terms, t, self.source.epoch, where))

    def _total(self, terms: Terms, t: int, epoch: int, where: range | None) -> np.ndarray:
        if not terms.pairs:
            return self.source.expander.total(terms.single, t, epoch, where)
        total = self.pairs.total(terms.pairs, t, epoch, where)
        if terms.single:
            # Each sum fits its type, but both together may not.
            single = self.source.expander.total(terms.single, t, epoch, where)
            total = total + single.astype(np.int64)
        return total

    @cached_property
    def pairs(self) -> PairExpander:
        """Made when it is needed: a directed graph may have none."""
        expander = self.source.expander
        return PairExpander(expander.distribution, expander.beta, expander.size)

    def _agree(self, t: int) -> None:
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

    def _terms(self) -> Terms:
        me, told = self.neighbours.me, self.told
        sent = {receiver: self.source.seed_of(receiver) for receiver in self.neighbours.outputs}
        single = [(1, seed) for receiver, seed in sent.items() if receiver not in told]
        single += [(-1, seed) for sender, seed in told.items() if sender not in sent]
        pairs = [
            (1, pair_key(seed, told[other])) if me < other else (-1, pair_key(told[other], seed))
            for other, seed in sent.items()
            if other in told
        ]
        return Terms(single, pairs)


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
    are drawn from. To a large vector it is added in `parts`.
    """

    def __init__(
        self,
        draw: Draw,
        due: Callable[[int], bool],
        on_top: Draw | None = None,
        sources: Sequence[NoiseSource] = (),
        parts: Sequence[range] = (),
    ) -> None:
        self.draw = draw
        self.due = due
        self.on_top = on_top
        self.sources = sources
        self.parts = parts
        self.on_stage: Callable[[str, float], None] = lambda stage, share: None
        self.norm = 0.0
        self._prepared: tuple[int, Tensor | None] | None = None

    def __call__(self, vector: Tensor, t: int, in_place: bool = False) -> Tensor:
        """The vector with this round's noise. It enters the state, not only what is sent.

        Where it may be added in place, a large vector is not copied.
        """
        if not self.due(t):
            return vector
        if self.parts and self._prepared is None:
            return self._part_by_part(vector if in_place else vector.clone(), t)
        self.prepare(t)
        noise = self._prepared[1] if self._prepared else None
        self._prepared = None
        if noise is None:
            return vector
        self.norm = length(noise)
        # Where the noise was, since new memory is slow.
        return noise.add_(vector)

    def prepare(self, t: int) -> None:
        """Makes the noise of a round before it is needed, with all that neighbours must say."""
        if self._prepared is not None and self._prepared[0] == t:
            return
        if self.parts:
            pieces = [piece for where in self.parts if (piece := self._made(t, where)) is not None]
            self._prepared = (t, torch.cat(pieces) if pieces else None)
        else:
            self._prepared = (t, self._made(t))

    def _made(self, t: int, where: range | None = None) -> Tensor | None:
        noise = self.draw(t, where)
        extra = None if self.on_top is None else self.on_top(t, where)
        if extra is None:
            return noise
        return extra if noise is None else noise + extra

    def _part_by_part(self, vector: Tensor, t: int) -> Tensor:
        """Adds a round's noise to the vector itself: there is never more of it than a part."""
        lengths = []
        for number, where in enumerate(self.parts):
            self.on_stage("noise", number / len(self.parts))
            noise = self._made(t, where)
            if noise is None:
                return vector
            lengths.append(length(noise))
            vector[where.start : where.stop].add_(noise)
        self.norm = math.hypot(*lengths)
        return vector

    def ahead(self, t: int) -> None:
        """Makes the noise of a round to come, if it is due and no neighbour has to say anything.

        Whoever has sent and waits for others can do that meanwhile. It is the noise of this view
        of the graph: another has an injection of its own.
        """
        draw = self.draw
        if not isinstance(draw, SeededDifference) or not draw.ready or not self.due(t):
            return
        # Of a large model one vector more is dearer than the time that others are waited for.
        if not self.parts:
            self.prepare(t)

    @property
    def secrets(self) -> NoiseSecrets:
        """What the noise is made from, as far as it has been drawn and told."""
        drawn = {key: seed for source in self.sources for key, seed in source.drawn.items()}
        return NoiseSecrets(drawn, getattr(self.draw, "told", {}))
