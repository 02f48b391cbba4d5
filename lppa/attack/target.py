"""What an inversion is given: a vector, how it came about, and the network it came from.

Pure data. How a curious node gets such a vector out of its messages is the observations' matter,
and how it is turned into images is that of the inversions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lppa.models.networks import build


@dataclass(frozen=True, eq=False)
class Term:
    """One gradient inside the vector: coefficient · ∇L(theta; batch).

    `batch` tells equal and different unknown batches apart: terms with one number share a batch.
    """

    coefficient: float
    theta: Tensor
    batch: int


@dataclass(frozen=True, eq=False)
class Target:
    """What the attacker knows: vector = Σ_k coefficient_k · ∇L(theta_k; batch_k) + noise.

    One term for a gradient, two (+1 and −1) for the difference of two gradients, on one batch or
    on two. `sigma` is the standard deviation per coordinate of the noise that is left in the
    vector, 0 where there is none; `batch_size` is the number of examples in every batch. `ignored`
    is the deviation of noise that is in the vector too but that the attacker does not reckon with:
    it is for the record, and no inversion looks at it. NaN where it is not known.
    """

    vector: Tensor
    terms: tuple[Term, ...]
    sigma: float = 0.0
    batch_size: int = 1
    ignored: float = 0.0

    @property
    def batches(self) -> tuple[int, ...]:
        """The numbers of the unknown batches, in the order in which results list them."""
        return tuple(sorted({term.batch for term in self.terms}))


@dataclass(frozen=True, eq=False)
class Victim:
    """What is public about the victim: its network and what its data looks like in general.

    Images are those that the network sees, so after any normalisation, and lie in [low, high];
    `prior_mean` is the mean image of data of this kind where the attacker knows one, and
    `prior_root` a root R of its inverse covariance, lower triangular: RᵀR = covariance⁻¹. `clip`
    is the bound on the norm of each example's own gradient, and that norm's order.
    """

    network: str
    shape: tuple[int, ...]
    classes: int
    dtype: torch.dtype = torch.float32
    low: float = 0.0
    high: float = 1.0
    prior_mean: Tensor | None = None
    prior_root: Tensor | None = None
    clip: tuple[float, int] | None = None

    def module(self) -> nn.Module:
        """The victim's network; its weights are arbitrary, since every term brings its own."""
        return build(self.network, self.shape, self.classes, torch.Generator().manual_seed(0))

    def mean_image(self) -> Tensor:
        """The best guess without any message: the public mean, or the middle of the box."""
        if self.prior_mean is None:
            return torch.full(self.shape, (self.low + self.high) / 2, dtype=self.dtype)
        return self.prior_mean.reshape(self.shape).to(self.dtype)
