"""Topologies: what each name gives, what a file may say, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lppa.coordinator.topology import (
    FIXED,
    RANDOM,
    Topology,
    build_topology,
    require_strongly_connected,
)
from lppa.protocol.errors import WrongUse

NAMES = [*FIXED, *RANDOM]
DIRECTED = {"directed-ring", "exponential"}


def reachable(topology, start):
    seen = {start}
    while True:
        more = {b for a, b in topology.edges if a in seen} - seen
        if not more:
            return seen
        seen |= more


def degrees(topology):
    return sorted(len(topology.out_neighbours(i)) for i in range(topology.nodes))


def write(path, content):
    path.write_text(json.dumps(content))
    return str(path)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.integers(2, 24), st.integers(0, 1000))
def test_every_name_gives_a_strongly_connected_graph_at_any_size(name, nodes, seed):
    topology = build_topology(name, nodes, seed)
    assert topology.nodes == nodes
    assert list(topology.edges) == sorted(set(topology.edges))
    assert all(a != b for a, b in topology.edges)
    assert all(reachable(topology, i) == set(range(nodes)) for i in range(nodes))
    if name not in DIRECTED:
        assert {(b, a) for a, b in topology.edges} == set(topology.edges)


@given(st.sampled_from(NAMES), st.integers(2, 12), st.integers(0, 50))
@settings(deadline=None, max_examples=50)
def test_neighbours_agree_with_the_edges(name, nodes, seed):
    topology = build_topology(name, nodes, seed)
    for i in range(nodes):
        assert topology.out_neighbours(i) == tuple(b for a, b in topology.edges if a == i)
        assert topology.in_neighbours(i) == tuple(sorted(a for a, b in topology.edges if b == i))


@pytest.mark.parametrize(
    ("name", "nodes", "expected"),
    [
        ("full", 5, [4] * 5),
        ("ring", 5, [2] * 5),
        ("directed-ring", 5, [1] * 5),
        ("star", 5, [1, 1, 1, 1, 4]),
        ("grid", 12, [2] * 4 + [3] * 6 + [4] * 2),
        ("grid", 5, [1, 1, 2, 2, 2]),
        ("torus", 12, [4] * 12),
        ("torus", 5, [2] * 5),
        ("exponential", 8, [3] * 8),
        ("exponential", 5, [3] * 5),
        ("random-regular", 10, [4] * 10),
        ("random-regular:3", 10, [3] * 10),
        ("random-regular:60", 64, [60] * 64),
        ("random-regular:5", 6, [5] * 6),
        ("erdos-renyi:1", 6, [5] * 6),
    ],
)
def test_a_named_graph_has_the_degrees_its_name_promises(name, nodes, expected):
    assert degrees(build_topology(name, nodes, 0)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_with_two_nodes_every_name_is_the_same_pair(name):
    assert build_topology(name, 2, 3).edges == ((0, 1), (1, 0))


def test_the_hub_of_a_star_is_node_0():
    assert build_topology("star", 6, 0).in_neighbours(0) == (1, 2, 3, 4, 5)


def test_a_directed_ring_sends_to_the_next_node_only():
    assert build_topology("directed-ring", 3, 0).edges == ((0, 1), (1, 2), (2, 0))


def test_an_exponential_graph_sends_powers_of_two_ahead():
    assert build_topology("exponential", 10, 0).out_neighbours(7) == (1, 5, 8, 9)


def test_a_small_world_has_as_many_edges_as_its_ring_lattice():
    assert len(build_topology("small-world:4", 20, 1).edges) == 20 * 4


@pytest.mark.parametrize("name", RANDOM)
def test_the_same_seed_gives_the_same_graph_and_another_seed_another(name):
    assert build_topology(name, 20, 7) == build_topology(name, 20, 7)
    assert len({build_topology(name, 20, seed).edges for seed in range(5)}) > 1


def test_importing_the_module_does_not_import_networkx():
    code = "import sys, lppa.coordinator.topology; sys.exit('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("nodes", [1, 0, -3])
def test_fewer_than_two_nodes_are_refused(nodes):
    with pytest.raises(WrongUse, match="a run needs at least 2 nodes"):
        build_topology("ring", nodes, 0)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(WrongUse) as error:
        build_topology("rign", 4, 0)
    assert all(name in str(error.value) for name in ["rign", *NAMES])


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ("ring:3", 6),
        ("random-regular:", 6),
        ("random-regular:x", 6),
        ("random-regular:0", 6),
        ("random-regular:-2", 6),
        ("random-regular:1", 6),
        ("random-regular:6", 6),
        ("random-regular:3", 5),
        ("erdos-renyi:1.5", 6),
        ("erdos-renyi:nan", 6),
        ("erdos-renyi:-0.1", 6),
        ("small-world:3", 6),
        ("small-world:8", 6),
        ("small-world:2.5", 6),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused_by_name(spec, nodes):
    with pytest.raises(WrongUse, match="topology " + spec.partition(":")[0]):
        build_topology(spec, nodes, 0)


def test_a_random_graph_too_sparse_to_connect_is_given_up_after_many_draws():
    with pytest.raises(WrongUse, match="none of 200 draws is connected"):
        build_topology("erdos-renyi:0.001", 12, 0)


def test_a_file_may_be_a_bare_list_of_pairs(tmp_path):
    path = write(tmp_path / "g.json", [[2, 0], [0, 1], [1, 2]])
    assert build_topology(path, 3, 0).edges == ((0, 1), (1, 2), (2, 0))


def test_a_file_may_be_an_object_with_more_keys_than_needed(tmp_path):
    content = {"nodes": 2, "edges": [[0, 1], [1, 0]], "W": [[0.5, 0.5]], "spectral_gap": 1.0}
    assert build_topology(write(tmp_path / "g.json", content), 2, 0).edges == ((0, 1), (1, 0))


def test_self_loops_and_repeated_edges_in_a_file_are_dropped(tmp_path):
    path = write(tmp_path / "g.json", [[0, 1], [0, 1], [1, 1], [1, 0]])
    assert build_topology(path, 2, 0).edges == ((0, 1), (1, 0))


@given(st.integers(2, 10), st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_a_topology_written_to_a_file_reads_back_as_itself(tmp_path_factory, nodes, seed):
    built = build_topology("erdos-renyi", nodes, seed)
    path = tmp_path_factory.mktemp("graph") / "topology.json"
    read = build_topology(write(path, {"nodes": nodes, "edges": built.edges}), nodes, 0)
    assert read.edges == built.edges


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[0, 1], [1", "is not JSON"),
        ("3", "holds no edges: write a list of [from, to] pairs, each a link one way"),
        ('{"nodes": 3}', "holds no edges"),
        ('{"nodes": 4, "edges": []}', "is for 4 nodes, the run has 3"),
        ("[[0, 1, 2]]", "is not an edge: write [from, to], a link one way"),
        ("[[0, true]]", "is not an edge"),
        ('[["0", "1"]]', "is not an edge"),
        ("[7]", "is not an edge"),
        ("[[0, 3]]", "leaves the run's nodes 0 to 2"),
        ("[[-1, 0]]", "leaves the run's nodes 0 to 2"),
        ("[[0, 1], [1, 0]]", "node 2 cannot reach nodes 0, 1"),
        ("[[0, 1], [1, 2]]", "[from, to] is one way; a two-way link needs both"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_reason(tmp_path, text, reason):
    path = tmp_path / "g.json"
    path.write_text(text)
    with pytest.raises(WrongUse) as error:
        build_topology(str(path), 3, 0)
    assert str(path) in str(error.value)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "g.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WrongUse, match="is not JSON"):
        build_topology(str(path), 3, 0)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WrongUse, match=r"cannot read topology file .*none\.json"):
        build_topology(str(tmp_path / "none.json"), 3, 0)


def test_a_refusal_says_which_nodes_cannot_reach_which():
    halves = Topology("halves", 4, ((0, 1), (1, 0), (1, 2), (2, 3), (3, 2)))
    with pytest.raises(WrongUse, match="nodes 2, 3 cannot reach nodes 0, 1") as error:
        require_strongly_connected(halves)
    assert str(error.value).count("cannot reach") == 1


def test_a_long_refusal_stays_short():
    line = Topology("line", 200, tuple((i, i + 1) for i in range(199)))
    with pytest.raises(WrongUse, match="and 196 more such groups") as error:
        require_strongly_connected(line)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("edges", [((1, 0), (0, 1)), ((0, 1), (0, 1)), ((0, 0),), ((0, 2),)])
def test_a_topology_holds_only_sorted_unique_edges_between_its_nodes(edges):
    with pytest.raises(ValueError, match="edge"):
        Topology("wrong", 2, edges)
