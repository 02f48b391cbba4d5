"""What happens when somebody talks nonsense: to nodes in the middle of a run, or as coordinator."""

from __future__ import annotations

import secrets
import threading

import msgpack
import numpy as np
import torch
import zmq
from pretended import pretend
from processes import PATIENCE, eventually, read_lines, read_summary

from lppa.coordinator.views import first_view
from lppa.protocol.book import read_book
from lppa.protocol.codec import COORDINATOR, encode
from lppa.protocol.messages import Hello, State, Stop, Waiting
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint


def test_two_nodes_with_different_plans_refuse_each_other_by_name(started, tmp_path):
    """A pretended coordinator hands out two plans."""
    peers = started.peers(2)
    nodes = [started.node(i, peers, "--out", tmp_path / "run") for i in range(2)]
    plans = []
    for node, lr in enumerate((0.1, 0.2)):
        settings = make_settings({"dataset": "quadratic", "lr": lr, "seed": 1})
        blueprint = make_blueprint(settings, 2, "run")
        plans.append(blueprint.plan(node, first_view(blueprint)))
    for node, ended in enumerate(pretend(peers, plans, nodes)):
        assert ended.code == 1
        assert "Traceback" not in ended.err
        assert f"node {1 - node} follows another plan" in ended.errors[0]
        assert f"than node {node}" in ended.errors[0]
    assert not (tmp_path / "run").exists()


def nonsense(run, begun):
    """Frames that nobody should use: random ones, and ones that are wrong in one thing only.

    When the run has begun there is one kind more: a log has only the first few of each.
    """
    fine, size = np.ones(20, np.float32), 20
    wrong = [
        encode(State(0, 0, {"theta": np.full(size, np.nan, np.float32), "gamma": fine}), run, 1),
        encode(State(0, 1, {"theta": fine[:7], "gamma": fine[:7]}), run, 1),
        encode(
            State(0, 2, {"theta": fine.astype(np.float64), "gamma": fine.astype(np.float64)}),
            run,
            1,
        ),
        encode(State(0, 3_000, {"theta": fine, "gamma": fine}), run, 1),
        encode(State(0, 1, {"theta": fine, "gamma": fine}), run, 77),
        encode(State(0, 1, {"theta": fine, "gamma": fine}), "another run", 1),
        encode(Stop("because I say so"), run, COORDINATOR),
        encode(Waiting((1,)), run, 2),
        encode(Hello("nobody", "nowhere", 1), run, 77),
        [msgpack.packb({"version": 1}), b""],
        [b"", b"", b""],
        [b"\x91" * 3000],
        [msgpack.packb("lppa")],
        encode(State(0, 1, {"theta": fine}), run, 1)[:1],
    ]
    for count in range(10**9):
        yield [secrets.token_bytes(secrets.randbelow(200)) for _ in range(1 + count % 3)]
        yield wrong[count % len(wrong)]
        if begun.is_set():
            yield [msgpack.packb({**msgpack.unpackb(wrong[0][0]), "kind": "later"})]


def talk(endpoints, run, begun, enough):
    """Sends nonsense to all endpoints until it is enough."""
    context = zmq.Context()
    sockets = [context.socket(zmq.DEALER) for _ in endpoints]
    for socket, endpoint in zip(sockets, endpoints, strict=True):
        socket.connect(endpoint)
    for frames in nonsense(run, begun):
        for socket in sockets:
            if socket.poll(0, zmq.POLLOUT):
                socket.send_multipart(frames)
        if enough.wait(0.005):
            break
    context.destroy(linger=0)


def kinds_dropped(log):
    """Why messages were dropped, a line of the log each."""
    return [
        line.partition("dropped a message from ")[2].partition(": ")[2].rpartition(" (")[0]
        for line in log.splitlines()
        if "dropped a message" in line
    ]


def test_nonsense_sent_to_everybody_during_a_run_changes_no_bit(started, tmp_path, local_run):
    settings = {"dataset": "quadratic", "rounds": 140, "seed": 5, "latency": 20}
    settings["timeout"] = PATIENCE
    options = [text for key, value in settings.items() for text in (f"--{key}", value)]
    # In clear, as nonsense does not even get through an encrypted door.
    clear = "--insecure"
    peers, out = started.peers(3, clear), tmp_path / "by-hand"
    book = read_book(peers, insecure=True)
    endpoints = [peer.endpoint for peer in (*book.nodes, book.coordinator)]
    begun, enough = threading.Event(), threading.Event()
    talker = threading.Thread(target=talk, args=(endpoints, book.run, begun, enough))
    talker.start()
    try:
        coordinator = started.coordinator(peers, out, *options, clear)
        nodes = [started.node(i, peers, "--out", out, clear) for i in range(2)]
        nodes.append(started.node(2, peers, "--out", out, clear, **started.held(120)))
        logs = [out / "nodes" / str(i) / "node.log" for i in range(3)]

        def much_dropped():
            for process in (coordinator, *nodes):
                assert process.poll() is None, process.err
            if not all(log.exists() for log in logs):
                return False
            begun.set()
            said = [kinds_dropped(node.err) for node in nodes]
            return all(len(kinds) > 20 and len(set(kinds)) > 3 for kinds in said) and all(
                kinds_dropped(log.read_text()) for log in logs
            )

        eventually(much_dropped, what="every node has heard much nonsense of many kinds")
        started.let_go_on()
        ended = [process.end() for process in (*nodes, coordinator)]
    finally:
        enough.set()
        talker.join()
    assert [process.code for process in ended] == [0, 0, 0, 0], ended
    assert read_summary(out)["status"] == "completed"
    undisturbed = local_run(nodes=3, **settings)
    for i in range(3):
        state = torch.load(out / "nodes" / str(i) / "state.pt", weights_only=True)
        for name in ("theta", "gamma"):
            assert torch.equal(state[name], undisturbed.final(name)[i])
        dropped = read_lines(out / "nodes" / str(i) / "metrics.jsonl")[-1]["dropped"]
        assert sum(dropped.values()) > 20
        assert len(dropped) > 3, "many kinds of nonsense were told apart"
        assert "dropped a message" in (out / "nodes" / str(i) / "node.log").read_text()
