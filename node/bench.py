"""Measures a round against the same work without communication.

Part of `lppa bench`. Every client is a process of its own in both cases; they take turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lppa.models.flat import FlatModel
from lppa.models.networks import build
from lppa.node.algorithm import aggregate
from lppa.node.datasets import Samples
from lppa.node.learner import DataLearner
from lppa.node.neighbours import Neighbours
from lppa.node.noise import Injection, NoiseSource, lppa
from lppa.node.stopwatch import Stopwatch
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.links import Neighbourhood
from lppa.protocol.mailbox import Mailbox
from lppa.protocol.network import NetworkLinks
from lppa.protocol.sockets import Wire

SHAPE, CLASSES, ROWS, BATCH = (1, 28, 28), 10, 2048, 256
TIMEOUT = 120.0


class Alone(Neighbours):
    """Neighbours that are not there: their vectors are the client's own, and nothing is sent."""

    def exchange(self, t: int, *vectors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        for _ in self.inputs:
            yield vectors

    def exchange_noise(self, t: int, sent: dict[int, Tensor]) -> list[Tensor]:
        return list(sent.values())


def round_partner(
    book: AddressBook, me: int, secret: str, barrier: Any, rounds: int, repeats: int
) -> list[dict[str, tuple[float, float]]]:
    """One client: when each turn began and ended, with and without communication."""
    torch.set_num_threads(1)
    nodes = len(book.nodes)
    others = tuple(i for i in range(nodes) if i != me)
    learner = synthetic_learner(me)
    wire = Wire(book, me, secret)
    try:
        around = Neighbourhood(me, nodes, others, others, "float32", learner.size, TIMEOUT)
        links = NetworkLinks(around, wire, wire.inbox(), wire.outbox(COORDINATOR, TIMEOUT))
        links.handshake("bench")
        turns = []
        for _ in range(repeats + 1):
            turn = {}
            for name, kind in (("alone", Alone), ("ours", Neighbours)):
                neighbours = kind(links, tuple(range(nodes)), torch.device("cpu"), Stopwatch())
                loop = round_loop(neighbours, learner, links, rounds)
                barrier.wait()
                began = time.perf_counter()
                for _ in loop:
                    pass
                turn[name] = (began, time.perf_counter())
            turns.append(turn)
        barrier.wait()
        return turns[1:]
    finally:
        wire.close(1.0)


def round_loop(
    neighbours: Neighbours, learner: DataLearner, links: NetworkLinks, rounds: int
) -> Iterator[Any]:
    """Algorithm 1 with uniform weights; nothing is computed before it is asked for."""
    source = NoiseSource(
        "laplace", 0.025, learner.size, torch.float32, torch.device("cpu"), neighbours.me
    )
    inject = Injection(lppa, source, neighbours, every=0)
    row = (1.0 / len(neighbours.inputs),) * len(neighbours.inputs)
    links.round, links.mailbox = 0, Mailbox()  # the rounds begin again
    return aggregate(neighbours, learner, inject, row, lambda t: 0.01, rounds, adapt_first=True)


def synthetic_learner(me: int) -> DataLearner:
    """A two-layer CNN on random images of MNIST's shape: the values do not matter here."""
    random = np.random.default_rng(me)
    images = random.random((ROWS, *SHAPE), dtype=np.float32)
    samples = Samples(images, random.integers(0, CLASSES, ROWS))
    module = build("cnn", SHAPE, CLASSES, torch.Generator().manual_seed(0))
    device = torch.device("cpu")
    return DataLearner(
        FlatModel(module, torch.float32, device),
        samples,
        np.arange(ROWS),
        samples,
        np.arange(ROWS),
        BATCH,
        random,
        torch.float32,
        device,
    )
