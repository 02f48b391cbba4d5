"""What happens when somebody dies, hangs or gives up in the middle of a run."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from processes import (
    PATIENCE,
    eventually,
    heeding_ctrl_c,
    ignores,
    is_asleep,
    marked,
    node_pids,
    read_lines,
    read_summary,
    run_talkative_node,
)

from lppa.protocol.settings import make_settings
from lppa.running.display import Silent
from lppa.running.launch import Given, LocalNodes, fork_context
from lppa.running.prepare import make_blueprint
from lppa.running.run import local_book, run_local

EVERY = 10
# With some latency: without it, a report that is late by a moment is late by many rounds.
SLOWLY = ("--eval-every", EVERY, "--latency", 50, "--timeout", PATIENCE)
ENDLESS = ("--dataset", "quadratic", "--rounds", 1_000_000, *SLOWLY)


def reporters(out):
    """The nodes that the coordinator has heard from."""
    return {line["node"] for line in read_lines(out / "metrics.jsonl")}


def start_endless(started, out, *options):
    """`lppa run` of three, in the middle of its work."""
    command = started.command("lppa", "run", "-n", 3, "--out", out, *ENDLESS, *options)

    def working():
        assert command.poll() is None, command.err
        return len(node_pids(out)) == 3 and reporters(out) == {0, 1, 2}

    eventually(working, what="three nodes have reported")
    return command


def assert_nothing_left(started, out, killed=None):
    """No process, no socket folder, no half-written file but what a killed node was writing."""
    started.all_end()
    assert node_pids(out) == {}
    assert list(started.temporary.iterdir()) == []
    assert [file for file in out.rglob(".*") if f"/nodes/{killed}/" not in str(file)] == []
    for file in out.rglob("*.json"):
        json.loads(file.read_text())
    for file in out.rglob("*.jsonl"):
        assert len(read_lines(file)) == len(file.read_text().splitlines())


def last_round(out, node):
    return read_lines(out / "nodes" / str(node) / "metrics.jsonl")[-1]["round"]


# --- `lppa run` ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_node_that_is_killed_ends_the_run_and_is_named_with_its_round(started, tmp_path):
    out = tmp_path / "run"
    command = start_endless(started, out, "--json")
    os.kill(node_pids(out)[1], signal.SIGKILL)
    ended = command.end()
    assert ended.code == 1
    assert "Traceback" not in ended.err
    summary = read_summary(out)
    assert (summary["status"], summary["node"]) == ("failed", 1)
    assert summary["round"] > 0
    assert abs(summary["round"] - last_round(out, 1)) <= 2 * EVERY
    assert 0 < summary["rounds_done"] <= summary["round"] < summary["rounds"]
    assert summary["error"] == f"node 1 was killed by SIGKILL in round {summary['round']}"
    assert ended.errors == [f"error: the run failed: {summary['error']}"]
    assert json.loads(ended.out) == {**summary, "directory": str(out)}
    assert_nothing_left(started, out)


def assert_interrupted(started, command, out):
    ended = command.end()
    assert ended.code == 130
    assert "Traceback" not in ended.err
    summary = read_summary(out)
    assert (summary["status"], summary["error"]) == ("interrupted", None)
    assert 0 < summary["round"] == summary["rounds_done"] < summary["rounds"]
    assert f"{summary['rounds_done']} of 1000000" in ended.out
    assert ended.errors == [f"error: the run was interrupted in round {summary['round']}"]
    assert_nothing_left(started, out)


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_ends_a_run_as_interrupted(started, tmp_path):
    command = start_endless(started, tmp_path / "run")
    command.signal_group(signal.SIGINT)
    assert_interrupted(started, command, tmp_path / "run")


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_a_run_as_interrupted(started, tmp_path):
    command = start_endless(started, tmp_path / "run")
    command.signal(signal.SIGHUP)
    assert_interrupted(started, command, tmp_path / "run")


@pytest.mark.slow
def test_a_polite_kill_and_ctrl_c_after_it_leave_nobody_behind_not_even_a_node_that_hangs(
    started, tmp_path
):
    out = tmp_path / "run"
    command = start_endless(started, out)
    os.kill(node_pids(out)[1], signal.SIGSTOP)
    command.signal(signal.SIGTERM)
    eventually(lambda: ignores(command.pid, signal.SIGINT), what="the run is being ended")
    command.signal_group(signal.SIGINT)
    assert_interrupted(started, command, out)


def test_ctrl_c_while_pytorch_is_still_being_imported_shows_no_traceback(started, tmp_path):
    command = started.command("lppa", "run", "-n", 2, "--out", tmp_path / "run", *ENDLESS)
    eventually(lambda: len(marked(started.mark)) >= 3, what="the fork server has been started")
    eventually(lambda: (tmp_path / "run" / "audit.json").exists())
    eventually(lambda: is_asleep(command.pid), what="it waits for the fork server")
    command.signal_group(signal.SIGINT)
    ended = command.end()
    assert ended.code == 130
    assert "Traceback" not in ended.err, ended.err
    assert len(ended.errors) == 1
    assert read_summary(tmp_path / "run")["status"] == "interrupted"
    assert_nothing_left(started, tmp_path / "run")


# --- nodes and coordinator by hand --------------------------------------------------------------


def start_by_hand(started, peers, out, *options, nodes=3, **life_of_last):
    """A coordinator and nodes over tcp, in the middle of their work."""
    common = ("--out", out, "--timeout", PATIENCE)
    # Before the coordinator, whose --timeout may be too short for them to start in.
    members = [started.node(i, peers, *common) for i in range(nodes - 1)]
    members.append(started.node(nodes - 1, peers, *common, **life_of_last))
    coordinator = started.coordinator(peers, out, *options)

    def working():
        for process in (coordinator, *members):
            assert process.poll() is None, process.err
        return reporters(out) == set(range(nodes))

    eventually(working, what="all nodes have reported")
    return coordinator, members


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_node_that_is_lost_by_hand_is_named_by_all_within_the_timeout(started, tmp_path, how):
    out, timeout = tmp_path / "run", 8
    peers = started.peers(3)
    options = (*ENDLESS, "--timeout", timeout)
    coordinator, nodes = start_by_hand(started, peers, out, *options, life=run_talkative_node)
    lost = nodes[1]
    lost.signal(signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
    ended = coordinator.end()
    summary = read_summary(out)
    assert ended.code == 1
    assert (summary["status"], summary["node"]) == ("failed", 1)
    # One round is what the lost node may still have sent, or not have sent any more.
    assert -1 <= summary["round"] - last_round(out, 1) <= EVERY + 1
    assert f"round {summary['round']}" in summary["error"]
    # That a process is gone its connection tells; that it stands still, patience alone.
    told = f"waited {timeout} s" if how == "stopped" else "its connection has ended"
    assert told in summary["error"]
    assert ended.errors == [f"error: the run failed: {summary['error']}"]
    for survivor in (nodes[0], nodes[2]):
        ended = survivor.end()
        assert ended.code == 1
        assert "Traceback" not in ended.err
        assert len(ended.errors) == 1
        assert "node 1" in ended.errors[0]
    if how == "stopped":
        lost.signal(signal.SIGKILL)
    lost.end()
    assert_nothing_left(started, out, killed=1)


def test_a_node_that_somebody_interrupts_says_so_and_the_others_stop(started, tmp_path):
    out = tmp_path / "run"
    # Held, so that it is not interrupted between two frames of a message.
    held = started.held(EVERY)
    coordinator, nodes = start_by_hand(started, started.peers(3), out, *ENDLESS, **held)
    nodes[2].signal(signal.SIGINT)
    ended = nodes[2].end()
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert coordinator.end().code == 1
    summary = read_summary(out)
    assert (summary["status"], summary["node"]) == ("failed", 2)
    assert "interrupted" in summary["error"]
    for survivor in nodes[:2]:
        ended = survivor.end()
        assert ended.code == 1
        assert ended.errors == [f"error: {summary['error']}"]
    assert_nothing_left(started, out)


def test_a_coordinator_that_is_interrupted_stops_its_nodes(started, tmp_path):
    out = tmp_path / "run"
    coordinator, nodes = start_by_hand(started, started.peers(2), out, *ENDLESS, nodes=2)
    coordinator.signal(signal.SIGTERM)
    assert coordinator.end().code == 130
    assert read_summary(out)["status"] == "interrupted"
    for node in nodes:
        ended = node.end()
        assert ended.code == 1
        assert ended.errors == ["error: the run was interrupted"]
    assert_nothing_left(started, out)


@pytest.mark.slow
def test_without_its_coordinator_every_node_finishes_with_the_same_bits(
    started, tmp_path, local_run
):
    # At their end nodes wait that long for a coordinator that might come back.
    settings = {"dataset": "quadratic", "rounds": 100, "seed": 3, "latency": 20, "timeout": 40}
    options = [text for key, value in settings.items() for text in (f"--{key}", value)]
    out = tmp_path / "by-hand"
    held = started.held(20)
    coordinator, nodes = start_by_hand(started, started.peers(3), out, *options, **held)
    coordinator.signal(signal.SIGKILL)
    assert coordinator.end().code == -signal.SIGKILL
    assert all(node.poll() is None for node in nodes), "the nodes are still at work"
    started.let_go_on()
    undisturbed = local_run(nodes=3, **settings)
    for i, node in enumerate(nodes):
        ended = node.end()
        assert ended.code == 0, ended
        assert ended.errors == []
        folder = out / "nodes" / str(i)
        assert last_round(out, i) == settings["rounds"]
        torch.load(folder / "model.pt", weights_only=True)
        state = torch.load(folder / "state.pt", weights_only=True)
        for name in ("theta", "gamma"):
            assert torch.equal(state[name], undisturbed.final(name)[i])
    assert not (out / "summary.json").exists()
    started.all_end()


def test_a_coordinator_that_was_stopped_until_all_were_done_still_hears_of_everything(
    started, tmp_path
):
    out, rounds = tmp_path / "run", 40
    options = ("--dataset", "quadratic", "--rounds", rounds, "--eval-every", EVERY)
    options = (*options, "--timeout", PATIENCE)
    coordinator, nodes = start_by_hand(started, started.peers(3), out, *options, **started.held(20))
    coordinator.signal(signal.SIGSTOP)
    started.let_go_on()
    for i in range(3):
        eventually((out / "nodes" / str(i) / "state.pt").exists, what=f"node {i} is through")
    assert all(node.poll() is None for node in nodes), "they wait until their end was heard of"
    coordinator.signal(signal.SIGCONT)
    assert [process.end().code for process in (coordinator, *nodes)] == [0, 0, 0, 0]
    assert read_summary(out)["status"] == "completed"
    told = Counter(line["round"] for line in read_lines(out / "metrics.jsonl"))
    assert set(told.values()) == {3}
    assert max(told) == rounds


# --- a coordinator that is stopped for longer than nodes wait for anybody ------------------------

SHORT = 8  # seconds


def stop_beyond_the_end(command, out):
    """Stops a coordinator until its nodes are through, and for longer than --timeout after that."""
    eventually(lambda: reporters(out) == {0, 1, 2}, what="three nodes have reported")
    command.signal(signal.SIGSTOP)
    for i in range(3):
        eventually((out / "nodes" / str(i) / "state.pt").exists, what=f"node {i} is through")
    through = time.monotonic()
    eventually(lambda: time.monotonic() > through + 2 * SHORT, what="nodes would have left")
    command.signal(signal.SIGCONT)


def assert_all_was_heard(out, rounds):
    summary = read_summary(out)
    assert (summary["status"], summary["error"]) == ("completed", None)
    told = Counter(line["round"] for line in read_lines(out / "metrics.jsonl"))
    assert set(told.values()) == {3}
    assert max(told) == rounds


@pytest.mark.slow
def test_a_local_run_that_was_stopped_beyond_the_timeout_of_nodes_that_were_done_is_completed(
    started, tmp_path
):
    out, rounds = tmp_path / "run", 60
    options = ("--dataset", "quadratic", "--rounds", rounds, "--eval-every", EVERY)
    options = (*options, "--latency", 100, "--timeout", SHORT)
    command = started.command("lppa", "run", "-n", 3, "--out", out, *options)
    stop_beyond_the_end(command, out)
    assert command.end().code == 0
    assert_all_was_heard(out, rounds)
    assert_nothing_left(started, out)


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [True, False])
def test_a_coordinator_that_was_stopped_beyond_the_timeout_of_nodes_that_were_done_hears_of_all(
    started, tmp_path, encrypted
):
    out, rounds = tmp_path / "run", 60
    insecure = () if encrypted else ("--insecure",)
    options = ("--dataset", "quadratic", "--rounds", rounds, "--eval-every", EVERY)
    options = (*options, "--latency", 100, "--timeout", SHORT, *insecure)
    peers = started.peers(3, *insecure)
    coordinator = started.coordinator(peers, out, *options)
    nodes = [started.node(i, peers, "--out", out, *insecure) for i in range(3)]
    stop_beyond_the_end(coordinator, out)
    assert [process.end().code for process in (coordinator, *nodes)] == [0, 0, 0, 0]
    assert_all_was_heard(out, rounds)


@pytest.mark.slow
def test_nodes_that_are_done_leave_a_stopped_coordinator_if_they_were_told_how_long_to_stay(
    started, tmp_path
):
    out, rounds = tmp_path / "run", 60
    options = ("--dataset", "quadratic", "--rounds", rounds, "--eval-every", EVERY)
    peers = started.peers(3)
    coordinator = started.coordinator(peers, out, *options, "--latency", 50)
    staying = ("--out", out, "--orphan-timeout", 3 * SHORT)
    nodes = [started.node(i, peers, *staying) for i in range(3)]
    late = rounds - EVERY
    eventually(lambda: any(line["round"] >= late for line in read_lines(out / "metrics.jsonl")))
    coordinator.signal(signal.SIGSTOP)
    for node in nodes:
        ended = node.end()
        assert ended.code == 0, ended
        assert "the coordinator did not say that it has heard of the end" in ended.err
    coordinator.signal(signal.SIGKILL)
    coordinator.end()


@pytest.mark.slow
def test_three_commands_started_from_scratch_make_an_encrypted_run(started, tmp_path):
    peers = started.peers(2)
    options = ("--dataset", "quadratic", "--rounds", 5, "--timeout", PATIENCE)
    coordinator = started.coordinator(peers, tmp_path / "run", *options)
    nodes = [started.command("lppa-node", "--id", i, "--peers", peers) for i in range(2)]
    for node in nodes:
        ended = node.end()
        assert (ended.code, ended.out) == (0, ""), ended
    assert coordinator.end().code == 0
    assert read_summary(tmp_path / "run")["status"] == "completed"
    for i in range(2):
        # On other machines there is no --out of the coordinator: the run's name is the folder's.
        assert last_round(started.here / "runs" / "run", i) == 5
    started.all_end()


def test_a_node_that_died_while_others_were_awaited_can_be_started_again(started, tmp_path):
    out, peers = tmp_path / "run", started.peers(2)
    options = ("--dataset", "quadratic", "--rounds", 3, "--timeout", PATIENCE)
    coordinator = started.coordinator(peers, out, *options)
    first = started.node(0, peers, "--out", out)
    coordinator.says("waiting for node 1")
    first.signal(signal.SIGKILL)
    first.end()
    again = []

    def is_in():
        if not again or again[-1].poll() is not None:
            # It may take a moment until the coordinator notices that the first is gone.
            again.append(started.node(0, peers, "--out", out))
        return "waiting for node 1" in again[-1].err

    eventually(is_in, what="node 0 has its place again")
    second = started.node(1, peers, "--out", out)
    assert [process.end().code for process in (again[-1], second, coordinator)] == [0, 0, 0]
    assert read_summary(out)["status"] == "completed"


def test_ctrl_c_while_a_node_is_being_started_leaves_none_behind(tmp_path, monkeypatch):
    """Just when its process exists and nobody has noted that."""
    kind = fork_context().Process
    honest, pids = kind.start, []

    def start(self):
        honest(self)
        pids.append(self.pid)
        if len(pids) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(kind, "start", start)
    settings = make_settings({"dataset": "quadratic", "timeout": PATIENCE})
    with heeding_ctrl_c():
        summary = run_local(make_blueprint(settings, 5, "run"), tmp_path / "run", Silent())
    assert summary["status"] == "interrupted"
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_local_node_that_fails_in_an_unforeseen_way_leaves_its_traceback(tmp_path):
    book, keys = local_book(2, tmp_path, secure=False)
    nodes = LocalNodes(book, keys[:-1], Given(tmp_path / "run", "no number"))
    try:
        nodes.start()
        deaths = eventually(lambda: len(nodes.deaths()) == 2 and nodes.deaths())
    finally:
        nodes.end(patience=0)
    for node, how in deaths.items():
        assert how.startswith("ended with exit code 1")
        assert "Error: " in how, "the last words say what it was"
        output = (tmp_path / "run" / "nodes" / str(node) / "output.log").read_text()
        assert "Traceback" in output


def test_a_node_outside_of_its_folder_fails_in_one_line_and_the_run_names_it(started, tmp_path):
    """A disk that takes nothing is found out by one node only."""
    out, peers = tmp_path / "run", started.peers(2)
    coordinator = started.coordinator(peers, out, "--dataset", "quadratic", "--rounds", 3)
    (tmp_path / "file").write_text("mine")
    bad = started.node(1, peers, "--out", tmp_path / "file")
    good = started.node(0, peers, "--out", out)
    ended = bad.end()
    assert ended.code in (1, 2)
    assert "Traceback" not in ended.err, ended.err
    assert len(ended.errors) == 1
    assert coordinator.end().code == 1
    assert good.end().code == 1
    summary = read_summary(out)
    assert (summary["status"], summary["node"], summary["round"]) == ("failed", 1, 0)
