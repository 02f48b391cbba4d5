"""Whole runs over a network that is cut, stalled, or there late: they end with the same bits."""

from __future__ import annotations

import threading

import pytest
import torch
from processes import PATIENCE, eventually, read_lines, read_summary
from proxy import Forwarders

SETTINGS = {"dataset": "quadratic", "rounds": 30, "seed": 5, "eval_every": 5, "timeout": PATIENCE}
OPTIONS = [t for k, v in SETTINGS.items() for t in (f"--{k.replace('_', '-')}", v)]


def assert_same_bits(out, local_run):
    undisturbed = local_run(nodes=3, **SETTINGS)
    for i in range(3):
        state = torch.load(out / "nodes" / str(i) / "state.pt", weights_only=True)
        for name in ("theta", "gamma"):
            assert torch.equal(state[name], undisturbed.final(name)[i])
    assert read_summary(out)["status"] == "completed"
    told = sorted((line["round"], line["node"]) for line in read_lines(out / "metrics.jsonl"))
    assert told == [(t, i) for t in range(5, 31, 5) for i in range(3)], "each report once"


@pytest.mark.parametrize("how", ["cut", "stalled"])
def test_a_run_over_a_broken_network_ends_with_the_same_bits(started, tmp_path, local_run, how):
    out = tmp_path / "by-hand"
    with Forwarders(started.peers(3)) as network:
        coordinator = started.coordinator(network.book_of("coordinator"), out, *OPTIONS)
        nodes = [started.node(i, network.book_of(i), "--out", out) for i in range(2)]
        nodes.append(started.node(2, network.book_of(2), "--out", out, **started.held(7)))
        eventually(lambda: read_lines(out / "nodes" / "0" / "metrics.jsonl"), what="round 5")
        if how == "stalled":
            network.stall()
            started.let_go_on()
            pause = threading.Event()
            pause.wait(3.0)
            network.go_on()
        else:
            assert network.cut() >= 6
            started.let_go_on()
            pause = threading.Event()
            while any(node.poll() is None for node in nodes) and not pause.wait(1.5):
                network.cut()
        ended = [process.end() for process in (coordinator, *nodes)]
        assert [process.code for process in ended] == [0, 0, 0, 0], ended
    assert_same_bits(out, local_run)


def test_behind_forwarders_nodes_may_come_long_before_those_they_look_for(
    started, tmp_path, local_run
):
    """A forwarder takes connections and hangs up while its target is not there yet."""
    out = tmp_path / "by-hand"
    with Forwarders(started.peers(3)) as network:
        nodes = [started.node(i, network.book_of(i), "--out", out) for i in range(3)]
        early = [network.between[i, "coordinator"] for i in range(3)]
        eventually(lambda: all(proxy.accepted > 4 for proxy in early), what="many hang-ups")
        assert all(node.poll() is None for node in nodes)
        coordinator = started.coordinator(network.book_of("coordinator"), out, *OPTIONS)
        ended = [process.end() for process in (coordinator, *nodes)]
        assert [process.code for process in ended] == [0, 0, 0, 0], ended
    assert_same_bits(out, local_run)
