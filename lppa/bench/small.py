"""Measures a round of small models against a bare loop over raw frames with the same gradients.

Part of `lppa bench`. Every client is a process of its own and does both in turns: the training that
a node does, with all that goes beside it, and the least that moves the same vectors over sockets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lppa.bench.learner import random_learner
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.views import first_view
from lppa.node.client import around
from lppa.node.learner import DataLearner
from lppa.node.memory import keep_for_later
from lppa.node.rules import find_rule
from lppa.node.training import Task, Training
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.lock import FolderLock
from lppa.protocol.mailbox import Mailbox
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import Reports
from lppa.protocol.settings import Settings
from lppa.protocol.sockets import Wire
from lppa.protocol.view import Place
from lppa.protocol.zeromq import zmq

ROWS = 256  # images of a client: enough for full batches
WARM = 2  # rounds before the clock is read
Turn = dict[str, tuple[float, float, float]]
"""By what was done: when it began, when it ended, and seconds of the processor in between."""


class Clock:
    """Reads both clocks at the end of round WARM and of the last one."""

    def __init__(self, rounds: int) -> None:
        self.last = rounds
        self.read: list[tuple[float, float]] = []

    def __call__(self, t: int) -> None:
        if t in (WARM, self.last):
            self.read.append((time.perf_counter(), time.process_time()))

    def turn(self) -> tuple[float, float, float]:
        (began, used), (ended, used_then) = self.read
        return began, ended, used_then - used


def small_partner(
    book: AddressBook,
    me: int,
    secret: str | None,
    barrier: Any,
    blueprint: Blueprint,
    folder: Path,
    repeats: int,
) -> list[Turn]:
    """One client: how long each turn of each way took; the first warms up."""
    torch.set_num_threads(1)
    keep_for_later()
    settings, view = blueprint.settings, first_view(blueprint)
    learner = random_learner(me, settings.model, settings.batch, settings.dataset, ROWS)
    wire, bare = Wire(book, me, secret), Bare(folder, me, view.places[me])
    try:
        near = around(view, me, settings, find_rule(settings.rule), learner.size)
        reports = Reports(wire.outbox(COORDINATOR, settings.timeout), book.run, me)
        links = NetworkLinks(near, wire, wire.inbox(), reports)
        links.handshake("bench")
        turns = []
        for number in range(repeats + 1):
            turn: Turn = {}
            own = folder / f"{me}-{number}"
            ways: dict[str, Callable[[Clock], None]] = {
                "ours": partial(train, blueprint, learner, links, own),
                "bare": partial(bare.train, settings, learner),
            }
            for name, way in ways.items():
                clock = Clock(settings.rounds)
                barrier.wait()
                way(clock)
                turn[name] = clock.turn()
            turns.append(turn)
        barrier.wait()
        return turns[1:]
    finally:
        bare.close()
        wire.close(1.0)


def train(
    blueprint: Blueprint, learner: DataLearner, links: NetworkLinks, folder: Path, clock: Clock
) -> None:
    """What a node does from its first round to its last."""
    settings = blueprint.settings
    task = Task(
        settings,
        find_rule(settings.rule),
        learner,
        torch.device("cpu"),
        blueprint.run_seed,
        blueprint.nodes,
        "bench",
        folder,
        links.reports,
        FolderLock(folder),
        at_round=clock,
    )
    links.round, links.mailbox = 0, Mailbox()  # the rounds begin again
    training = Training(task)
    try:
        training.run(links, first_view(blueprint))
        links.settle()
    finally:
        training.close()
        task.lock.free()


class Bare:
    """Frames from process to process with nothing around them: no checks, no numbers, no end."""

    def __init__(self, folder: Path, me: int, place: Place) -> None:
        self.me = me
        self.place = place
        self.context = zmq.Context()
        self.inbox = self.context.socket(zmq.PULL)
        self.inbox.bind(f"ipc://{folder}/raw-{me}")
        self.outboxes = [self.context.socket(zmq.PUSH) for _ in place.outputs]
        for socket, to in zip(self.outboxes, place.outputs, strict=True):
            socket.connect(f"ipc://{folder}/raw-{to}")

    def train(self, settings: Settings, learner: DataLearner, clock: Clock) -> None:
        """Gradient tracking, adapt-then-combine, from the learner's start."""
        lam, row = settings.lr, self.place.row(self.me)
        theta = learner.start()
        g = gamma = learner.gradient(theta, 0)
        arrived: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        for t in range(settings.rounds):
            header = t.to_bytes(4, "little") + self.me.to_bytes(4, "little")
            frames: list[Any] = [header, theta.numpy(), gamma.numpy()]
            for socket in self.outboxes:
                socket.send_multipart(frames, copy=False)
            mixed_theta, mixed_gamma = row[self.me] * theta, row[self.me] * gamma
            for sender in self.place.inputs:
                while (t, sender) not in arrived:
                    self._receive(arrived)
                its_theta, its_gamma = arrived.pop((t, sender))
                mixed_theta.add_(its_theta, alpha=row[sender])
                mixed_gamma.add_(its_gamma, alpha=row[sender])
            theta = mixed_theta - lam * mixed_gamma
            new = learner.gradient(theta, t + 1)
            gamma = mixed_gamma + new - g
            g = new
            clock(t + 1)

    def _receive(self, arrived: dict[tuple[int, int], tuple[Tensor, Tensor]]) -> None:
        header, *frames = self.inbox.recv_multipart(copy=False)
        word = header.bytes
        its_theta, its_gamma = (np.frombuffer(frame.buffer, np.float32) for frame in frames)
        key = int.from_bytes(word[:4], "little"), int.from_bytes(word[4:], "little")
        arrived[key] = torch.from_numpy(its_theta), torch.from_numpy(its_gamma)

    def close(self) -> None:
        self.context.destroy(linger=0)
