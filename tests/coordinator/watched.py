"""A coordinator that follows a run, and its nodes' ways to it, for tests of both."""

from __future__ import annotations

import socket
import time
from dataclasses import replace

import numpy as np
from ports import Ports

from lppa.coordinator.bootstrap import KEPT, Roster, Start, bootstrap
from lppa.coordinator.membership import Membership
from lppa.coordinator.metrics import Collection
from lppa.coordinator.views import first_view, make_view
from lppa.coordinator.watch import Watch
from lppa.protocol.book import NO_KEY, AddressBook, Peer
from lppa.protocol.codec import COORDINATOR, decode, encode
from lppa.protocol.messages import (
    Done,
    Hello,
    Metrics,
    Plan,
    Pulse,
)
from lppa.protocol.settings import NOISE_EXCHANGES, make_settings
from lppa.protocol.sockets import Wire
from lppa.running.listener import Listener
from lppa.running.prepare import make_blueprint

NODES, RUN = 3, "run-1"
TOTALS = {"seconds": {"total": 1.0}, "bytes": {"noise": 1, "state": 2}}
VALUES = {
    "accuracy": 0.5,
    "loss": 1.0,
    "gamma_norm": 1.0,
    "gradient_norm": 1.0,
    "noise_to_gradient": 0.0,
    **TOTALS,
}


class Heard(Listener):
    def __init__(self, world):
        self.world = world

    def metrics(self, node, metrics):
        self.world.reports.append((node, metrics.round))

    def row(self, row):
        self.world.rows.append(row)

    def within(self, node, round, stage, percent):
        self.world.stages.append((node, round, stage, percent))

    def progress(self, rounds, alive):
        self.world.progress(rounds, alive)


class World:
    """A coordinator and its nodes' ways to it, all in one process."""

    def __init__(self, timeout=20.0, deaths=None, on_failure="stop"):
        self.ports = Ports()
        peers = [Peer(f"tcp://127.0.0.1:{port}", NO_KEY) for port in self.ports.choose(NODES + 1)]
        self.book = AddressBook(RUN, peers[-1], tuple(peers[:-1]))
        self.wires = [Wire(self.book, COORDINATOR, None)]
        settings = make_settings({"dataset": "quadratic", "seed": 1})
        self.blueprint = make_blueprint(settings, NODES, "run")
        self.roster = Roster(self.wires[0].inbox(), RUN, NODES)
        self.nodes = [self.node(i) for i in range(NODES)]
        self.numbers = dict.fromkeys(range(NODES), 0)
        for i, node in enumerate(self.nodes):
            node.send(encode(Hello(f"instance-{i}", "here", i, NOISE_EXCHANGES), RUN, i))
        try:
            self.view = first_view(self.blueprint)
            start = Start(self.view)
            nothing = lambda *about: None  # noqa: E731
            bootstrap(self.roster, self.blueprint, 20.0, lambda have: start, nothing, nothing)
        except BaseException:
            self.close()  # sockets that are left open hold up the end of the tests
            raise
        self.reports, self.rows, self.stages = [], [], []
        self.progress = nothing
        self.warned = []
        settings = replace(settings, timeout=timeout, on_failure=on_failure)
        make = lambda *about: make_view(self.blueprint, *about)  # noqa: E731
        self.watch = Watch(
            self.roster,
            Membership(self.view, make, "plan", timeout),
            Collection(NODES),
            settings,
            lambda node: self.blueprint.plan(node, self.view),
            deaths or (lambda: {}),
            Heard(self),
            self.warned.append,
        )

    def node(self, node):
        self.wires.append(Wire(self.book, node, None))
        return self.wires[-1].outbox(COORDINATOR, 20.0)

    def send(self, node, message):
        self.nodes[node].send(encode(message, RUN, node, self.numbers[node]))
        if isinstance(message, KEPT):
            self.numbers[node] += 1

    def report(self, round, skip=()):
        for node in set(range(NODES)) - set(skip):
            self.send(node, Metrics(round, VALUES, np.ones(256), np.zeros(256)))

    def finish(self):
        for node in range(NODES):
            self.send(node, Done(10, TOTALS))

    def follow(self, progress=lambda rounds, alive: None):
        self.progress = progress
        self.watch.follow()

    def all_are_here(self):
        """As if all nodes were on this machine, where a broken connection is the end of one."""
        for node, hello in self.roster.processes.items():
            self.roster.processes[node] = replace(hello, host=socket.gethostname())

    def leave(self, node):
        """Returns when a node has left, and the coordinator's socket knows it."""
        self.wires[1 + node].close(0)
        # Of the processor: while the whole machine is held up, nothing can arrive.
        deadline = time.process_time() + 60
        while self.roster.send(node, Pulse(0)):
            assert time.process_time() < deadline

    def close(self):
        for wire in self.wires:
            wire.close(0)
        self.ports.close()

    def plan_for(self, node):
        while not isinstance(message := self.answer(node), Plan):
            pass
        return message

    def answer(self, node):
        while True:
            assert self.nodes[node].socket.poll(20_000)
            message = decode(self.nodes[node].receive(), RUN).message
            if not isinstance(message, Pulse):
                return message
