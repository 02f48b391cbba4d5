"""The coordinator finds out who failed and where, and no report can stop it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from watched import NODES, RUN, TOTALS, VALUES

from lppa.coordinator.bootstrap import Start, bootstrap
from lppa.coordinator.views import first_view
from lppa.protocol.codec import decode, encode
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import (
    Ask,
    Done,
    Failed,
    Hello,
    Metrics,
    Plan,
    Progress,
    Refuse,
    State,
    Taken,
    Who,
)
from lppa.protocol.settings import NOISE_EXCHANGES
from lppa.running.listener import Listeners
from lppa.running.rundir import RunDirectory


def test_a_run_is_over_when_all_are_done_and_its_rows_are_there(world_of):
    world = world_of()
    world.report(5)
    world.report(10)
    world.finish()
    world.follow()
    assert [row["round"] for row in world.rows] == [5, 10]
    assert sorted(world.reports) == [(node, round) for node in range(NODES) for round in (5, 10)]


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
