"""Measures a round against the same work without communication or noise, and the noise itself.

Part of `lppa bench`. Every client is a process of its own in both cases; they take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from lppa.bench.learner import random_learner
from lppa.node import expansion, pairs
from lppa.node.algorithm import LocalSteps, aggregate
from lppa.node.expansion import Expander
from lppa.node.learner import DataLearner
from lppa.node.memory import keep_for_later
from lppa.node.neighbours import Neighbours
from lppa.node.noise import Injection, NoiseSource, make_noise
from lppa.node.pairs import PairExpander
from lppa.node.rules import RULES
from lppa.node.stopwatch import Stopwatch
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.links import Neighbourhood
from lppa.protocol.mailbox import Mailbox
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import Reports
from lppa.protocol.settings import noise_due
from lppa.protocol.sockets import Wire

BETA = 0.025
DRAWS, WORDS = 4_000_000, 1 << 16
TIMEOUT = 120.0


class Alone(Neighbours):
    """Neighbours that are not there: their vectors are the client's own, and nothing is sent."""

    def exchange(
        self,
        t: int,
        vectors: Mapping[str, Tensor],
        meanwhile: Callable[[], None] | None = None,
        part: int = 0,
        send: bool = True,
    ) -> Iterator[tuple[float, Mapping[str, Tensor]]]:
        for weight in self.row.values():
            yield weight, vectors

    def _are_small(self, vectors: Mapping[str, Tensor]) -> bool:
        return False  # they travel nowhere

    def exchange_noise(
        self, t: int, sent: dict[int, Tensor], where: range | None = None
    ) -> list[Tensor]:
        return list(sent.values())


@dataclass(frozen=True)
class Variant:
    """A way to do a round: with whom, by which rule, how noise is exchanged and how often."""

    neighbours: type[Neighbours]
    rule: str = "lppa"
    exchange: str = "tensor"
    every: int = 0

    def noisy(self, t: int) -> bool:
        """Whether noise is due in round t."""
        return noise_due(self.every, t)


@dataclass(frozen=True)
class Scene:
    """What is trained, and on which graph: of all with all, or a ring."""

    model: str = "cnn"
    batch: int = 256
    ring: bool = False

    def around(self, me: int, nodes: int) -> tuple[int, ...]:
        """The neighbours of a node, in order."""
        others = ((me - 1) % nodes, (me + 1) % nodes) if self.ring else range(nodes)
        return tuple(sorted({i for i in others if i != me}))


VARIANTS = {
    "alone": Variant(Alone),
    "ours": Variant(Neighbours),
    "dsgt": Variant(Neighbours, "dsgt"),
    "seeded": Variant(Neighbours, "lppa", "seed", 1),
}


def round_partner(
    book: AddressBook,
    me: int,
    secret: str,
    barrier: Any,
    variants: tuple[str, ...],
    scene: Scene,
    rounds: int,
    repeats: int,
) -> list[dict[str, tuple[float, float, float]]]:
    """One client: when each turn of each variant began and ended, and its CPU time."""
    torch.set_num_threads(1)
    keep_for_later()
    nodes = len(book.nodes)
    others = scene.around(me, nodes)
    learner = random_learner(me, scene.model, scene.batch)
    wire = Wire(book, me, secret)
    try:
        sizes = {"theta": learner.size, "gamma": learner.size}
        around = Neighbourhood(
            me,
            nodes,
            others,
            others,
            "float32",
            learner.size,
            TIMEOUT,
            vectors=lambda t: sizes,
        )
        reports = Reports(wire.outbox(COORDINATOR, TIMEOUT), book.run, me)
        links = NetworkLinks(around, wire, wire.inbox(), reports)
        links.handshake("bench")
        turns = []
        for _ in range(repeats + 1):
            turn = {}
            for name in variants:
                loop = round_loop(VARIANTS[name], learner, links, rounds)
                barrier.wait()
                began, used = time.perf_counter(), time.process_time()
                for _ in loop:
                    pass
                turn[name] = (began, time.perf_counter(), time.process_time() - used)
            turns.append(turn)
        barrier.wait()
        return turns[1:]
    finally:
        wire.close(1.0)


def round_loop(
    variant: Variant, learner: DataLearner, links: NetworkLinks, rounds: int
) -> Iterator[Any]:
    """Algorithm 1 with uniform weights; nothing is computed before it is asked for."""
    device = torch.device("cpu")
    listened = sorted({links.around.me, *links.around.inputs})
    row = dict.fromkeys(listened, 1.0 / len(listened))
    neighbours = variant.neighbours(links, row, device, Stopwatch())
    expander = Expander("laplace", BETA, learner.size)
    source = NoiseSource(expander, torch.float32, device, neighbours.me)
    rule = RULES[variant.rule]
    draw = make_noise(rule.noise, variant.exchange, source, neighbours)
    links.round, links.mailbox = 0, Mailbox()  # the rounds begin again
    return aggregate(
        rule.update(),
        neighbours,
        learner,
        Injection(draw, variant.noisy),
        LocalSteps(1, lambda t: 0.01),
        rounds,
        adapt_first=True,
    )


def expansion_speed(repeats: int = 7) -> dict[str, float]:
    """Draws per second and core that keys are expanded to, beside the generator's own words.

    One draw stands for both directions of an edge. `…cpu…` is by CPU time, for a busy machine.
    """
    expander, key = PairExpander("laplace", BETA, DRAWS), bytes(32)
    work: dict[str, Callable[[int], object]] = {
        "draws": lambda t: expander.total([(1, key)], t),
        "raw": lambda t: _read_words(pairs.keystream(key, t, count=DRAWS)),
        "chacha20": lambda t: _read_words(expansion.keystream(key, t)),
    }
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    for t in range(repeats + 1):  # in turn, so that a busy machine slows all
        for name, do in work.items():
            began, used = time.perf_counter(), time.process_time()
            do(t)
            spent[name].append((time.perf_counter() - began, time.process_time() - used))
    wall, cpu = (
        {name: DRAWS / median(t[k] for t in times[1:]) / 1e6 for name, times in spent.items()}
        for k in (0, 1)
    )
    return {
        "ratio": wall["draws"] / wall["raw"],
        "cpu_ratio": cpu["draws"] / cpu["raw"],
        **{f"{name}_m_s": speed for name, speed in wall.items()},
        **{f"{name}_cpu_m_s": speed for name, speed in cpu.items()},
    }


def _read_words(stream: pairs.Stream) -> None:
    zeros = bytes(4 * WORDS)
    words = bytearray(len(zeros) + 63)
    for _ in range(0, DRAWS, WORDS):
        stream.update_into(zeros, words)
