"""The graph on the page: clients, weights, and pages of huge runs that stay small."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from pages import Document, page_of

from lppa.report.page import render_page
from lppa.report.reading import read_run
from lppa.report.write import write_report


def test_classes_that_have_names_are_shown_by_them(made_up):
    run = made_up().whole()
    partition = json.loads((run.folder / "partition.json").read_text())
    run.json("partition.json", {**partition, "names": ["oak", "ash", "elm"]})
    labels = {a["data-chart"]: a["aria-label"] for a in page_of(run).all("svg")}
    assert "client 0: oak 10 samples, elm 5 samples" in labels["Data partition"]
    # What does not fit the table is not believed.
    run.json("partition.json", {**partition, "names": ["oak"]})
    labels = {a["data-chart"]: a["aria-label"] for a in page_of(run).all("svg")}
    assert "client 0: 0 10 samples, 2 5 samples" in labels["Data partition"]


@pytest.fixture
def huge(made_up):
    """256 clients on a full graph, each with ten classes, and a long history."""
    run = made_up(nodes=256, rounds=tuple(range(1, 3001))).begin()
    nodes = range(256)
    edges = [[i, j] for i in nodes for j in nodes if i != j]
    random = np.random.default_rng(1)
    graph = {"name": "full", "nodes": 256, "edges": edges, "W": random.random((256, 256)).tolist()}
    run.json("topology.json", graph)
    labels = random.integers(0, 99, (256, 10)).tolist()
    run.json("partition.json", {"labels": labels, "classes": 10})
    pairs = [{"attackers": [a], "victim": v, "change": 1.5} for a in range(8) for v in nodes]
    run.json("audit.json", {"targets": ["change"], "pairs": pairs, "verdict": ["Fine."]})
    for round in (1, 2, 3000):
        run.lines("metrics.jsonl", [run.report(node, round) for node in nodes])
    return run.end()


def test_a_huge_run_makes_a_small_page(huge):
    text = write_report(huge.folder).read_text(encoding="utf-8")
    assert len(text) < 1_000_000
    page = Document(text)
    assert "Weights" in page.charts()
    assert "Topology" not in page.charts()
    assert "Data partition" in page.charts()
    assert len(page.elements) < 1500


def topology_figure(run, nodes, weight, edges=None):
    """The figure of a graph, a ring unless told otherwise, whose weight from a to b is given."""
    run.begin()
    ring = [[i, (i + 1) % nodes] for i in range(nodes)]
    edges = sorted(edges or ring + [[b, a] for a, b in ring])
    W = np.eye(nodes) / 2
    for a, b in edges:
        W[b, a] = weight(a, b)
    graph = {"name": "made", "nodes": nodes, "edges": edges, "W": W.tolist()}
    run.json("topology.json", graph)
    html = render_page([read_run(run.folder)])
    return next(f for f in re.findall(r"<figure.*?</figure>", html) if "<h3>Topology" in f)


def key(figure):
    """What the key says of lines: (style, words)."""
    return re.findall(r'<span class="stroke (e\d)"></span>(.*?)</li>', figure)


@pytest.mark.parametrize("nodes", [2, 16, 32, 33])
def test_clients_have_their_numbers_on_them_up_to_32(made_up, nodes):
    figure = topology_figure(made_up(nodes=nodes), nodes, lambda a, b: 0.25)
    numbers = re.findall(r"<circle.*?</circle><text[^>]*>(\d+)</text>", figure)
    assert numbers == ([str(i) for i in range(nodes)] if nodes <= 32 else [])
    assert ("their numbers are left out" in figure) == (nodes > 32)
    assert key(figure) == [("e3", "weight 0.25")]
    assert "arrow" not in figure


def test_width_and_colour_of_a_line_say_its_weight(made_up):
    figure = topology_figure(made_up(nodes=4), 4, lambda a, b: 0.1 if a < b else 0.4)
    assert key(figure) == [("e2", "weight 0.1"), ("e3", "weight 0.4")]
    lines = re.findall(r'<path d="[^"]*" class="edge (e\d)"><title>(.*?)</title>', figure)
    assert ("e2", "client 0 to client 1: weight 0.1") in lines
    assert ("e3", "client 1 to client 0: weight 0.4") in lines
    assert "arrow: from sender to receiver" in figure


def test_many_weights_are_shown_in_four_classes(made_up):
    figure = topology_figure(made_up(nodes=10), 10, lambda a, b: 0.01 * (1 + 10 * a + b))
    assert [style for style, _ in key(figure)] == ["e0", "e1", "e2", "e3"]
    assert key(figure)[0][1].startswith("weight 0.02 to ")
    styles = set(re.findall(r'class="edge (e\d)"', figure))
    assert styles == {"e0", "e1", "e2", "e3"}


def test_a_graph_of_too_many_lines_says_what_it_leaves_out(made_up, huge):
    edges = [[a, b] for a in range(30) for b in range(30) if a != b]
    figure = topology_figure(made_up("all", nodes=30), 30, lambda a, b: (a + 1) / 40, edges)
    assert "So many lines have no arrows" in figure
    assert "arrow: from" not in figure
    assert figure.count("<path") == 4
    assert "65,280 edges are too many to draw; W shows them all." in page_of(huge).text
