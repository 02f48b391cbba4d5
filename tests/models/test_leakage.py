"""The quick audit of whole networks, against closed forms and against the dense reference."""

from __future__ import annotations

import math
from dataclasses import replace

import networkx
import numpy as np
import pytest
from dense_way import assert_both_ways_agree
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import make_schedule

from lppa.coordinator.sinkhorn import sinkhorn, weight_matrix
from lppa.coordinator.topology import build_topology
from lppa.models.leakage import deviations, view
from lppa.models.schedule import with_noise_in_every_round
from lppa.models.tracking import gradient_name


def schedule_of(topology, nodes, weights="random", **options):
    W = weight_matrix(build_topology(topology, nodes, 1), weights, 2)
    given = {"rule": "lppa", "noise_every": 0, "adapt_first": False, "common_start": False}
    return make_schedule(W=W, **{**given, "lam": 0.05, "rounds": 4, **options})


def learned(schedule, attackers, terms):
    """The least deviation in units of β."""
    return deviations(view(schedule, attackers), [terms])[0] * math.sqrt(2)


def first(victim=0):
    return [(1.0, gradient_name(victim, 0))]


def change(t=0, victim=0):
    return [(1.0, gradient_name(victim, t + 1)), (-1.0, gradient_name(victim, t))]


WEIGHTS = pytest.mark.parametrize("weights", ["uniform", "random"])


@WEIGHTS
@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
def test_on_a_full_graph_each_colluder_takes_its_share_of_the_noise_away(nodes, weights):
    for every in (0, 1):
        schedule = schedule_of("full", nodes, weights, noise_every=every)
        for k in range(1, nodes):
            expected = 2 * math.sqrt(nodes - 1 - k)
            found = learned(schedule, range(1, k + 1), first())
            assert found == pytest.approx(expected, abs=1e-12)
            assert (found == 0) == (k == nodes - 1)


@WEIGHTS
def test_a_neighbour_on_a_directed_ring_sees_as_much_as_under_dp(weights):
    for rule in ("lppa", "dp"):
        schedule = schedule_of("directed-ring", 5, weights, rule=rule)
        assert learned(schedule, [1], first()) == pytest.approx(math.sqrt(2))


@WEIGHTS
@pytest.mark.parametrize("adapt_first", [False, True])
def test_on_a_full_graph_start_only_noise_hides_no_change_and_noise_in_every_round_does(
    weights, adapt_first
):
    schedule = schedule_of("full", 5, weights, adapt_first=adapt_first)
    every = with_noise_in_every_round(schedule)
    for t in range(4):
        assert learned(schedule, [1], change(t)) == 0
        assert learned(every, [1], change(t)) == pytest.approx(2 * math.sqrt(3))
    telescoped = [(1.0, gradient_name(0, 3)), (-1.0, gradient_name(0, 0))]
    assert learned(schedule, [1], telescoped) == 0
    assert learned(every, [1], telescoped) == pytest.approx(6.0)


@WEIGHTS
def test_on_a_directed_ring_of_three_theta_gives_the_change_away(weights):
    schedule = schedule_of("directed-ring", 3, weights)
    assert learned(schedule, [1], change()) == 0
    every = with_noise_in_every_round(schedule)
    assert learned(every, [1], change()) == pytest.approx(math.sqrt(2))


def test_what_is_not_identifiable_is_said_to_be_so():
    ring = schedule_of("directed-ring", 5)
    assert learned(ring, [1], change()) == math.inf
    assert learned(ring, [2], first()) == math.inf
    assert learned(replace(ring, common_start=True), [1], change()) == 0


def test_finishing_rounds_tell_of_those_who_are_not_heard():
    # Node 1 of a directed ring hears node 0 alone; what node 2 did is in later averages of θ.
    ring = schedule_of("directed-ring", 3, rounds=1)
    for finish, change_of_0, first_of_2, change_of_2 in (
        (0, math.inf, math.inf, math.inf),
        (1, 0.0, math.sqrt(2), math.inf),
        (2, 0.0, math.sqrt(2), 0.0),
    ):
        ended = replace(ring, finish=finish)
        assert learned(ended, [1], change()) == change_of_0
        assert learned(ended, [1], first(2)) == pytest.approx(first_of_2)
        assert learned(ended, [1], change(victim=2)) == change_of_2


@pytest.mark.parametrize("own", [0.1, 3.0])
def test_own_noise_survives_all_neighbours(own):
    schedule = schedule_of("full", 5, beta_own=own)
    found = learned(schedule, [1, 2, 3, 4], first())
    assert found == pytest.approx(own * math.sqrt(2))


@pytest.mark.parametrize("topology", ["ring", "random-regular:4", "full"])
def test_more_attackers_and_more_rounds_never_know_less(topology):
    schedule = schedule_of(topology, 8, noise_every=2)
    terms = [first(v) for v in (5, 6, 7)] + [change(0, v) for v in (5, 6, 7)]
    before = np.full(len(terms), math.inf)
    for attackers in ([0], [0, 1], [0, 1, 2], [0, 1, 2, 3, 4]):
        after = deviations(view(schedule, attackers), terms)
        assert (after <= before + 1e-9).all()
        before = after
    short = deviations(view(replace(schedule, rounds=1), [0, 1]), terms)
    assert (deviations(view(schedule, [0, 1]), terms) <= short + 1e-9).all()


@st.composite
def cases(draw):
    """A random strongly connected digraph with random weights, any schedule, some attackers."""
    nodes = draw(st.integers(5, 8))
    seed = draw(st.integers(0, 2**31))
    density = draw(st.sampled_from([0.0, 0.15, 0.4]))
    rng = np.random.default_rng(seed)
    support = rng.random((nodes, nodes)) < density
    # A cycle through all nodes makes it strongly connected.
    order = rng.permutation(nodes)
    support[order, np.roll(order, 1)] = True
    graph = networkx.from_numpy_array(support, create_using=networkx.DiGraph)
    assert networkx.is_strongly_connected(graph)
    rule = draw(st.sampled_from(["lppa", "lppa", "dp", "dsgt"]))
    schedule = make_schedule(
        W=sinkhorn(support, draw(st.sampled_from(["uniform", "random"])), seed),
        rule=rule,
        noise_every=draw(st.sampled_from([0, 1, 2])),
        adapt_first=draw(st.booleans()),
        common_start=draw(st.booleans()),
        lam=draw(st.sampled_from([0.05, 0.3])),
        rounds=draw(st.integers(1, 4)),
        beta_own=draw(st.sampled_from([0.0, 0.3])) if rule == "lppa" else 0.0,
        lam_decay=draw(st.sampled_from([0.0, 0.1])),
        finish=draw(st.sampled_from([0, 0, 1, 3])),
    )
    attackers = draw(st.sets(st.integers(0, nodes - 1), min_size=1, max_size=3))
    return schedule, sorted(attackers)


# The same examples every time: what one run of the tests finds, every run finds.
@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases())
def test_the_quick_way_and_the_dense_way_agree_on_random_graphs(case):
    schedule, attackers = case
    victims = [v for v in range(schedule.nodes) if v not in attackers][:3]
    wanted = [terms for v in victims for terms in (first(v), change(0, v))]
    wanted += [change(schedule.rounds - 1, v) for v in victims]
    assert_both_ways_agree(schedule, attackers, wanted, atol=1e-9)
