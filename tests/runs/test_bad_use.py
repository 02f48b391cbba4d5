"""Wrong use gets one clear line and exit code 2, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess

import pytest
from processes import COMMANDS, PATIENCE, Started, changed, eventually, read_summary, run_command

from lppa.coordinator.plan import make_blueprint
from lppa.coordinator.rundir import RunDirectory
from lppa.protocol.book import host_of, write_key
from lppa.protocol.errors import WrongUse
from lppa.protocol.network import NetworkLinks
from lppa.protocol.settings import make_settings
from lppa.protocol.sockets import new_keys

TINY = ("--dataset", "quadratic", "--rounds", "3", "--timeout", str(PATIENCE))


@pytest.fixture
def started(tmp_path):
    with Started(tmp_path) as started:
        yield started


@pytest.fixture
def peers(started):
    return started.peers(2)


@pytest.fixture
def secure(started):
    return started.peers(2, "--secure")


def contents(folder):
    """All files below a folder with what is in them."""
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def assert_refused(started, ended, reason, code=2):
    """One line that says why, no traceback, nothing made, nobody left."""
    assert ended.code == code, ended
    assert len(ended.errors) == 1, ended
    assert re.search(reason, ended.errors[0]), ended
    assert ended.err.splitlines()[-1] == ended.errors[0], ended
    assert "Traceback" not in ended.err + ended.out
    assert ended.out == ""
    assert list(started.here.iterdir()) == []
    assert list(started.temporary.glob("lppa-*")) == []
    eventually(lambda: not started.left(), what="no process is left")


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ("lppa run -n 1", "at least 2 nodes"),
        ("lppa run -n 0", "at least 2 nodes"),
        ("lppa peers 1", "at least 2 nodes"),
        ("lppa peers -- -4", "at least 2 nodes"),
        ("lppa run --rounds 0", "--rounds"),
        ("lppa run --lr nan", "--lr"),
        ("lppa run --dataset quadratic --model cnn", "--model cnn"),
        ("lppa run --topology hypercube", "unknown topology hypercube"),
        ("lppa run --topology gone.json", "gone.json"),
        ("lppa run --config gone.toml", "gone.toml"),
        ("lppa peers 3 --port 65535", "--port 65535"),
        ("lppa peers 3 --host 10.0.0.1 --host 10.0.0.2", "2 times"),
        ("lppa-node --id 0 --peers gone.json", "gone.json does not exist"),
        ("lppa-coordinator --peers gone.json", "gone.json does not exist"),
        ("lppa-node --id 0 --peers .", "cannot be read"),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(started, argv, reason):
    assert_refused(started, started.quick(*argv.split()).end(), reason)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("--device", "tpu"),
        ("--dataset", "nowhere"),
        ("--partition", "halves"),
        ("--model", "transformer"),
        ("--timeout", "1e9"),
        ("--seed", "99999999999999999999"),
        ("--beta", "1e300"),
    ],
)
def test_a_setting_that_no_node_can_follow_is_refused_before_anything_starts(
    started, setting, value
):
    argv = ["lppa", "run", "-n", 2, "--rounds", 1, "--out", "run", setting, value]
    if setting not in ("--dataset", "--partition", "--model"):
        argv += ["--dataset", "quadratic"]
    command = started.quick(*argv)
    # Not an answer yet, but a run that goes on: the test needs no more than that.
    eventually(lambda: command.poll() is not None or (started.here / "run").exists())
    assert not (started.here / "run").exists(), "a run was started"
    assert_refused(started, command.end(), setting)


@pytest.mark.parametrize("timeout", ["inf", "nan", "1e9"])
def test_a_node_refuses_a_timeout_that_is_no_number_of_seconds(started, peers, timeout):
    ended = started.node(0, peers, "--timeout", timeout).end()
    assert ended.code == 2, ended
    assert "Traceback" not in ended.err
    assert "--timeout" in ended.err


@pytest.mark.parametrize(
    "argv", ["lppa nothing", "lppa run --nothing 1", "lppa-node --nothing", "lppa-node --id 0"]
)
def test_an_unknown_command_or_option_is_wrong_use(started, argv):
    ended = started.quick(*argv.split()).end()
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert ended.err.splitlines()[-1].lower().startswith("error: ")


def test_with_v_a_wrong_use_shows_where_it_was_found(started):
    ended = started.quick("lppa", "run", "-n", 1, "-v").end()
    assert ended.code == 2
    assert "Traceback" in ended.err
    assert len(ended.errors) == 1


@pytest.mark.parametrize("command", ["lppa run", "lppa peers", "lppa-node", "lppa-coordinator"])
def test_every_command_has_a_help_text_with_an_example(started, command):
    for option in ("-h", "--help"):
        ended = started.command(*command.split(), option).end()
        assert (ended.code, ended.err) == (0, "")
        assert f"Example: {command}" in " ".join(ended.out.split())


# --- graphs -------------------------------------------------------------------------------------


def test_a_graph_that_is_not_strongly_connected_says_who_cannot_reach_whom(started, tmp_path):
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps([[0, 1], [1, 0], [1, 2]]))
    ended = started.quick("lppa", "run", "-n", 3, "--topology", graph, "--out", "run").end()
    assert_refused(started, ended, r"not strongly connected: node 2 cannot reach nodes 0, 1")
    peers = started.peers(3)
    ended = started.quick("lppa-coordinator", "--peers", peers, "--topology", graph).end()
    assert_refused(started, ended, r"node 2 cannot reach nodes 0, 1")


@pytest.mark.slow
def test_two_runs_of_two_side_by_side_warn_complete_and_print_one_json_document_each(started):
    """The second starts as soon as the first has chosen its directory, and must choose another."""
    argv = ("lppa", "run", "-n", 2, *TINY, "--json")
    commands = [started.command(*argv)]
    eventually(lambda: list(started.here.glob("runs/*/config.json")), what="it has a directory")
    commands.append(started.command(*argv))
    directories = set()
    for ended in [command.end() for command in commands]:
        assert ended.code == 0, ended
        printed = json.loads(ended.out)
        folder = started.here / printed.pop("directory")
        directories.add(folder)
        assert printed == read_summary(folder)
        assert printed["status"] == "completed"
        assert len(printed["warnings"]) == 1
        for warning in printed["warnings"]:
            assert f"warning: {warning}" in ended.err.splitlines()
    assert len(directories) == 2
    assert list(started.temporary.iterdir()) == []
    eventually(lambda: not started.left(), what="no process is left")


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"nodes": 2, "rule": "lppa"}, "node 1 learns node 0's"),
        ({"nodes": 3, "rule": "dsgt"}, "node 1 learns node 0's"),
        ({"nodes": 5, "rule": "lppa", "noise_every": 1, "noise_exchange": "seed"}, None),
    ],
)
def test_a_run_tells_in_one_line_what_it_does_not_hide(local_run, settings, warning):
    summary = local_run(dataset="quadratic", rounds=2, local_steps=1, **settings).summary
    assert summary["status"] == "completed"
    assert len(summary["warnings"]) == (warning is not None)
    for line in summary["warnings"]:
        assert warning in line


# --- the run's directory ------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["a run", "a folder of somebody else", "a file"])
def test_an_out_that_exists_is_refused_and_left_as_it_was(started, tmp_path, what):
    out = tmp_path / "out"
    if what == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / ("config.json" if what == "a run" else "thesis.txt")).write_text("mine")
    before = contents(tmp_path / "out") if out.is_dir() else out.read_bytes()
    ended = started.quick("lppa", "run", "-n", 2, *TINY, "--out", out).end()
    assert_refused(started, ended, "out exists already")
    assert (contents(out) if out.is_dir() else out.read_bytes()) == before


def test_two_runs_do_not_share_a_directory_even_if_both_found_it_free(tmp_path):
    first, second = (make_blueprint(make_settings({"seed": s}), 2, "run") for s in (1, 2))
    RunDirectory(tmp_path / "run", first).metrics_file.close()
    with pytest.raises(WrongUse, match="exists already"):
        RunDirectory(tmp_path / "run", second)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["seed"] == 1


@pytest.mark.parametrize(
    "argv",
    [
        ("lppa", "run", "-n", 2, *TINY, "--out"),
        ("lppa", "peers", 2, "--out"),
    ],
)
@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nowhere"])
def test_an_out_that_cannot_be_made_is_told_in_one_line(started, tmp_path, argv, place):
    (tmp_path / "file").write_text("mine")
    ended = started.quick(*argv, tmp_path / place).end()
    assert_refused(started, ended, re.escape(place))
    assert (tmp_path / "file").read_text() == "mine"


def test_an_address_book_is_not_overwritten(started, peers):
    before = contents(peers.parent)
    ended = started.quick("lppa", "peers", 2, "--out", peers.parent).end()
    assert_refused(started, ended, "peers.json exists already")
    assert contents(peers.parent) == before


@pytest.mark.parametrize("host", ["", "two words", "tcp://10.0.0.1", "*"])
def test_a_host_that_is_none_does_not_get_into_an_address_book(started, tmp_path, host):
    ended = started.quick("lppa", "peers", 2, "--host", host, "--out", tmp_path / "book").end()
    assert_refused(started, ended, "--host")
    assert not (tmp_path / "book").exists()


def test_json_of_peers_is_the_address_book_without_any_secret(started, tmp_path):
    ended = started.quick("lppa", "peers", 2, "--json", "--out", tmp_path / "book").end()
    assert ended.code == 0
    assert json.loads(ended.out) == json.loads((tmp_path / "book" / "peers.json").read_text())
    for key in (tmp_path / "book" / "keys").iterdir():
        assert key.read_text().strip() not in ended.out + ended.err


# --- the address book ---------------------------------------------------------------------------


def double_id(content):
    content["nodes"][1]["id"] = 0


def broken_key(content):
    content["secure"] = True
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
def test_without_its_key_file_nobody_falls_back_to_clear_text(started, secure, command, key):
    (secure.parent / "keys" / key).unlink()
    ended = started.quick(*command.split(), "--peers", secure).end()
    assert_refused(started, ended, rf"{key} cannot be read .*links are encrypted")


def test_the_key_of_another_node_is_refused(started, secure):
    ended = started.node(0, secure, "--key", secure.parent / "keys" / "node-1.key").end()
    assert_refused(started, ended, "not that of node 0 in peers.json")


def test_a_key_that_others_can_read_is_refused(started, secure):
    (secure.parent / "keys" / "node-1.key").chmod(0o640)
    ended = started.quick("lppa-node", "--id", 1, "--peers", secure).end()
    assert_refused(started, ended, "can be read by others")


def stranger_of(secure):
    """Node 0 with a key of its own making, in a book that nobody else has."""
    keys = new_keys()
    write_key(secure.parent / "stranger.key", keys.secret)
    book = changed(secure, lambda content: content["nodes"][0].update(public_key=keys.public))
    return book, secure.parent / "stranger.key"


def test_a_key_that_the_coordinator_does_not_know_is_refused(started, secure, tmp_path):
    coordinator = started.coordinator(secure, tmp_path / "run", *TINY)
    book, key = stranger_of(secure)
    ended = started.node(0, book, "--key", key, "--timeout", PATIENCE).end()
    assert ended.code == 2, ended
    assert "do not accept each other's keys" in ended.errors[0]
    assert "Traceback" not in ended.err
    assert coordinator.poll() is None, "the coordinator still waits for the right one"


def test_a_book_with_another_key_of_the_coordinator_says_that_it_is_the_key(
    started, secure, tmp_path
):
    started.coordinator(secure, tmp_path / "run", *TINY)
    key = new_keys().public
    book = changed(secure, lambda content: content["coordinator"].update(public_key=key))
    ended = started.node(0, book, "--timeout", PATIENCE).end()
    assert ended.code in (1, 2), ended
    assert "Traceback" not in ended.err
    assert "key" in ended.errors[0], ended


def run_node_slow_to_greet(gate, *given):
    """The life of `lppa-node` that greets nobody before a file is there; runs in the child."""
    honest = NetworkLinks.handshake

    def handshake(self, fingerprint):
        eventually(gate.exists)
        honest(self, fingerprint)

    NetworkLinks.handshake = handshake
    run_command(*given)


@pytest.mark.slow
def test_neighbours_with_different_keys_for_one_node_name_each_other(started, secure, tmp_path):
    """Node 1's book has another key for node 0 than the coordinator's and node 0's own."""
    out = tmp_path / "run"
    coordinator = started.coordinator(secure, out, *TINY)
    book, _ = stranger_of(secure)
    # Both find out; whoever does first ends the run for the other, and here that is node 0.
    slow = {"life": run_node_slow_to_greet, "given": (started.gate,)}
    second = started.node(1, book, "--out", out, **slow)
    first = started.node(0, secure, "--out", out).end()
    started.let_go_on()
    second, coordinator = second.end(), coordinator.end()
    assert (first.code, second.code, coordinator.code) == (1, 1, 1)
    assert "node 1 turned down the key of node 0" in first.err
    assert "Traceback" not in first.err + second.err + coordinator.err
    summary = read_summary(out)
    assert (summary["status"], summary["round"]) == ("failed", 0)
    assert "key" in summary["reason"], summary


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


def test_a_node_of_another_run_is_refused_with_both_names(started, peers, tmp_path):
    coordinator = started.coordinator(peers, tmp_path / "run", *TINY)
    run = json.loads(peers.read_text())["run"]
    ended = started.node(0, changed(peers, lambda content: content.update(run="last-week"))).end()
    assert ended.code == 2, ended
    assert "Traceback" not in ended.err
    assert run in ended.errors[0]
    assert "last-week" in ended.errors[0]
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
