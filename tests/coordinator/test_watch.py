"""The coordinator finds out who failed and where, and no report can stop it."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace

import numpy as np
import pytest
from ports import Ports

from lppa.coordinator.bootstrap import KEPT, Roster, Start, bootstrap
from lppa.coordinator.membership import Membership
from lppa.coordinator.metrics import Collection
from lppa.coordinator.views import first_view, make_view
from lppa.coordinator.watch import Watch
from lppa.protocol.book import NO_KEY, AddressBook, Peer
from lppa.protocol.codec import COORDINATOR, decode, encode
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import (
    Ask,
    Done,
    Failed,
    Hello,
    Metrics,
    Plan,
    Progress,
    Pulse,
    Refuse,
    State,
    Taken,
    Who,
)
from lppa.protocol.patience import OwnTime
from lppa.protocol.settings import NOISE_EXCHANGES, make_settings
from lppa.protocol.sockets import Wire
from lppa.protocol.wire import Arrival
from lppa.running.listener import Listener, Listeners
from lppa.running.prepare import make_blueprint
from lppa.running.rundir import RunDirectory

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
        deadline = time.monotonic() + 60
        while self.roster.send(node, Pulse(0)):
            assert time.monotonic() < deadline

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


@pytest.fixture
def world_of():
    worlds = []

    def make(**options):
        worlds.append(World(**options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def test_a_run_is_over_when_all_are_done_and_its_rows_are_there(world_of):
    world = world_of()
    world.report(5)
    world.report(10)
    world.finish()
    world.follow()
    assert [row["round"] for row in world.rows] == [5, 10]
    assert sorted(world.reports) == [(node, round) for node in range(NODES) for round in (5, 10)]


class Jumping:
    """A clock that jumps ahead when it is told to."""

    def __init__(self):
        self.ahead = 0.0

    def __call__(self):
        return time.monotonic() + self.ahead


def test_a_coordinator_that_was_away_reads_what_came_before_it_judges(world_of):
    world = world_of(timeout=2.0)
    clock = Jumping()
    world.watch.clock = OwnTime(1.0, clock)
    world.report(5)
    turns = []

    def progress(rounds, alive):
        turns.append(rounds)
        if len(turns) == 5:
            # Away for an hour; what the nodes said meanwhile comes a moment later.
            clock.ahead = 3600.0
        elif len(turns) == 10:
            world.finish()

    world.follow(progress)
    assert [row["round"] for row in world.rows] == [5]
    assert world.watch.clock.held_up > 3600.0


def test_a_coordinator_that_was_away_for_too_long_says_so_of_nodes_that_left_meanwhile(world_of):
    world = world_of(timeout=20.0)
    clock = Jumping()
    world.watch.clock = OwnTime(1.0, clock)
    world.all_are_here()
    turns = []

    def progress(rounds, alive):
        turns.append(rounds)
        if len(turns) == 5:
            assert set(world.watch.reached) == set(range(NODES))
            clock.ahead = 3600.0
            world.wires[1].close(0)

    with pytest.raises(RunFailed, match=r"node 0 is gone.*itself was stopped for 3600 s") as failed:
        world.follow(progress)
    assert failed.value.node == 0


def test_a_node_that_leaves_before_anything_was_sent_to_it_is_named(world_of):
    world = world_of()
    world.all_are_here()
    world.leave(0)
    world.watch.begin(0)
    with pytest.raises(RunFailed, match="node 0 is gone: its connection has ended") as failed:
        world.follow()
    assert failed.value.node == 0


def test_a_node_that_comes_back_and_leaves_before_it_is_answered_is_given_up_again(world_of):
    world = world_of(on_failure="continue")
    world.roster.may_return = True
    world.all_are_here()
    world.watch.begin(0)
    world.leave(0)
    turns = []

    def progress(rounds, alive):
        if len(turns) < len(world.warned):
            turns.append(alive)
            if len(turns) == 1:
                # It is gone again when its greeting is read.
                again = Hello("again", socket.gethostname(), 0, NOISE_EXCHANGES)
                world.roster.open(Arrival(b"nobody", encode(again, RUN, 0), None, -1))
                world.watch._take(0, again)
            else:
                for node in (1, 2):
                    world.send(node, Done(10, TOTALS))

    world.follow(progress)
    assert [text.split(" (")[0] for text in world.warned] == [
        "node 0 is gone: its connection has ended"
    ] * 2
    assert world.watch.membership.members == {1, 2}


BROKEN = {
    "no figures": Metrics(5, {}, np.ones(256), np.zeros(256)),
    "a figure that is text": Metrics(5, {**VALUES, "loss": "low"}, np.ones(256), np.zeros(256)),
    "a figure that is missing": Metrics(
        5, {k: v for k, v in VALUES.items() if k != "accuracy"}, np.ones(256), np.zeros(256)
    ),
    "a figure that is not finite": Metrics(
        5, {**VALUES, "gamma_norm": float("nan")}, np.ones(256), np.zeros(256)
    ),
    "a figure that JSON cannot hold": Metrics(
        5, {**VALUES, "x": b"x"}, np.ones(256), np.zeros(256)
    ),
    "a further figure that is not finite": Metrics(
        5, {**VALUES, "x": {"y": float("inf")}}, np.ones(256), np.zeros(256)
    ),
    "a sketch of another length": Metrics(5, VALUES, np.ones(255), np.zeros(255)),
    "two sketches of two lengths": Metrics(5, VALUES, np.ones(256), np.zeros(255)),
    "a sketch that is a matrix": Metrics(5, VALUES, np.ones((2, 128)), np.zeros((2, 128))),
    "a sketch that is not finite": Metrics(5, VALUES, np.full(256, np.inf), np.zeros(256)),
    "totals that are none": Metrics(5, {**VALUES, "bytes": [1]}, np.ones(256), np.zeros(256)),
    "an end without totals": Done(5, {}),
    "a message for somebody else": State(0, 5, {"theta": np.ones(256)}),
}


@pytest.mark.parametrize("what", BROKEN)
def test_no_report_can_stop_the_coordinator(world_of, tmp_path, what):
    world = world_of()
    directory = RunDirectory(tmp_path / "run", world.blueprint)
    world.report(5, skip=[1])
    world.send(1, BROKEN[what])
    world.report(10)
    world.finish()
    world.watch.listener = Listeners(directory, world.watch.listener)
    world.follow()
    directory.metrics_file.close()
    assert world.rows[-1]["round"] == 10
    for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_reports_that_nobody_asked_for_are_neither_kept_nor_written(world_of, tmp_path):
    world = world_of()
    world.watch.evaluated = world.blueprint.settings.evaluated
    directory = RunDirectory(tmp_path / "run", world.blueprint)
    # Some that would be evaluated if the run were longer.
    for round in (3, 4, 10**6, world.blueprint.settings.rounds + 5):
        world.report(round)
    world.report(5)
    world.report(5)
    world.send(1, Metrics(10, {**VALUES, "more": "x" * 40_000}, np.ones(256), np.zeros(256)))
    world.report(10)
    world.finish()
    world.watch.listener = Listeners(directory, world.watch.listener)
    world.follow()
    directory.metrics_file.close()
    assert [row["round"] for row in world.rows] == [5, 10]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    told = sorted((line["round"], line["node"]) for line in map(json.loads, lines))
    assert told == [(round, node) for round in (5, 10) for node in range(NODES)]


def test_an_end_that_is_told_again_and_again_is_written_down_once(world_of, tmp_path):
    world = world_of()
    directory = RunDirectory(tmp_path / "run", world.blueprint)
    for _ in range(20):
        world.send(1, Done(10, TOTALS))
    world.finish()
    world.watch.listener = Listeners(directory, world.watch.listener)
    world.follow()
    lines = (tmp_path / "run" / "done.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["node"] for line in lines) == [0, 1, 2]


def test_a_node_that_sends_nothing_but_nonsense_does_not_fill_the_log(world_of, caplog):
    world = world_of()
    for _ in range(100):
        world.send(1, BROKEN["no figures"])
    world.finish()
    world.follow()
    dropped = [line for line in caplog.messages if line.startswith("dropped a message from node 1")]
    assert len(dropped) == 10


def test_processes_that_knock_with_one_id_are_remembered_one_at_a_time(world_of):
    world = world_of()
    world.roster.may_return = True
    for number in range(100):
        name = f"{number}" * 1000
        world.nodes[1].send(encode(Hello(name, "here", 1, NOISE_EXCHANGES), RUN, 1))
    world.finish()
    world.follow()
    assert list(world.roster.knocked) == [1]


def test_in_clear_text_a_stranger_is_told_nothing(world_of):
    world = world_of()
    stranger = world.node(0)
    for frames in ([b"nonsense"], encode(Hello("i", "h", 1), "another run", 0)):
        stranger.send(frames)
    stranger.send(encode(Progress(1), RUN, 0))  # knows the run, and is asked who it is
    roster = world.watch.roster
    for _ in range(2000):
        for arrival in roster.inbox.arrivals():
            roster.open(arrival)
        if stranger.socket.poll(10):
            break
    assert decode(stranger.receive(), RUN).message == Who()
    assert stranger.receive() is None


def test_a_report_that_came_twice_counts_once_and_its_node_is_told(world_of):
    world = world_of()
    world.report(5)
    again = encode(Metrics(5, VALUES, np.ones(256), np.zeros(256)), RUN, 1, 0)
    world.nodes[1].send(again)
    world.nodes[1].send(encode(Ask(0, 7, 0), RUN, 1))
    world.finish()
    world.follow()
    assert sorted(world.reports) == [(0, 5), (1, 5), (2, 5)]
    while not isinstance(world.answer(1), Plan):
        pass
    answers = [world.answer(1) for _ in range(3)]
    assert answers == [Taken(0, 1), Taken(0, 1, 7), Taken(0, 2)]


def test_a_report_cannot_claim_to_be_another_nodes(world_of, tmp_path):
    directory = RunDirectory(tmp_path / "run", world_of().blueprint)
    directory.metrics(
        1, Metrics(5, {**VALUES, "node": 0, "round": 99}, np.ones(256), np.zeros(256))
    )
    directory.metrics_file.close()
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text())
    assert (line["node"], line["round"]) == (1, 5)


def test_a_coordinator_that_comes_back_does_not_wait_for_who_is_done_and_has_left(
    world_of,
):
    world = world_of()
    roster = replace(world.roster, expected={1}, routes={1: world.roster.routes[1]})
    view = first_view(world.blueprint)
    members = frozenset(view.members)
    start = Start(view, running=members, done=members - {1})

    def waits(*missing):
        pytest.fail(f"waits for {missing}")

    found = bootstrap(roster, world.blueprint, 20.0, lambda have: start, waits, waits)
    assert found.view.members == view.members


def test_another_connection_cannot_speak_for_a_node(world_of):
    world = world_of()
    forger = world.node(1)
    forger.send(encode(Failed(3, "I give up", -1), RUN, 1))
    forger.send(encode(Done(3, TOTALS), RUN, 1))
    world.report(10)
    world.finish()
    world.follow()
    assert world.rows[-1]["round"] == 10
    assert world.watch.collection.done[1].round == 10


def test_a_second_process_with_one_id_is_refused_and_the_first_keeps_its_place(world_of):
    world = world_of()
    second = world.node(1)
    second.send(encode(Hello("another", "elsewhere", 99), RUN, 1))
    roster = world.watch.roster
    for _ in range(2000):
        # Its connection is new: what the others say may well come first.
        if (arrival := roster.inbox.receive()) is not None:
            roster.open(arrival)
        if second.socket.poll(10):
            break
    refusal = decode(second.receive(), RUN).message
    assert refusal == Refuse("node 1 is here already, as process 1 on here")
    world.report(10)
    world.finish()
    world.follow()
    assert world.watch.collection.done[1].round == 10


def test_a_node_whose_plan_was_lost_gets_it_again(world_of):
    world = world_of()
    first = world.plan_for(2)
    world.send(2, Hello("instance-2", "here", 2))
    world.finish()
    world.follow()
    assert world.plan_for(2) == first == world.blueprint.plan(2, world.view)


def test_a_node_that_says_that_it_failed_ends_the_run_with_its_reason(world_of):
    world = world_of()
    world.send(1, Progress(4))
    world.send(2, Failed(4, "training diverged", -1))
    with pytest.raises(RunFailed, match="node 2 failed in round 4: training diverged") as failure:
        world.follow()
    assert (failure.value.node, failure.value.round) == (2, 4)


def test_a_process_that_dies_is_named_with_the_round_that_it_had_reached(world_of):
    world = world_of()
    world.send(1, Progress(6))
    witnesses = {0, 2}

    def deaths():
        if not world.watch.rounds[1]:
            return {}
        # Three connections, in no order: the others speak only after the node's own last word.
        while witnesses:
            node = witnesses.pop()
            world.send(node, Failed(7, f"node {node} waited 20 s for node 1", 1))
        return {1: "was killed by SIGKILL"}

    world.watch.deaths = deaths
    with pytest.raises(RunFailed, match="node 1 was killed by SIGKILL in round 6"):
        world.follow()


def test_a_process_that_dies_after_it_was_done_harms_nobody(world_of):
    world = world_of()
    world.watch.deaths = lambda: (
        {1: "ended with exit code 1"} if 1 in world.watch.collection.done else {}
    )
    world.finish()
    world.follow()
    assert set(world.watch.collection.done) == set(range(NODES))


def test_how_far_a_node_is_within_a_round_is_handed_on_and_nonsense_is_not(world_of):
    world = world_of()
    for within in ((0, 0), (1, 40), (2, 400), (3, 5), (-1, 5), (1,), (1, 2, 3)):
        world.send(1, Progress(4, within))
    world.finish()
    world.follow()
    assert world.stages == [
        (1, 4, "noise", 0),
        (1, 4, "mixing", 40),
        (1, 4, "gradient", 100),
    ]


def test_silence_ends_the_run_and_names_those_who_were_not_done(world_of):
    world = world_of()
    world.send(0, Done(10, TOTALS))
    world.send(2, Progress(3))

    def progress(rounds, alive):
        # The two may take their time; from then on nobody says anything.
        if 0 in world.watch.collection.done and rounds[2]:
            world.watch.timeout = 0.2

    with pytest.raises(RunFailed) as failure:
        world.follow(progress)
    assert str(failure.value) == "nodes 1, 2 said nothing for 0.2 s"
    assert failure.value.node == 1
