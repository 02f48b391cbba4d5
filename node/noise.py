"""Random noise on a fixed-point grid, and the rules: what each injects into γ.

The draws lie on a grid that is fine against β and coarse against the number type, so that sums of
noise are exact and what one client adds another takes away to the last bit.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lppa.node.neighbours import Neighbours
from lppa.protocol.seeds import stream

GRID_BITS = 16  # grid points between 0 and β; leaves 8 bits of a float32 for tails and sums

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, float, int], np.ndarray]] = {
    "laplace": lambda generator, beta, size: generator.laplace(0.0, beta, size),
    # The same variance as Laplace noise of scale β, so that β means the same in both.
    "gaussian": lambda generator, beta, size: generator.normal(0.0, math.sqrt(2.0) * beta, size),
}


@dataclass(frozen=True)
class NoiseSource:
    """Draws one client's noise. With a seed it can be repeated, and so predicted by anyone."""

    distribution: str
    beta: float
    size: int
    dtype: torch.dtype
    device: torch.device
    me: int
    seed: int | None = None

    def draw(self, target: int, t: int) -> Tensor:
        """Fresh noise for a receiver (or for oneself) in round t."""
        if self.beta == 0.0:
            return torch.zeros(self.size, dtype=self.dtype, device=self.device)
        if self.seed is None:
            generator = np.random.Generator(np.random.Philox(secrets.randbits(128)))
        else:
            generator = stream(self.seed, "noise", self.me, target, t)
        raw = DISTRIBUTIONS[self.distribution](generator, self.beta, self.size)
        return torch.from_numpy(on_grid(raw, self.beta)).to(self.device, self.dtype)


def on_grid(raw: np.ndarray, beta: float) -> np.ndarray:
    """Rounds to the nearest multiple of a power of two about β / 2^16."""
    step = 2.0 ** (math.floor(math.log2(beta)) - GRID_BITS)
    return np.round(raw / step) * step


def dsgt(source: NoiseSource, neighbours: Neighbours, t: int) -> Tensor | None:
    """No noise: plain gradient tracking."""
    return None


def dp(source: NoiseSource, neighbours: Neighbours, t: int) -> Tensor | None:
    """ζ_i, which nobody takes away again."""
    return source.draw(neighbours.me, t)


def lppa(source: NoiseSource, neighbours: Neighbours, t: int) -> Tensor | None:
    """The noise difference Σ_l δ_li − Σ_j δ_ij."""
    sent = {receiver: source.draw(receiver, t) for receiver in neighbours.outputs}
    received = neighbours.exchange_noise(t, sent)
    return sum(sent.values()) - sum(received)


Rule = Callable[[NoiseSource, Neighbours, int], Tensor | None]
RULES: dict[str, Rule] = {"dsgt": dsgt, "dp": dp, "lppa": lppa}


class Injection:
    """Applies a rule when noise is due: at the start, and every `every` rounds if that is not 0."""

    def __init__(self, rule: Rule, source: NoiseSource, neighbours: Neighbours, every: int) -> None:
        self.rule = rule
        self.source = source
        self.neighbours = neighbours
        self.every = every
        self.norm = 0.0

    def __call__(self, gamma: Tensor, t: int) -> Tensor:
        """γ with this round's noise in it. The noise enters the state, not only what is sent."""
        if t > 0 and (self.every == 0 or t % self.every):
            return gamma
        noise = self.rule(self.source, self.neighbours, t)
        if noise is None:
            return gamma
        self.norm = float(noise.double().norm())
        return gamma + noise
