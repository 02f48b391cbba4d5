"""Algorithm 1 of the paper, for one client: the round loop and nothing else.

Who the neighbours are, how a gradient is made and what noise a rule injects is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from torch import Tensor

from lppa.node.learner import Learner
from lppa.node.neighbours import Neighbours


@dataclass(frozen=True)
class Round:
    """A client after combining: its model, its tracking variable and its latest gradient."""

    t: int
    theta: Tensor
    gamma: Tensor
    g: Tensor


def aggregate(
    neighbours: Neighbours,
    learner: Learner,
    inject: Callable[[Tensor, int], Tensor],
    row: tuple[float, ...],
    lam: Callable[[int], float],
    rounds: int,
    local_steps: int = 1,
    finish: int = 0,
    adapt_first: bool = False,
) -> Generator[Round, None, Round]:
    """Yields right after each round's combination; returns the state that the client ends with.

    `row` is row i of W over the in-neighbours and the client itself, in ascending order. Sums run
    in that order, so that the same seeds give the same bits whatever the network does.
    """
    theta = learner.start()
    g = learner.gradient(theta)
    gamma = g
    for t in range(rounds):
        gamma = inject(gamma, t)
        mixed_theta, mixed_gamma = mix(row, neighbours.exchange(t, theta, gamma))
        theta = mixed_theta - lam(t) * (mixed_gamma if adapt_first else gamma)
        g, g_old = learner.gradient(theta), g
        gamma = mixed_gamma + g - g_old
        yield Round(t + 1, theta, gamma, g)
        for _ in range(local_steps - 1):
            theta = theta - lam(t) * gamma
            g, g_old = learner.gradient(theta), g
            gamma = gamma + g - g_old
    for t in range(rounds, rounds + finish):
        (theta,) = mix(row, neighbours.exchange(t, theta))
        yield Round(t + 1, theta, gamma, g)
    return Round(rounds + finish, theta, gamma, g)


def mix(row: tuple[float, ...], states: Iterable[tuple[Tensor, ...]]) -> list[Tensor]:
    """Σ_j w_ij x_j for each vector x of the states, in sender order."""
    sums: list[Tensor] = []
    for weight, state in zip(row, states, strict=True):
        if sums:
            for total, vector in zip(sums, state, strict=True):
                total.add_(vector, alpha=weight)
        else:
            sums = [vector * weight for vector in state]
    return sums
