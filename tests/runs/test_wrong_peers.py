"""Books, keys and peers that do not fit are told in one line, and nobody takes part."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess

import pytest
from processes import COMMANDS, PATIENCE, changed, eventually, read_summary, run_command
from refusals import assert_refused

from lppa.protocol.book import host_of, write_key
from lppa.protocol.network import NetworkLinks
from lppa.protocol.sockets import new_keys

TINY = ("--dataset", "quadratic", "--rounds", "3", "--timeout", str(PATIENCE))


# --- the address book ---------------------------------------------------------------------------


def double_id(content):
    content["nodes"][1]["id"] = 0


def broken_key(content):
    content["coordinator"]["public_key"] = " " * 40


@pytest.mark.parametrize("command", ["lppa-node --id 0", "lppa-coordinator"])
@pytest.mark.parametrize(
    ("spoil", "reason"), [(double_id, "node 0 is there twice"), (broken_key, "key")]
)
def test_a_book_that_is_wrong_is_refused_by_everybody(started, peers, command, spoil, reason):
    other = changed(peers, spoil)
    ended = started.quick(*command.split(), "--peers", other).end()
    assert_refused(started, ended, reason)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut off"),
        pytest.param("[]", id="a list"),
        pytest.param('{"run": 1}', id="no nodes"),
        pytest.param("[" * 100_000, id="too deep"),
        pytest.param("9" * 5000, id="too great a number"),
    ],
)
def test_a_book_that_is_malformed_is_refused(started, tmp_path, text):
    book = tmp_path / "peers.json"
    book.write_text(text)
    ended = started.quick("lppa-node", "--id", 0, "--peers", book).end()
    assert_refused(started, ended, "peers.json")


@pytest.mark.parametrize("node", [2, -1, 10**30])
def test_an_id_that_is_not_in_the_book_is_refused_before_pytorch_is_there(started, peers, node):
    ended = started.quick("lppa-node", "--id", node, "--peers", peers).end()
    assert_refused(started, ended, f"no node {node} in peers.json: it has 0 to 1")


# --- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "key"),
    [("lppa-node --id 1", "node-1.key"), ("lppa-coordinator", "coordinator.key")],
)
def test_without_its_key_file_nobody_falls_back_to_clear_text(started, peers, command, key):
    (peers.parent / "keys" / key).unlink()
    ended = started.quick(*command.split(), "--peers", peers).end()
    assert_refused(started, ended, rf"{key} cannot be read .*links are encrypted")


def test_the_key_of_another_node_is_refused(started, peers):
    ended = started.node(0, peers, "--key", peers.parent / "keys" / "node-1.key").end()
    assert_refused(started, ended, "not that of node 0 in peers.json")


def test_a_key_that_others_can_read_is_refused(started, peers):
    (peers.parent / "keys" / "node-1.key").chmod(0o640)
    ended = started.quick("lppa-node", "--id", 1, "--peers", peers).end()
    assert_refused(started, ended, "can be read by others")


def without_keys(content):
    for entry in (content["coordinator"], *content["nodes"]):
        del entry["public_key"]


@pytest.mark.parametrize("command", ["lppa-node --id 1", "lppa-coordinator"])
def test_tcp_without_keys_is_refused_even_on_this_machine_unless_asked_for(started, peers, command):
    other = changed(peers, without_keys)
    ended = started.quick(*command.split(), "--peers", other).end()
    assert_refused(started, ended, "no keys: .*--insecure, which means that .* can read")


def test_insecure_says_what_it_means_and_the_run_is_in_clear(started, tmp_path):
    peers, out = started.peers(2, "--insecure"), tmp_path / "run"
    assert not (peers.parent / "keys").exists()
    coordinator = started.coordinator(peers, out, *TINY, "--insecure")
    nodes = [started.node(i, peers, "--out", out, "--insecure") for i in range(2)]
    for ended in (process.end() for process in (coordinator, *nodes)):
        assert ended.code == 0, ended
        (said,) = [line for line in ended.err.splitlines() if "--insecure" in line]
        assert said.startswith("warning: --insecure: links are not encrypted: whoever reaches")


def stranger_of(peers):
    """Node 0 with a key of its own making, in a book that nobody else has."""
    keys = new_keys()
    write_key(peers.parent / "stranger.key", keys.secret)
    book = changed(peers, lambda content: content["nodes"][0].update(public_key=keys.public))
    return book, peers.parent / "stranger.key"


def test_a_key_that_the_coordinator_does_not_know_is_refused(started, peers, tmp_path):
    coordinator = started.coordinator(peers, tmp_path / "run", *TINY)
    book, key = stranger_of(peers)
    ended = started.node(0, book, "--key", key, "--timeout", PATIENCE).end()
    assert ended.code == 2, ended
    assert "do not accept each other's keys" in ended.errors[0]
    assert "Traceback" not in ended.err
    assert coordinator.poll() is None, "the coordinator still waits for the right one"


def test_a_book_with_another_key_of_the_coordinator_says_that_it_is_the_key(
    started, peers, tmp_path
):
    started.coordinator(peers, tmp_path / "run", *TINY)
    key = new_keys().public
    book = changed(peers, lambda content: content["coordinator"].update(public_key=key))
    # Nothing but patience tells that from a forwarder whose target is not there yet.
    ended = started.node(0, book, "--timeout", 3).end()
    assert ended.code == 1, ended
    assert "Traceback" not in ended.err
    assert "key" in ended.errors[0], ended


def run_node_slow_to_greet(gate, *given):
    """The life of `lppa-node` that greets nobody before a file is there; runs in the child."""
    honest = NetworkLinks.handshake

    def handshake(self, *given):
        eventually(gate.exists)
        honest(self, *given)

    NetworkLinks.handshake = handshake
    run_command(*given)


@pytest.mark.slow
def test_neighbours_with_different_keys_for_one_node_name_each_other(started, peers, tmp_path):
    """Node 1's book has another key for node 0 than the coordinator's and node 0's own."""
    out = tmp_path / "run"
    coordinator = started.coordinator(peers, out, *TINY)
    book, _ = stranger_of(peers)
    # Both find out; whoever does first ends the run for the other, and here that is node 0.
    slow = {"life": run_node_slow_to_greet, "given": (started.gate,)}
    second = started.node(1, book, "--out", out, **slow)
    first = started.node(0, peers, "--out", out).end()
    started.let_go_on()
    second, coordinator = second.end(), coordinator.end()
    assert (first.code, second.code, coordinator.code) == (1, 1, 1)
    assert "node 1 turned down the key of node 0" in first.err
    assert "Traceback" not in first.err + second.err + coordinator.err
    summary = read_summary(out)
    assert (summary["status"], summary["round"]) == ("failed", 0)
    assert "key" in summary["error"], summary


