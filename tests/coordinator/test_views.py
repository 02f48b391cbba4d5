"""What is left of a graph is a graph with weights of its own, or it is said who is cut off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import blueprint_of

from lppa.coordinator.topology import Topology, require_strongly_connected
from lppa.coordinator.views import first_view, make_view, part_of
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.view import read_view


@st.composite
def parts(draw):
    """A graph, and some of its nodes."""
    topology = draw(st.sampled_from(["full", "ring", "erdos-renyi:0.6", "directed-ring"]))
    blueprint = blueprint_of(draw(st.integers(3, 8)), topology)
    members = draw(st.sets(st.integers(0, blueprint.nodes - 1), min_size=1))
    return blueprint, sorted(members), draw(st.integers(1, 5))


def connected(blueprint, members):
    """The same question, asked of the edges."""
    number = {i: k for k, i in enumerate(members)}
    edges = {(number[i], number[j]) for i, j in blueprint.topology.edges if {i, j} <= {*members}}
    try:
        require_strongly_connected(Topology("part", len(members), tuple(sorted(edges))))
    except WrongUse:
        return False
    return len(members) > 1


@given(parts())
def test_each_view_has_doubly_stochastic_weights_on_the_edges_that_are_left(given_part):
    blueprint, members, epoch = given_part
    if not connected(blueprint, members):
        with pytest.raises(RunFailed):
            part_of(blueprint, members, epoch)
        return
    view = make_view(blueprint, members, epoch, 7)
    assert (view.epoch, view.first_round, view.members) == (epoch, 7, tuple(members))
    W = np.zeros((blueprint.nodes, blueprint.nodes))
    for i, place in view.places.items():
        for j, weight in place.row(i).items():
            W[i, j] = weight
    here = np.ix_(members, members)
    assert np.allclose(W[here].sum(axis=0), 1, atol=1e-9)
    assert np.allclose(W[here].sum(axis=1), 1, atol=1e-9)
    assert np.count_nonzero(W) == np.count_nonzero(W[here])
    edges = {(j, i) for i in members for j in members if i != j and W[i, j] > 0}
    assert edges == {(i, j) for i, j in blueprint.topology.edges if {i, j} <= {*members}}
    assert edges == {(i, j) for i, place in view.places.items() for j in place.outputs}


@given(parts())
def test_what_each_member_is_told_can_be_read_back_and_is_its_own_place_only(given_part):
    blueprint, members, epoch = given_part
    if connected(blueprint, members):
        view = make_view(
            blueprint, members, epoch, 7, members[:1], {i: f"tcp://{i}" for i in members}
        )
        for i in members:
            told = read_view(view.told_to(i).content())
            assert told.places == {i: view.places[i]}
            assert set(told.endpoints) <= {*view.places[i].inputs, *view.places[i].outputs}
            assert told.newcomers == (members[0],)


def test_weights_are_the_same_for_one_epoch_and_others_for_another():
    blueprint = blueprint_of(5, "full")
    once, again = (part_of(blueprint, (0, 2, 3, 4), 1).W for _ in range(2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, part_of(blueprint, (0, 2, 3, 4), 2).W)


def test_with_all_nodes_the_graph_is_the_one_that_the_run_began_with():
    blueprint = blueprint_of(5, "ring")
    again = make_view(blueprint, range(5), 4, 9)
    assert again.places == first_view(blueprint).places


def test_members_keep_their_ids_when_others_are_gone():
    view = make_view(blueprint_of(5, "full"), (4, 1, 3), 1, 0)
    assert view.members == (1, 3, 4)
    assert view.places[3].inputs == view.places[3].outputs == (1, 4)


def test_a_graph_that_falls_apart_is_refused_and_those_cut_off_are_named():
    with pytest.raises(RunFailed) as raised:
        part_of(blueprint_of(6, "ring"), (0, 1, 3, 4), 1)
    assert str(raised.value) == (
        "without nodes 2, 5 the topology ring falls apart: nodes 3, 4 are cut off from node 0; "
        "go on with all nodes: --resume"
    )


def test_one_node_alone_is_refused():
    with pytest.raises(RunFailed, match=r"without nodes 0, 1 .* nobody is left to learn with"):
        part_of(blueprint_of(3, "full"), (2,), 1)
