"""What nodes and the coordinator say to each other: one frozen dataclass per message.

A field of type `np.ndarray` travels as a raw frame of its own; all else travels in the header. How
that is written and checked is the codec's matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Hello:
    """Node to coordinator, repeated until the plan comes: here I am.

    `instance` is drawn once per process, so that two processes with one id can be told apart.
    """

    instance: str
    host: str
    pid: int
    # Ways to exchange noise that this node knows; one that does not say knows the first only.
    speaks: tuple[str, ...] = ("tensor",)


@dataclass(frozen=True)
class Waiting:
    """Coordinator to node, in answer to a Hello: these nodes are still missing."""

    missing: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Coordinator to node, once, when all are there: everything the node needs to know.

    `weights` is the node's row of W over `inputs`, its in-neighbours and itself in ascending order.
    `fingerprint` is one hash over the whole plan of all nodes; neighbours compare it.
    """

    name: str
    nodes: int
    settings: dict[str, Any]
    seed: int
    inputs: tuple[int, ...]
    weights: tuple[float, ...]
    outputs: tuple[int, ...]
    fingerprint: str


@dataclass(frozen=True)
class Refuse:
    """Anyone to a peer that it will not work with; the reason is for the person there."""

    reason: str


@dataclass(frozen=True)
class Stop:
    """Coordinator to every node: the run is over before its end."""

    reason: str


@dataclass(frozen=True)
class Greet:
    """Node to out-neighbour, before anything else: this is the plan that I follow."""

    fingerprint: str


@dataclass(frozen=True)
class Welcome:
    """Node to in-neighbour, in answer to its Greet, over the same connection."""

    fingerprint: str


@dataclass(frozen=True)
class Noise:
    """Node to out-neighbour, when noise is due: δ_li."""

    round: int
    delta: np.ndarray


@dataclass(frozen=True)
class Seed:
    """Node to out-neighbour, once: the seed that both expand into δ_li for any round.

    `commitment` is a hash over the noise that the sender makes of it, so that an end that would
    make other noise is found out before any is used.
    """

    round: int
    seed: np.ndarray
    commitment: np.ndarray


@dataclass(frozen=True)
class State:
    """Node to out-neighbour, every round: θ_i and γ_i."""

    round: int
    theta: np.ndarray
    gamma: np.ndarray


@dataclass(frozen=True)
class Model:
    """Node to out-neighbour, in the finishing rounds: θ_i alone."""

    round: int
    theta: np.ndarray


@dataclass(frozen=True)
class Progress:
    """Node to coordinator, now and then: the round that it has reached."""

    round: int


@dataclass(frozen=True)
class Metrics:
    """Node to coordinator, at each evaluation: plain figures and two linear sketches.

    `theta` sketches θ_i and `excess` sketches γ_i − g_i: enough for the consensus distance and the
    conservation residual, and far too little to rebuild a model or a gradient from.
    """

    round: int
    values: dict[str, Any]
    theta: np.ndarray
    excess: np.ndarray


@dataclass(frozen=True)
class Done:
    """Node to coordinator: finished, with its own totals."""

    round: int
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """Node to coordinator: stopped early. `waited_for` names the peer that was silent, or −1."""

    round: int
    reason: str
    waited_for: int


Message = (
    Hello | Waiting | Plan | Refuse | Stop | Greet | Welcome
    | Noise | Seed | State | Model | Progress | Metrics | Done | Failed
)  # fmt: skip