# --- who is there -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_coordinator_that_is_not_there_is_named_with_its_address(started, peers):
    where = json.loads(peers.read_text())["coordinator"]["endpoint"]
    ended = started.command("lppa-node", "--id", 0, "--peers", peers, "--timeout", 1).end()
    assert_refused(started, ended, f"no coordinator answered at {where} for 1 s", code=1)


@pytest.mark.parametrize("who", ["coordinator", "node 0"])
def test_a_port_in_use_is_named(started, peers, who, tmp_path):
    content = json.loads(peers.read_text())
    endpoint = (content["coordinator"] if who == "coordinator" else content["nodes"][0])["endpoint"]
    with socket.create_server((host_of(endpoint), int(endpoint.rpartition(":")[2]))):
        if who == "coordinator":
            ended = started.quick("lppa-coordinator", "--peers", peers, *TINY).end()
        else:
            ended = started.node(0, peers, "--timeout", 1).end()
    assert_refused(started, ended, f"{who} cannot listen on {endpoint}")


def read_terminal(descriptor):
    """All that was written to a terminal whose other end is closed by now."""
    parts = []
    # The end is an error on Linux, and nothing at all on other systems.
    with contextlib.suppress(OSError):
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


def test_on_a_terminal_an_error_has_a_line_of_its_own_and_the_cursor_comes_back(peers):
    endpoint = json.loads(peers.read_text())["coordinator"]["endpoint"]
    ours, theirs = os.openpty()
    with socket.create_server((host_of(endpoint), int(endpoint.rpartition(":")[2]))):
        argv = [COMMANDS / "lppa-coordinator", "--peers", peers, *TINY]
        ended = subprocess.run(argv, stderr=theirs, cwd=peers.parent, timeout=PATIENCE, check=False)
    os.close(theirs)
    shown = read_terminal(ours)
    os.close(ours)
    assert ended.returncode == 2
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h"), "a hidden cursor is shown again"
    assert re.search(r"(^|[\n\r]|\x1b\[2K)error: the coordinator cannot listen", shown)


