"""What is attacked where no γ travels, as under dsgd: the step along a gradient, as it shows in θ.

θ_v^{t+1} = Σ_j w_vj θ_j^t − K·λ·g_v^t + noise, so that g^t is told by the messages of round t + 1,
and all noise on it is that in θ over K·λ. With the same names as in `observation`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lppa.attack.knowledge import Knowledge
from lppa.attack.solving import Solver
from lppa.attack.target import Target, Term
from lppa.attack.unknown_noise import noise_of, without_known_noise
from lppa.protocol.errors import WrongUse


class NaiveStep:
    """Takes the way from one θ of the victim to its next for a step along its gradient.

    Knows: the victim's θ of two rounds. Right only where the victim listens to nobody, or all that
    it listens to have its own θ, and there is no noise: in round 0 after a common start without.
    """

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        step = step_of(known, t)
        before, after = (known.vector(victim, s, "theta") for s in (t, t + 1))
        vector = ((before.double() - after.double()) / step).to(before.dtype)
        ignored = _noise_between(known, victim, t) / step
        return Target(vector, (Term(1.0, before, 0),), 0.0, known.samples(), ignored)


class DifferenceStep:
    """A neighbour that also hears all whom the victim listens to: subtracts what they contributed.

    Σ_j w_vj θ_j^t − θ_v^{t+1} = K·λ·g_v^t − n_v^{t+1}, whatever noise was injected before.
    Knows: θ of the victim in round t + 1 and of all that it listens to in round t, the row of W, λ,
    and the noise on its own edges.
    """

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        step = step_of(known, t)
        after = known.vector(victim, t + 1, "theta")
        row = known.row(victim, t)
        parts = (w * known.vector(j, t, "theta").double() for j, w in row.items())
        mixed = sum(parts, torch.zeros(()))
        left, sigma = without_known_noise(known, victim, t + 1, after.double() - mixed)
        point = mixed if mixes_first(known) else known.vector(victim, t, "theta")
        return _target(known, -left / step, point.to(after.dtype), sigma / step)


class TwoHopStep:
    """A neighbour that does not hear all whom the victim listens to, and solves for them.

    Every θ is a known linear combination of first models, gradients and noise. Where linear algebra
    finds coefficients that leave only the victim's gradient, they are used; so for the point at
    which it was taken. Knows: all that it sent and received up to round t + 3, W, λ and the noise
    on its own edges.
    """

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        step_of(known, t)
        # First: a gradient that no message has is none of the solver's unknowns.
        point, _ = (known.vector(victim, s, "theta") for s in (t, t + 1))
        solver = Solver(known, t)
        vector, sigma = solver.estimate(solver.rows.gradient(victim, t), victim)
        if mixes_first(known):
            mixed = solver.W[victim] @ solver.rows.theta[t]
            point = solver.estimate(mixed, victim)[0].to(point.dtype)
        return _target(known, vector, point, sigma)


def _target(known: Knowledge, vector: Tensor, point: Tensor, sigma: float) -> Target:
    return Target(vector.to(point.dtype), (Term(1.0, point, 0),), sigma, known.samples())


def step_of(known: Knowledge, t: int) -> float:
    """The length of round t's step; refuses rounds that have none."""
    last = known.settings.rounds - 1
    if t > last:
        raise WrongUse(f"there is no gradient in round {t}: the last is that of round {last}")
    return known.steps * known.settings.step(t)


def mixes_first(known: Knowledge) -> bool:
    """Whether gradients are taken at the mean of what was heard, and not at one's own θ."""
    return known.settings.mixing == "adapt-then-combine"


def _noise_between(known: Knowledge, victim: int, t: int) -> float:
    """The deviation of all noise in θ_v^t − θ_v^{t+1}; NaN where W is not known."""
    if known.W is None:
        return float("nan")
    power = np.linalg.matrix_power
    shares = {s: (power(known.W, t - s) - power(known.W, t + 1 - s))[victim] for s in range(t + 1)}
    shares[t + 1] = -np.eye(len(known.W))[victim]
    return noise_of(known, known.W, shares)
