"""What one attacker, or several that pool their logs, know after a run.

Read from their logs and from nothing else; W may be added where it is known. What can be concluded
from it is the observations' matter. It is about the graph that the run began with: what was said
after a change of the graph is left out, since weights, noise and tracking are others from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lppa.models.rules import Facts, facts_of
from lppa.node.expansion import Expander, grid_step
from lppa.node.log import read_log
from lppa.node.pairs import PairExpander, pair_key
from lppa.protocol.errors import WrongUse
from lppa.protocol.messages import Noise, Plan, Seed, State
from lppa.protocol.settings import Settings, make_settings
from lppa.protocol.view import read_view

SAMPLE = 20_000  # coordinates that a row of W is estimated from
TRUSTED = 1e-3  # relative error above which an estimate does not explain what was seen


@dataclass
class Knowledge:
    """States by (node, round) and noise by (sender, receiver, round), as far as they were heard.

    Where seeds are exchanged in the place of noise, by (sender, receiver), noise is made from them.
    `change` is the round in which the graph changed: nothing from there on is known.
    """

    plan: Plan
    attackers: set[int]
    steps: int  # local steps a round
    W: np.ndarray | None = None
    states: dict[tuple[int, int], dict[str, Tensor]] = field(default_factory=dict)
    noise: dict[tuple[int, int, int], Tensor] = field(default_factory=dict)
    seeds: dict[tuple[int, int], bytes] = field(default_factory=dict)
    change: int | None = None

    @property
    def settings(self) -> Settings:
        """The run's settings, which every node is told."""
        return make_settings(self.plan.settings)

    @property
    def rule(self) -> Facts:
        """What is known of the run's rule."""
        return facts_of(self.settings.rule)

    def state(self, node: int, t: int) -> tuple[Tensor, Tensor]:
        """(θ, γ) that a node sent in round t."""
        return self.vector(node, t, "theta"), self.vector(node, t, "gamma")

    def vector(self, node: int, t: int, name: str) -> Tensor:
        """One of the vectors that a node sent in round t."""
        if self.change is not None and t >= self.change:
            raise WrongUse(
                f"the graph changed in round {self.change} (views.jsonl in the run's directory): "
                f"only what was sent before that can be attacked, and this needs round {t}"
            )
        if (node, t) not in self.states:
            raise WrongUse(f"the attackers heard nothing from node {node} in round {t}")
        if name not in self.states[node, t]:
            raise WrongUse(f"node {node} sent no {name} in round {t}")
        return self.states[node, t][name]

    def heard(self, t: int) -> list[int]:
        """The nodes whose state of round t is known, the attackers' own included."""
        return sorted(node for node, round in self.states if round == t)

    def noise_due(self, t: int) -> bool:
        """Whether noise was injected before the states of round t were sent."""
        return not self.rule.noiseless and self.settings.noisy(t)

    def samples(self) -> int:
        """How many examples a gradient is the mean over: those of all steps of a round."""
        return self.settings.batch * self.steps

    def delta(self, sender: int, receiver: int, t: int) -> Tensor | None:
        """The noise on an edge in round t, where it is known.

        Two nodes that sent each other seeds have one draw for both directions: it counts as that
        of the edge from the lower id to the higher, and the other has none.
        """
        edge = (sender, receiver)
        if (*edge, t) not in self.noise and edge in self.seeds and self.noise_due(t):
            theta = self.vector(*next(iter(self.states)), "theta")
            steps = self._expanded(sender, receiver, t, len(theta))
            grid = grid_step(self.settings.scale) if self.settings.scale else 0.0
            self.noise[sender, receiver, t] = torch.from_numpy(steps * grid).to(theta.dtype)
        return self.noise.get((*edge, t))

    def _expanded(self, sender: int, receiver: int, t: int, size: int) -> np.ndarray:
        """The noise on an edge whose seed is known, in steps of the grid."""
        about = (self.settings.noise, self.settings.scale, size)
        there, back = self.seeds[sender, receiver], self.seeds.get((receiver, sender))
        if back is None:
            return Expander(*about).total([(1, there)], t)
        if sender > receiver:
            return np.zeros(size, np.int32)
        return PairExpander(*about).total([(1, pair_key(there, back))], t)

    def known_noise(self, victim: int, t: int) -> tuple[Tensor | None, int]:
        """What the attackers know of the victim's noise difference, and how many terms that is."""
        total, terms = None, 0
        for sender, receiver in sorted({(s, r) for s, r, _ in self.noise} | self.seeds.keys()):
            delta = self.delta(sender, receiver, t) if victim in (sender, receiver) else None
            if delta is not None:
                share = delta if sender == victim else -delta
                total = share if total is None else total + share
                terms += 1
        return total, terms

    def row(self, victim: int, t: int) -> dict[int, float]:
        """The victim's row of W: as known, else estimated from θ."""
        if self.W is not None:
            return {j: float(w) for j, w in enumerate(self.W[victim]) if w > 0}
        if "gamma" not in self.rule.update.sends:
            name = self.settings.rule
            raise WrongUse(f"under {name} a row of W cannot be told from θ, which no γ explains")
        return estimate_row(self, victim, t)