@pytest.mark.slow
def test_nodes_that_do_not_come_are_named(started, peers, tmp_path):
    out = tmp_path / "run"
    # Before the coordinator, whose timeout is short.
    node = started.node(0, peers, "--out", out, "--timeout", PATIENCE)
    coordinator = started.coordinator(peers, out, *TINY, "--timeout", 8)
    ended = coordinator.end()
    assert ended.code == 1
    assert ended.errors == ["error: the run failed: node 1 did not come within 8 s"]
    summary = read_summary(out)
    assert (summary["status"], summary["node"], summary["round"]) == ("failed", 1, 0)
    ended = node.end()
    assert ended.code == 1
    assert ended.errors == ["error: node 1 did not come within 8 s"]


def test_a_node_of_another_run_is_refused_and_not_told_which_run_this_is(started, peers, tmp_path):
    coordinator = started.coordinator(peers, tmp_path / "run", *TINY)
    run = json.loads(peers.read_text())["run"]
    ended = started.node(0, changed(peers, lambda content: content.update(run="last-week"))).end()
    assert ended.code == 2, ended
    assert "Traceback" not in ended.err
    assert "refuses node 0: its peers.json is of another run" in ended.errors[0]
    assert run not in ended.err
    assert coordinator.poll() is None


def test_in_clear_text_a_node_of_another_run_is_told_nothing(started, tmp_path):
    clear = "--insecure"
    peers = started.peers(2, clear)
    coordinator = started.coordinator(peers, tmp_path / "run", *TINY, clear)
    other = changed(peers, lambda content: content.update(run="last-week"))
    ended = started.node(0, other, "--timeout", 2, clear).end()
    assert ended.code == 1, ended
    assert "no coordinator answered at" in ended.errors[0]
    assert coordinator.poll() is None


def test_a_second_node_with_one_id_is_refused_by_name_and_the_first_goes_on(
    started, peers, tmp_path
):
    def other_ports(content):
        """So that a second process with one id gets as far as the coordinator."""
        for node in content["nodes"]:
            node["endpoint"] = f"tcp://127.0.0.1:{started.ports.hold()}"

    out = tmp_path / "run"
    coordinator = started.coordinator(peers, out, *TINY)
    first = started.node(0, peers, "--out", out)
    coordinator.says("waiting for node 1")
    same_port = started.node(0, peers, "--out", tmp_path / "same").end()
    assert same_port.code == 2
    assert "node 0 cannot listen on" in same_port.errors[0]
    other = changed(peers, other_ports)
    refusal = f"refuses node 0: node 0 is here already, as process {first.pid} on "
    before = started.node(0, other, "--out", tmp_path / "other").end()
    assert before.code == 2
    assert refusal in before.errors[0]
    second = started.node(1, peers, "--out", out, **started.held(2))
    eventually(lambda: (out / "nodes" / "1").exists(), what="the run has begun")
    during = started.node(0, other, "--out", tmp_path / "other").end()
    assert during.code == 2
    assert refusal in during.errors[0]
    started.let_go_on()
    assert [node.end().code for node in (first, second, coordinator)] == [0, 0, 0]
    assert read_summary(out)["status"] == "completed"
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "same").exists()
