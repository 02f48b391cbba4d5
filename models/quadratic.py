"""A problem with a known answer: every client has its own quadratic, the optimum is closed form.

It stands in for network and data where a run is to be compared with theory. Everything is made
from (seed, client id), so that any process can make any client's part again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

LOWEST, HIGHEST = 0.5, 2.0


@dataclass(frozen=True, eq=False)
class Quadratic:
    """L_i(θ) = ½ θᵀ A_i θ − b_iᵀ θ for each client i; the objective is the mean over clients.

    A is (clients, d, d) and b is (clients, d), both float64; results come in the dtype of θ.
    """

    A: Tensor
    b: Tensor

    def gradient(self, i: int, theta: Tensor) -> Tensor:
        """∇L_i(θ) = A_i θ − b_i."""
        return self.A[i].to(theta) @ theta - self.b[i].to(theta)

    def loss(self, theta: Tensor) -> float:
        """The mean objective."""
        a, b = self.A.mean(0).to(theta), self.b.mean(0).to(theta)
        return float(theta @ a @ theta / 2 - b @ theta)

    def optimum(self) -> Tensor:
        """Where the mean objective is least, in float64."""
        least: Tensor = torch.linalg.solve(self.A.mean(0), self.b.mean(0))
        return least

    def gap(self, theta: Tensor) -> float:
        """loss(θ) − loss(optimum)."""
        # The same number as the difference of the losses, but it does not cancel near the optimum.
        away = theta - self.optimum().to(theta)
        return float(away @ self.A.mean(0).to(theta) @ away / 2)


def quadratic(clients: int, seed: int, shared: bool, dimension: int = 20) -> Quadratic:
    """The quadratic problem of a run; `shared` gives every client the same A."""
    parts = [client(i, seed, shared, dimension) for i in range(clients)]
    return Quadratic(torch.stack([a for a, _ in parts]), torch.stack([b for _, b in parts]))


def client(i: int, seed: int, shared: bool, dimension: int = 20) -> tuple[Tensor, Tensor]:
    """A_i, symmetric with eigenvalues from 0.5 to 2, and b_i, standard normal."""
    # Streams of their own, so that b_i stays the same when A is shared.
    curvature = np.random.default_rng([seed, 0, 0 if shared else i])
    slope = np.random.default_rng([seed, 1, i])
    q, _ = np.linalg.qr(curvature.standard_normal((dimension, dimension)))
    a = q * curvature.uniform(LOWEST, HIGHEST, dimension) @ q.T
    return torch.from_numpy((a + a.T) / 2), torch.from_numpy(slope.standard_normal(dimension))
