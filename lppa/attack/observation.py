"""What is attacked: from what the attackers know, a vector that depends on the victim's data.

Each observation is a small class whose docstring is its threat model. How data is made from the
vector is the inversions' matter.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from torch import Tensor

from lppa.attack.knowledge import Knowledge
from lppa.attack.target import Target, Term
from lppa.models.tracking import Schedule, best_estimate, known_rows, messages
from lppa.protocol.errors import WrongUse


class Observation(Protocol):
    """Makes a target of the victim's messages around round t."""

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target: ...


class Naive:
    """The paper's attacker: takes γ as it came for the victim's gradient.

    Knows: the victim's (θ, γ) of one round. Right only where γ is the gradient, that is in round 0
    without noise; the attacker does not even remove the noise that it knows itself.
    """

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        theta, gamma = known.state(victim, t)
        term, ignored = Term(1.0, theta, 0), all_noise(known, victim, t)
        return Target(gamma, (term,), 0.0, known.samples(), ignored)


class Neighbour:
    """A neighbour that remembers which noise it exchanged with the victim, and takes it out.

    Knows: the victim's (θ, γ) of round 0, the noise on its own edges to and from the victim, the
    rule and β. What is left is the noise that the victim exchanged with others.
    """

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        if t != 0:
            raise WrongUse("`neighbour` attacks round 0: later noise has been mixed already")
        theta, gamma = known.state(victim, 0)
        left, sigma = without_known_noise(known, victim, 0, gamma)
        return Target(left, (Term(1.0, theta, 0),), sigma, known.samples())


class Difference:
    """A neighbour that also hears all whom the victim listens to: subtracts what they contributed.

    γ_v^{t+1} − Σ_j w_vj γ_j^t = ∇L(θ_v^{t+1}) − ∇L(θ_v^t), whatever noise was injected before.
    Knows: (θ, γ) of the victim in rounds t and t+1 and of its in-neighbours in round t, the row of
    W (or estimates it), and the noise on its own edges where every round has noise.
    """

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        before, _ = known.state(victim, t)
        after, gamma = known.state(victim, t + 1)
        mixed = sum(w * known.state(j, t)[1].double() for j, w in known.row(victim, t).items())
        change = (gamma.double() - mixed).to(gamma.dtype)
        left, sigma = without_known_noise(known, victim, t + 1, change)
        second = 0 if known.settings.batches == "same" else 1
        terms = (Term(1.0, after, second), Term(-1.0, before, 0))
        return Target(left, terms, sigma, known.samples())


class TwoHop:
    """A neighbour that does not hear all whom the victim listens to, and solves for them through θ.

    Every θ and γ is a known linear combination of first models, gradients and noise. Where linear
    algebra finds coefficients that leave only the victim's gradient difference, they are used.
    Knows: all that it sent and received up to round t + 3, W, λ and the noise on its own edges.
    """

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        settings = known.settings
        if known.W is None:
            raise WrongUse("`two-hop` needs W")
        beta = max(settings.beta, 1e-6 * settings.beta_own)  # the unit of all deviations
        schedule = Schedule(
            known.W,
            settings.rule,
            settings.noise_every,
            settings.mixing == "adapt-then-combine",
            settings.init == "common",
            known.steps * settings.lr,
            min(t + 3, max(round for _, round in known.states)),
            settings.beta_own / beta if beta else 0.0,
            settings.lr_decay,
        )
        rows = messages(schedule)
        # Own gradients are left out: they follow from the rest, and are in no message.
        have = known_rows(schedule, rows, sorted(known.attackers), own_gradients=False)
        wanted = rows.gradient(victim, t + 1) - rows.gradient(victim, t)
        found = best_estimate(have, rows, wanted)
        if found is None:
            raise WrongUse(
                f"what the attackers hear does not determine the gradient of node {victim}"
            )
        pairs = zip(found.coefficients, have.names, strict=True)
        vector = sum(c * self._value(known, name).double() for c, name in pairs if abs(c) > 1e-12)
        before, after = known.state(victim, t)[0], known.state(victim, t + 1)[0]
        second = 0 if settings.batches == "same" else 1
        return Target(
            vector.to(before.dtype),
            (Term(1.0, after, second), Term(-1.0, before, 0)),
            found.deviation * math.sqrt(2.0) * beta,
            known.samples(),
        )

    def _value(self, known: Knowledge, name: tuple) -> Tensor:
        if name[0] == "noise":
            delta = known.delta(*name[1:])
            if delta is None:
                raise WrongUse(f"the noise from node {name[1]} to node {name[2]} was not recorded")
            return delta
        return known.state(name[1], name[2])[0 if name[0] == "theta" else 1]


OBSERVATIONS: dict[str, Observation] = {
    "naive": Naive(),
    "neighbour": Neighbour(),
    "difference": Difference(),
    "two-hop": TwoHop(),
}


def without_known_noise(
    known: Knowledge, victim: int, t: int, vector: Tensor
) -> tuple[Tensor, float]:
    """Takes out the attackers' own share of round t's noise; returns the deviation of the rest."""
    settings = known.settings
    if not known.noise_due(t):
        return vector, 0.0
    if settings.rule == "dp":
        return vector, math.sqrt(2.0) * settings.beta
    share, terms = known.known_noise(victim, t)
    left = vector if share is None else vector - share
    unknown = max(0, edges_of(known, victim, t) - terms)
    # Nobody else knows the victim's own independent noise.
    variance = 2.0 * (unknown * settings.beta**2 + settings.beta_own**2)
    return left, math.sqrt(variance)


def all_noise(known: Knowledge, victim: int, t: int) -> float:
    """The deviation of all noise in γ of round t as it was sent, with that of earlier rounds as it
    was mixed since; NaN for later rounds where W is not known."""
    settings = known.settings
    if settings.rule == "dsgt":
        return 0.0
    if known.W is None and t > 0:
        return math.nan
    shared, own = settings.beta**2, settings.beta_own**2
    if settings.rule == "dp":
        shared, own = 0.0, settings.beta**2
    if known.W is None:
        return math.sqrt(2.0 * (edges_of(known, victim, 0) * shared + own))
    edges = (known.W > 0) & ~np.eye(len(known.W), dtype=bool)
    variance = 0.0
    for s in filter(known.noise_due, range(t + 1)):
        # What is left in γ of the noise that each node added in round s.
        share = np.linalg.matrix_power(known.W, t - s)[victim]
        # A draw for an edge is added at one end and taken off at the other.
        variance += shared * float(np.square(share[:, None] - share)[edges].sum())
        variance += own * float(np.square(share).sum())
    return math.sqrt(2.0 * variance)


def edges_of(known: Knowledge, victim: int, t: int) -> int:
    """How many noise terms the victim's difference has: its edges in and out."""
    if known.W is not None:
        around = (known.W[victim] > 0).sum() + (known.W[:, victim] > 0).sum()
        return int(around) - 2
    # Without W the attacker takes it that noise flows both ways wherever anything does.
    return 2 * (len(known.heard(max(0, t - 1))) - 1)
