"""Nodes that listen on a port that they are given find each other through the coordinator."""

from __future__ import annotations

import json

import pytest
from processes import Started


@pytest.mark.parametrize("clear", [[], ["--insecure"]], ids=["encrypted", "clear"])
def test_nodes_on_any_free_port_find_each_other(tmp_path, clear):
    with Started(tmp_path) as started:
        made = started.quick("lppa", "peers", 3, "--out", tmp_path / "book", *clear).end()
        assert made.code == 0, made
        peers = tmp_path / "book" / "peers.json"
        listed = [entry["endpoint"] for entry in json.loads(peers.read_text())["nodes"]]
        assert listed == ["tcp://127.0.0.1:0"] * 3
        nodes = [started.node(i, peers, "--out", tmp_path / "run", *clear) for i in range(3)]
        options = ("--dataset", "quadratic", "--rounds", 4, "--topology", "directed-ring")
        coordinator = started.coordinator(peers, tmp_path / "run", *options, *clear)
        assert coordinator.end().code == 0
        assert [node.end().code for node in nodes] == [0, 0, 0]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["rounds_done"]) == ("completed", 4)
