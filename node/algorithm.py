"""Algorithm 1 of the paper, for one client: the round loop and nothing else.

Who the neighbours are, how a gradient is made and what noise a rule injects is handed in. With K
local steps a round, a client's gradient is the mean over a private path of K steps, and the round's
step is K·λ long: K = 1 is the paper's algorithm to the letter.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from lppa.node.learner import Learner
from lppa.node.neighbours import Neighbours


@dataclass(frozen=True)
class Round:
    """A client between two rounds: all that goes on from there, besides its data and its noise."""

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
    """Yields after each round; returns the state that the client ends with.

    `row` is row i of W over the in-neighbours and the client itself, in ascending order. Sums run
    in that order, so that the same seeds give the same bits whatever the network does.
    """
    theta = learner.start()
    g = mean_gradient(learner, theta, torch.zeros_like(theta), lam(0), local_steps)
    gamma = g
    for t in range(rounds):
        gamma = inject(gamma, t)
        mixed_theta, mixed_gamma = mix(row, neighbours.exchange(t, theta, gamma))
        theta = mixed_theta - local_steps * lam(t) * (mixed_gamma if adapt_first else gamma)
        g, g_old = mean_gradient(learner, theta, mixed_gamma - g, lam(t + 1), local_steps), g
        gamma = mixed_gamma + g - g_old
        yield Round(t + 1, theta, gamma, g)
    for t in range(rounds, rounds + finish):
        (theta,) = mix(row, neighbours.exchange(t, theta))
        yield Round(t + 1, theta, gamma, g)
    return Round(rounds + finish, theta, gamma, g)


def mean_gradient(learner: Learner, theta: Tensor, c: Tensor, lam: float, steps: int) -> Tensor:
    """The mean of the gradients on a trial path from θ: x ← x − λ (g + c), so many steps.

    `c` is what others' gradients are on average beyond one's own. The path never leaves the client:
    if θ itself moved along it, neighbours could read the gradients off θ before any noise is added.
    """
    g = learner.gradient(theta)
    if steps == 1:
        return g
    total, x, drift = g.clone(), theta.clone(), lam * c
    for _ in range(steps - 1):
        x.sub_(g, alpha=lam).sub_(drift)
        g = learner.gradient(x)
        total.add_(g)
    return total.div_(steps)


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