def read_knowledge(
    logs: Sequence[Path], W: np.ndarray | None = None, epoch: int | None = None
) -> Knowledge:
    """Pools the logs of the attackers. `epoch` is how many steps a pass over the data has."""
    known: Knowledge | None = None
    for path in logs:
        me: int | None = None
        for entry in read_log(path):
            message = entry.message
            if isinstance(message, Plan):
                me = _node_of(path)
                _check_first(me, message)
                known = known or Knowledge(message, set(), _steps(message, epoch), W)
                known.attackers.add(me)
            elif known is None or me is None:
                raise WrongUse(f"attack log {path} does not begin with a plan")
            else:
                _take(known, me, entry.direction, entry.peer, message)
    if known is None:
        raise WrongUse("there is no attack log: run with --attacker, or lppa-node with --attack")
    _forget_change(known)
    return known


def _check_first(me: int, plan: Plan) -> None:
    if read_view(plan.view).epoch > 0:
        raise WrongUse(
            f"node {me} began to record when the graph had changed already: attacks know the graph "
            "that a run begins with"
        )


def _forget_change(known: Knowledge) -> None:
    """Drops what some had sent already of the round that the graph changed in: it was done again.

    Who hears it, and of whom, is chance.
    """
    change = known.change
    if change is not None:
        known.states = {key: sent for key, sent in known.states.items() if key[1] < change}
        known.noise = {key: delta for key, delta in known.noise.items() if key[2] < change}


def _steps(plan: Plan, epoch: int | None) -> int:
    steps = plan.settings["local_steps"]
    if steps != "epoch":
        return int(steps)
    if epoch is None:
        raise WrongUse("how many steps `--local-steps epoch` has depends on the run's data")
    return epoch


def _node_of(path: Path) -> int:
    try:
        return int(path.stem.removeprefix("node-"))
    except ValueError:
        raise WrongUse(f"{path} is not named like an attack log, node-ID.log") from None


def _take(known: Knowledge, me: int, direction: str, peer: int, message: object) -> None:
    sender, receiver = (me, peer) if direction == "out" else (peer, me)
    if isinstance(message, State | Noise | Seed) and message.epoch > 0:
        # Everybody's first message of a view is of the round that the view begins with.
        earlier = message.round if known.change is None else known.change
        known.change = min(earlier, message.round)
    elif isinstance(message, State):
        vectors = {name: _tensor(array) for name, array in message.vectors.items()}
        known.states[sender, message.round] = vectors
    elif isinstance(message, Noise):
        known.noise[sender, receiver, message.round] = _tensor(message.delta)
    elif isinstance(message, Seed):
        known.seeds[sender, receiver] = message.seed.tobytes()


def _tensor(array: np.ndarray) -> Tensor:
    # A copy: the log is mapped read-only, and its numbers may lie off their boundary.
    return torch.from_numpy(np.array(array))


def estimate_row(known: Knowledge, victim: int, t: int) -> dict[int, float]:
    """The victim's row of W by least squares from its θ of two rounds: W is no secret.

    The attackers must hear all whom the victim listens to.
    """
    settings = known.settings
    lam = known.steps * settings.step(t)
    after = known.vector(victim, t + 1, "theta")
    pick = np.random.default_rng(0).permutation(len(after))[:SAMPLE]
    nodes, columns = known.heard(t), []
    for node in nodes:
        theta, gamma = known.vector(node, t, "theta"), known.vector(node, t, "gamma")
        moved = theta - lam * gamma if settings.mixing == "adapt-then-combine" else theta
        columns.append(moved[pick].double())
    left = after[pick].double()
    if settings.mixing == "combine-then-adapt":
        left = left + lam * known.vector(victim, t, "gamma")[pick].double()
    matrix = torch.stack(columns, 1).numpy()
    weights, *_ = np.linalg.lstsq(matrix, left.numpy(), rcond=None)
    error = np.linalg.norm(matrix @ weights - left.numpy()) / np.linalg.norm(left.numpy())
    if error > TRUSTED:
        raise WrongUse(
            f"node {victim} listens to somebody whom the attackers do not hear "
            f"(its θ is explained only to {error:.0%})"
        )
    return {node: float(w) for node, w in zip(nodes, weights, strict=True) if abs(w) > TRUSTED}
