"""How large noise has to be to hide an example, and how large it may be on a graph.

Where nobody names β it follows from both: as much as hides, and no more than the models bear. What
is hidden from whom exactly, the audit says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lppa.coordinator.topology import Topology
from lppa.models.rules import facts_of
from lppa.models.sizes import Network
from lppa.protocol.settings import Settings
from lppa.running.known_networks import known_network

if TYPE_CHECKING:
    from lppa.coordinator.plan import Blueprint

WANTED = 40.0  # noise over an example's share of the gradient: twice what counts as hidden
# Disagreement over the size of the weights that has cost no accuracy: all the time, and once.
BEARABLE = 0.1
BEARABLE_ONCE = 3.0
PLAIN = 0.025  # the paper's β, where there is no example to hide
LARGE = 64  # nodes of a graph above which full matrices are too slow
LONGEST = 2000  # rounds after which no noise is followed further


@dataclass(frozen=True)
class Share:
    """What one example contributes to a gradient: its own over how many it shares it with.

    It counts `spread` times, as its network has it.
    """

    example_rms: float
    examples: int
    spread: float = 1.0
    always: bool = False
    """Whether every gradient has it: all batches are the same, or each round has all the data."""

    @property
    def rms(self) -> float:
        """The root mean square, over all parameters, of what is to be hidden."""
        return self.example_rms / self.examples

    @property
    def size(self) -> float:
        """The same as it counts."""
        return self.spread * self.rms


def examples_per_gradient(settings: Settings, rows: int) -> int:
    """Among how many examples a client with so many rows shares out one round's gradient.

    Where steps go through the data more than once, an example that was drawn more often than others
    has a larger share.
    """
    rows = max(1, rows)
    batch = min(settings.batch, rows)
    if settings.batches == "same":
        return batch
    drawn = drawn_in_round(settings, rows)
    return drawn // math.ceil(drawn / rows)


def drawn_in_round(settings: Settings, rows: int) -> int:
    """How many examples a client with so many rows goes through in a round."""
    if settings.local_steps == "epoch":
        return rows
    return min(settings.batch, rows) * int(settings.local_steps)


def told_again(settings: Settings) -> float:
    """How much less noise averages to over all gradients of a run, if each is told by itself.

    In gradient tracking a gradient that stays the same is told once; later messages tell its
    change, which is none. Else every round with fresh noise tells it again.
    """
    update = facts_of(settings.rule).update
    if update.tells_changes or settings.noise_every != 1:
        return 1.0
    # Those of the last round are sent in rounds that only average.
    count = settings.rounds if settings.finishing else settings.rounds - 1
    weights = [update.weight(settings.step(t)) for t in range(count)]
    return math.hypot(*weights) / weights[0] if count > 1 else 1.0


def momentum_gain(settings: Settings, rows: int) -> float:
    """How much more an example counts in a round's gradient for the momentum of its path."""
    steps = settings.local_steps
    count = max(1, rows // settings.batch) if steps == "epoch" else int(steps)
    return (1.0 - settings.momentum**count) / (1.0 - settings.momentum)


def expected_share(
    settings: Settings, nodes: int, rows: int | None = None, network: Network | None = None
) -> Share | None:
    """An example's share before a run, `rows` being those of the smallest client where known."""
    network = network or known_network(settings)
    if network is None:
        return None
    always = settings.batches == "same" or settings.local_steps == "epoch"
    if rows is None and network.rows:
        rows = network.rows // nodes
    if rows is not None:
        always = always or drawn_in_round(settings, rows) >= rows
    else:
        # Data of one's own has as many rows as it has: take it that there are enough for the steps
        # that are asked for, and of a whole pass that it is one step.
        steps = 1 if settings.local_steps == "epoch" else int(settings.local_steps)
        rows = settings.batch * steps
    size = network.example_rms * momentum_gain(settings, rows)
    return Share(size, examples_per_gradient(settings, rows), network.spread, always)


def noise_left(topology: Topology, rule: str) -> float:
    """The least noise, in units of β, that is left on what hides a first gradient from a neighbour.

    That is the gradient itself, or the step along it where noise enters θ. A neighbour knows the
    draws on its own edges. Clients of whom one neighbour knows all are left out: no β hides them.
    """
    if not facts_of(rule).cancels:
        return math.sqrt(2.0)
    unknown = set()
    for node in range(topology.nodes):
        edges = [*topology.in_neighbours(node), *topology.out_neighbours(node)]
        unknown |= {len(edges) - edges.count(neighbour) for neighbour in edges}
    return math.sqrt(2.0 * min(unknown - {0}, default=2))


def disagreement(topology: Topology, W: np.ndarray, settings: Settings, steps: int) -> float:
    """How far noise of scale β = 1 keeps models apart, per weight, if nothing else moves them.

    Noise n that enters γ is in θ as k·K·λ·W^k n after k rounds; noise that enters θ is there as
    W^k n, and counts from where gradients are taken: after mixing, or before it. Where noise enters
    in every round these add up; where it enters at the start only, the worst round counts.
    """
    in_theta = facts_of(settings.rule).in_theta
    draws = np.zeros((topology.nodes, len(topology.edges)))
    for k, (sender, receiver) in enumerate(topology.edges):
        draws[sender, k], draws[receiver, k] = 1.0, -1.0
    total = worst = 0.0
    left = left_of(draws, W, first=1 if settings.mixing == "adapt-then-combine" else 0)
    for k, square in zip(range(1, LONGEST), left, strict=False):
        size = (1 if in_theta else k**2) * square
        total, worst = total + size, max(worst, size)
        if size <= 1e-6 * total:
            break
    spread = total / settings.noise_every if settings.noise_every else worst
    return (1.0 if in_theta else steps * settings.lr) * math.sqrt(2.0 * spread / topology.nodes)


def left_of(draws: np.ndarray, W: np.ndarray, first: int) -> Iterator[float]:
    """‖W^k draws‖² from k = `first` on, without end.

    On large graphs not by multiplying full matrices: a symmetric W is taken apart once, and of any
    other one only the entries that are there are multiplied.
    """
    if len(W) <= LARGE:
        moved = W @ draws if first else draws
        while True:
            yield float((moved**2).sum())
            moved = W @ moved
    if np.allclose(W, W.T, rtol=0.0, atol=1e-9):
        values, vectors = np.linalg.eigh((W + W.T) / 2)
        squares = ((vectors.T @ draws) ** 2).sum(axis=1)
        # What all have in common moves nobody apart: draws sum to zero.
        squares[squares < 1e-12 * squares.sum()] = 0.0
        values[np.abs(values) < 1e-12] = 0.0
        squares *= values ** (2 * first)
        while True:
            yield float(squares.sum())
            squares = squares * values**2
    from scipy.sparse import csr_array

    sparse = csr_array(W)
    moved = sparse @ draws if first else draws
    while True:
        yield float((moved**2).sum())
        moved = sparse @ moved


def local_steps(settings: Settings, nodes: int, network: Network | None = None) -> int:
    """Steps a round, as far as can be told before any data is seen."""
    if settings.local_steps != "epoch":
        return int(settings.local_steps)
    network = network or known_network(settings)
    return max(1, network.rows // nodes // settings.batch) if network else 1


def step_length(
    settings: Settings,
    nodes: int,
    examples: int | None = None,
    network: Network | None = None,
) -> float:
    """K·λ of the first round, as far as can be told before any data is seen.

    `examples` are those that share a gradient: they tell how long a pass is over data of one's own.
    """
    steps = local_steps(settings, nodes, network)
    if examples is not None and pass_is_unknown(settings, network):
        steps = max(1, examples // settings.batch)
    return steps * settings.lr


def pass_is_unknown(settings: Settings, network: Network | None = None) -> bool:
    """Whether nobody can tell before a run how many steps a round has."""
    network = network or known_network(settings)
    return settings.local_steps == "epoch" and network is not None and network.rows == 0


def gradient_weight(
    settings: Settings,
    nodes: int,
    examples: int | None = None,
    network: Network | None = None,
) -> float:
    """What a gradient is multiplied with where noise is added to it: 1 in γ, K·λ in θ."""
    step = step_length(settings, nodes, examples, network)
    return facts_of(settings.rule).update.weight(step)


def largest_beta(
    settings: Settings, topology: Topology, W: np.ndarray, network: Network | None = None
) -> float:
    """The β from which on noise that cancels keeps models so far apart that learning suffers."""
    network = network or known_network(settings)
    if not facts_of(settings.rule).cancels or network is None:
        return math.inf
    apart = disagreement(topology, W, settings, local_steps(settings, topology.nodes, network))
    bearable = BEARABLE if settings.noise_every else BEARABLE_ONCE
    return bearable * network.weight_rms / apart if apart else math.inf


def choose_beta(
    settings: Settings,
    topology: Topology,
    W: np.ndarray,
    rows: int | None = None,
    network: Network | None = None,
) -> float:
    """β where nobody named one: as large as hides an example, as far as the models bear it.

    `rows` are those of the smallest client, where they are known: it hides the least. `network` is
    one that was measured; else the table tells.
    """
    share = expected_share(settings, topology.nodes, rows, network)
    if share is None:
        return PLAIN
    weight = gradient_weight(settings, topology.nodes, share.examples, network)
    times = told_again(settings) if share.always else 1.0
    hiding = enough_noise(times * weight * share.size, noise_left(topology, settings.rule))
    return min(hiding, no_more_than(largest_beta(settings, topology, W, network)))


def enough_noise(size: float, left: float) -> float:
    """The scale that hides what has this size, if so many times the scale is left of it."""
    return two_digits(WANTED * size / left)


def scale_warnings(blueprint: Blueprint) -> list[str]:
    """Says before a run that its noise is too large for its graph."""
    settings = blueprint.settings
    most = largest_beta(settings, blueprint.topology, blueprint.W, blueprint.network)
    beta = float(settings.beta)
    if beta <= most:
        return []
    # Noise in θ is as large there whatever the step.
    fewer = "" if facts_of(settings.rule).in_theta else "fewer --local-steps "
    return [
        f"--beta {beta:g} is {beta / most:.2g} times what models bear on this "
        "graph: it would keep them too far apart beside the size of their weights; to change that, "
        f"use --beta {no_more_than(most):g} or less, {fewer}or a denser --topology"
    ]


def two_digits(value: float) -> float:
    """Rounded to what a person would write."""
    return float(f"{value:.2g}")


def no_more_than(value: float) -> float:
    """The same, rounded down: for bounds."""
    rounded = two_digits(value)
    if rounded <= value:
        return rounded
    return two_digits(value - 0.05 * 10.0 ** math.floor(math.log10(value)))
