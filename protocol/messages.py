"""What nodes and the coordinator say to each other: one frozen dataclass per message.

A field of type `np.ndarray` travels as raw bytes, and so does each vector of a `Vectors` field; all
else travels in the header. How that is written and checked is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Vectors = dict[str, np.ndarray]
"""Named vectors: which names there are follows from the rule."""


class Together(Vectors):
    """Vectors that lie one behind the other in one array, `whole`, as small ones travel."""

    def __init__(self, whole: np.ndarray, sizes: Mapping[str, int]) -> None:
        super().__init__(zip(sizes, cut(whole, sizes.values()), strict=True))
        self.whole = whole


def cut(together: Any, sizes: Iterable[int]) -> list[Any]:
    """What lies one behind the other, bytes or numbers, in pieces of these sizes, in place."""
    parts, start = [], 0
    for size in sizes:
        parts.append(together[start : start + size])
        start += size
    return parts


@dataclass(frozen=True)
class Hello:
    """Node to coordinator, repeated until the plan comes: here I am.

    `instance` is drawn once per process, so that two processes with one id can be told apart.
    `endpoint` is where this process listens, empty where peers.json says so already.
    """

    instance: str
    host: str
    pid: int
    # Ways to exchange noise that this node knows; one that does not say knows the first only.
    speaks: tuple[str, ...] = ("tensor",)
    endpoint: str = ""
    # Checkpoints that it could go on from: their epochs, and their rounds.
    epochs: tuple[int, ...] = ()
    rounds: tuple[int, ...] = ()
    # The epoch and the round that it is in, of a node that has its plan and works by it.
    running: tuple[int, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """Coordinator to node, in answer to a Hello: these nodes are still missing."""

    missing: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Coordinator to node, once, when all are there: everything the node needs to know.

    `view` is the graph as it is now, as far as this node is told (`view.read_view`); `begin` is the
    checkpoint to go on from, as (epoch, round), empty for a start from the beginning.
    `run_seed` is what splits, starts and batches are drawn from; whether noise can be repeated is
    a setting. `fingerprint` is one hash over the whole plan of all nodes, `greeting` one over that
    and the view; what neighbours compare is `fingerprint.plan_fingerprint`, which does not rely on
    either.
    """

    name: str
    nodes: int
    settings: dict[str, Any]
    run_seed: int
    view: dict[str, Any]
    fingerprint: str
    greeting: str
    begin: tuple[int, ...] = ()


@dataclass(frozen=True)
class Halt:
    """Coordinator to every member, repeated until it answers: the graph is about to change.

    Nothing is sent in an epoch before this one any more.
    """

    epoch: int


@dataclass(frozen=True)
class Halted:
    """Node to coordinator, in answer: the last round that it has done, −1 if it has no model."""

    epoch: int
    done: int


@dataclass(frozen=True)
class NextView:
    """Coordinator to every member, repeated until it has entered: the graph from now on."""

    epoch: int
    view: dict[str, Any]
    fingerprint: str


@dataclass(frozen=True)
class Entered:
    """Node to coordinator: it has met its neighbours in this epoch, and goes on."""

    epoch: int


@dataclass(frozen=True)
class Late:
    """Node to coordinator, now and then while it waits: for whom, and for how long."""

    epoch: int
    round: int
    node: int
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Pulse:
    """Coordinator to every node, about every second: it is still there."""

    epoch: int


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
    """Node to out-neighbour, before anything else in an epoch: this is the plan that I follow."""

    epoch: int
    fingerprint: str


@dataclass(frozen=True)
class Welcome:
    """Node to in-neighbour, in answer to its Greet, over the same connection."""

    epoch: int
    fingerprint: str


@dataclass(frozen=True)
class Noise:
    """Node to out-neighbour, when noise is due: δ_li. A large one comes in parts."""

    epoch: int
    round: int
    delta: np.ndarray
    part: int = 0


@dataclass(frozen=True)
class Seed:
    """Node to out-neighbour, once in an epoch: the seed that both expand into δ_li for any round.

    `commitment` is a hash over the noise that the sender makes of it, so that an end that would
    make other noise is found out before any is used.
    """

    epoch: int
    round: int
    seed: np.ndarray
    commitment: np.ndarray


@dataclass(frozen=True)
class State:
    """Node to out-neighbour, every round: the vectors of the rule, such as θ_i and γ_i.

    Large ones come in parts, one after the other.
    """

    epoch: int
    round: int
    vectors: Vectors
    part: int = 0


@dataclass(frozen=True)
class Ask:
    """Sender to receiver of numbered messages, after a silence: what has come?

    What is numbered lower than `first` was taken already, or will never come.
    """

    epoch: int
    serial: int
    first: int


@dataclass(frozen=True)
class Taken:
    """Receiver to sender, over the same connection: all that is numbered below `upto` has come.

    `serial` is that of the Ask that it answers, 0 where nobody asked.
    """

    epoch: int
    upto: int
    serial: int = 0


@dataclass(frozen=True)
class Who:
    """Coordinator to a node that it does not know by its connection: say hello (again)."""


STAGES = ("noise", "mixing", "gradient")  # of a round, in their order


@dataclass(frozen=True)
class Progress:
    """Node to coordinator, now and then: the round that it has reached.

    With a large model also how far it is `within` the next: a stage of STAGES and per cent of it.
    `example` is the size of the largest example that its gradients told of, if they tell of any.
    """

    round: int
    within: tuple[int, ...] = ()
    example: tuple[float, ...] = ()


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
    epoch: int = 0


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
    Hello | Waiting | Who | Plan | Halt | Halted | NextView | Entered | Late | Pulse | Refuse | Stop
    | Greet | Welcome
    | Noise | Seed | State | Ask | Taken | Progress | Metrics | Done | Failed
)  # fmt: skip
