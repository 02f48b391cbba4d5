"""From settings to what the linear algebra works on. Nothing is estimated here.

A `Case` is one question: this graph, these weights, these settings, so many rounds overheard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lppa.coordinator.figures import Figures
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.topology import Topology
from lppa.models.rules import Facts, facts_of
from lppa.models.schedule import Schedule
from lppa.models.sizes import Network
from lppa.protocol.checks import check_ids
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings, decayed
from lppa.running.noise_scale import expected_share, step_length, told_again

ROUNDS = 4
# Where the size of what is to be hidden is from.
TABLE, START, GIVEN, RUN = "table", "start", "option", "run"
SOURCES = {
    TABLE: "as measured on such networks",
    START: "ten times what was measured before the first step",
    RUN: "as measured in this run",
}
MOST_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class Hidden(Figures):
    """The size of what is to be hidden: the root mean square over all parameters, and its source.

    `examples` are those that share a gradient, where that is known, and `always` says whether every
    gradient has the same. It counts `spread` times, where the network tells of an example in many
    numbers.
    """

    rms: float
    source: str
    examples: int | None = None
    spread: float = 1.0
    always: bool = False

    @property
    def size(self) -> float:
        """How large it counts."""
        return self.spread * self.rms


def counted(spread: float) -> str:
    """What is said of an example that counts several times, to end a parenthesis with."""
    many = f", counted {spread:.2g} times as this network tells of it in so many numbers"
    return many if spread > 1.0 else ""


@dataclass(frozen=True, eq=False)
class Case:
    """What is audited. States of the rounds 0 to `rounds` are overheard.

    `hide` is what an attacker wants, None where there is nothing to hide.
    """

    settings: Settings
    topology: Topology
    W: np.ndarray
    rounds: int
    hide: Hidden | None = None
    network: Network | None = None  # as measured, where no table knows it

    @property
    def nodes(self) -> int:
        """How many clients there are."""
        return self.topology.nodes

    @property
    def rule(self) -> Facts:
        """What is known of the rule."""
        return facts_of(self.settings.rule)

    @property
    def unit(self) -> str:
        """What deviations are counted in."""
        return "β_own" if only_own_noise(self.settings) else "β"

    @property
    def scale(self) -> float:
        """What deviations are counted in, as a number."""
        return self.settings.beta_own if only_own_noise(self.settings) else self.settings.scale

    @property
    def size(self) -> float | None:
        """What is to be hidden, in that unit; None where there is neither unit nor data."""
        return None if self.once is None else self.repeated * self.once

    @property
    def once(self) -> float | None:
        """The same of one gradient."""
        return self.hide.size / self.scale if self.hide and self.scale else None

    @property
    def repeated(self) -> float:
        """How much more is told of an example that is in every gradient, with fresh noise on each.

        One that is in some of them only is told of in words.
        """
        return told_again(self.settings) if self.always and self.scale else 1.0

    @property
    def always(self) -> bool:
        """Whether every gradient has the same examples."""
        settings = self.settings
        if settings.batches == "same" or settings.local_steps == "epoch":
            return True
        return self.hide is not None and self.hide.always

    @property
    def step(self) -> float:
        """K·λ of the first round."""
        examples = self.hide.examples if self.hide else None
        return step_length(self.settings, self.nodes, examples, self.network)

    def schedule(self) -> Schedule:
        """The linear system's description. Noise of scale 0 is none."""
        settings = self.settings
        return Schedule(
            W=self.W,
            rule=self.rule,
            noisy=settings.noisy,
            step=partial(decayed, self.step, settings.lr_decay),
            adapt_first=settings.mixing == "adapt-then-combine",
            common_start=settings.init == "common",
            rounds=self.rounds,
            beta_own=settings.beta_own / self.scale if self.rule.cancels and self.scale else 0.0,
            finish=min(settings.finishing, ROUNDS),
            beta_noise=settings.scale > 0,
        )


def only_own_noise(settings: Settings) -> bool:
    """Noise on edges of scale 0 is none: what is left is as dp's, with the scale β_own."""
    return facts_of(settings.rule).cancels and settings.scale == 0 and settings.beta_own > 0


def case_of(blueprint: Blueprint, rounds: int | None = None, hide: Hidden | None = None) -> Case:
    """The case of a run. Its last state is sent in the round before its last."""
    settings = blueprint.settings
    seen = min(ROUNDS, settings.rounds - 1) if rounds is None else rounds
    hide = hide or before_a_run(settings, blueprint.nodes, blueprint.rows, blueprint.network)
    return Case(settings, blueprint.topology, blueprint.W, seen, hide, blueprint.network)


def before_a_run(
    settings: Settings, nodes: int, rows: int | None = None, network: Network | None = None
) -> Hidden | None:
    """What is to be hidden, by the table of networks or as measured at the start.

    `rows` are the smallest client's.
    """
    share = expected_share(settings, nodes, rows, network)
    source = TABLE if network is None else START
    return (
        None
        if share is None
        else Hidden(share.rms, source, share.examples, share.spread, share.always)
    )


def check_nodes(nodes: int, attackers: Sequence[int], victim: int | None) -> None:
    """Refuses ids that are not in the graph, and sets that leave nobody to attack."""
    check_ids((*attackers, *(() if victim is None else (victim,))), nodes, "graph")
    if victim in attackers:
        raise WrongUse(f"node {victim} cannot be attacker and victim at once")
    if len(set(attackers)) == nodes:
        raise WrongUse("--attackers names all nodes: leave at least one to be the victim")
