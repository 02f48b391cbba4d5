"""What is attacked: from what the attackers know, a vector that depends on the victim's data.

Each observation is a small class whose docstring is its threat model; those here are on γ, and
`steps` has their like for rules that send none. How data is made from the vector is the
inversions' matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lppa.attack.knowledge import Knowledge
from lppa.attack.solving import Solver
from lppa.attack.steps import DifferenceStep, NaiveStep, TwoHopStep
from lppa.attack.target import Target, Term
from lppa.attack.unknown_noise import all_noise, without_known_noise
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
        theta, gamma = (known.vector(victim, t, name) for name in ("theta", "gamma"))
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
        theta, gamma = (known.vector(victim, 0, name) for name in ("theta", "gamma"))
        left, sigma = without_known_noise(known, victim, 0, gamma)
        return Target(left, (Term(1.0, theta, 0),), sigma, known.samples())


class Difference:
    """A neighbour that also hears all whom the victim listens to: subtracts what they contributed.

    γ_v^{t+1} − Σ_j w_vj γ_j^t = ∇L(θ_v^{t+1}) − ∇L(θ_v^t), whatever noise was injected before.
    Knows: (θ, γ) of the victim in rounds t and t+1 and of its in-neighbours in round t, the row of
    W (or estimates it), and the noise on its own edges where every round has noise.
    """

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        before, after = (known.vector(victim, s, "theta") for s in (t, t + 1))
        gamma, row = known.vector(victim, t + 1, "gamma"), known.row(victim, t)
        mixed = sum(w * known.vector(j, t, "gamma").double() for j, w in row.items())
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
        # First: a gradient that no message has is none of the solver's unknowns.
        (before, _), (after, _) = (known.state(victim, s) for s in (t, t + 1))
        solver = Solver(known, t)
        wanted = solver.rows.gradient(victim, t + 1) - solver.rows.gradient(victim, t)
        vector, sigma = solver.estimate(wanted, victim)
        second = 0 if known.settings.batches == "same" else 1
        return Target(
            vector.to(before.dtype),
            (Term(1.0, after, second), Term(-1.0, before, 0)),
            sigma,
            known.samples(),
        )


@dataclass(frozen=True)
class ByRule:
    """One observation under a name: on γ, or where no γ is sent on steps of θ, if there is one."""

    name: str
    on_gamma: Observation
    on_steps: Observation | None = None

    def __call__(self, known: Knowledge, victim: int, t: int) -> Target:
        if "gamma" in known.rule.update.sends:
            return self.on_gamma(known, victim, t)
        if self.on_steps is None:
            name = known.settings.rule
            raise WrongUse(f"`{self.name}` attacks γ, and {name} sends none: try `difference`")
        return self.on_steps(known, victim, t)


OBSERVATIONS: dict[str, Observation] = {
    one.name: one
    for one in (
        ByRule("naive", Naive(), NaiveStep()),
        ByRule("neighbour", Neighbour()),
        ByRule("difference", Difference(), DifferenceStep()),
        ByRule("two-hop", TwoHop(), TwoHopStep()),
    )
}
