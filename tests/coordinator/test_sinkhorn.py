"""Weights: doubly stochastic on the graph's edges whatever the graph, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lppa.coordinator.sinkhorn import sinkhorn, spectral_gap, weight_matrix
from lppa.coordinator.topology import FIXED, RANDOM, Topology, build_topology
from lppa.protocol.errors import WrongUse

WEIGHTS = st.sampled_from(["uniform", "random"])


def assert_doubly_stochastic_on(support, w):
    assert w.dtype == np.float64
    assert np.abs(w.sum(axis=0) - 1).max() <= 1e-12
    assert np.abs(w.sum(axis=1) - 1).max() <= 1e-12
    assert np.array_equal(w > 0, support | np.eye(len(w), dtype=bool))
    assert (w >= 0).all()


@st.composite
def rings_with_chords(draw):
    n = draw(st.integers(2, 64))
    support = np.roll(np.eye(n, dtype=bool), 1, axis=0)
    ids = st.integers(0, n - 1)
    for a, b in draw(st.lists(st.tuples(ids, ids), max_size=12)):
        support[a, b] = True
    return support


@settings(max_examples=100, deadline=None)
@given(rings_with_chords(), WEIGHTS, st.integers(0, 1000))
def test_any_directed_ring_with_chords_gets_doubly_stochastic_weights(support, weights, seed):
    assert_doubly_stochastic_on(support, sinkhorn(support, weights, seed))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([*FIXED, *RANDOM]), st.integers(2, 40), WEIGHTS, st.integers(0, 99))
def test_weights_lie_on_the_edges_from_sender_to_receiver(name, nodes, weights, seed):
    topology = build_topology(name, nodes, seed)
    w = weight_matrix(topology, weights, seed)
    support = np.zeros((nodes, nodes), dtype=bool)
    for i in range(nodes):
        support[i, list(topology.in_neighbours(i))] = True
    assert_doubly_stochastic_on(support, w)


def band(n, below, above):
    return np.tril(np.triu(np.ones((n, n), dtype=bool), -below), above)


@pytest.mark.parametrize("weights", ["uniform", "random"])
@pytest.mark.parametrize(
    "support",
    [
        pytest.param(band(64, 64, 1), id="every way forth, one way back"),
        pytest.param(band(64, 1, 64), id="one way forth, every way back"),
        pytest.param(band(64, 1, 1), id="line"),
    ],
)
def test_badly_conditioned_graphs_converge_too(support, weights):
    assert_doubly_stochastic_on(support, sinkhorn(support, weights, 3))


@pytest.mark.parametrize("weights", ["uniform", "random"])
def test_a_star_with_50_leaves_converges(weights):
    w = weight_matrix(build_topology("star", 51, 0), weights, 0)
    assert np.abs(w.sum(axis=0) - 1).max() <= 1e-12
    assert np.abs(w.sum(axis=1) - 1).max() <= 1e-12


def test_newton_steps_end_where_plain_alternation_ends():
    support = np.roll(np.eye(30, dtype=bool), 1, axis=0) | np.eye(30, dtype=bool)
    support[4, 20] = support[17, 2] = True
    plain = np.where(support, np.random.default_rng(5).uniform(0.1, 1.0, support.shape), 0.0)
    for _ in range(20_000):
        plain /= plain.sum(axis=0)
        plain /= plain.sum(axis=1)[:, None]
    assert np.allclose(sinkhorn(support, "random", 5), plain, rtol=0, atol=1e-9)


def test_uniform_weights_on_a_full_graph_are_the_average():
    w = weight_matrix(build_topology("full", 7, 0), "uniform", 0)
    assert np.allclose(w, 1 / 7, rtol=0, atol=1e-14)


def test_uniform_weights_ignore_the_seed_and_random_ones_follow_it():
    ring = build_topology("ring", 6, 0)
    uniform = [weight_matrix(ring, "uniform", seed) for seed in (1, 2)]
    random = [weight_matrix(ring, "random", seed) for seed in (1, 1, 2)]
    assert np.array_equal(*uniform)
    assert np.array_equal(random[0], random[1])
    assert not np.allclose(random[0], random[2])


def test_two_separate_rings_are_weighted_each_for_itself():
    block = np.roll(np.eye(5, dtype=bool), 1, axis=0)
    support = np.kron(np.eye(2, dtype=bool), block)
    assert_doubly_stochastic_on(support, sinkhorn(support, "random", 0))


def test_an_edge_with_no_way_back_is_refused_by_name():
    one_way = Topology("one way", 3, ((0, 1), (1, 0), (1, 2)))
    with pytest.raises(WrongUse, match="the edge 1 -> 2 lies on no cycle"):
        weight_matrix(one_way, "uniform", 0)


def test_a_tolerance_out_of_reach_is_an_error_and_not_an_endless_loop():
    # Less than nothing: rounding may well meet a tolerance of zero by luck.
    with pytest.raises(WrongUse, match="after 300 steps, the tolerance is -1"):
        sinkhorn(np.ones((3, 3), dtype=bool), "random", 0, tolerance=-1)


def test_unknown_weights_are_answered_with_the_known_ones():
    with pytest.raises(WrongUse, match="unknown weights metropolis: use uniform or random"):
        sinkhorn(np.ones((2, 2), dtype=bool), "metropolis", 0)


def test_the_spectral_gap_of_an_average_is_1():
    assert spectral_gap(np.full((5, 5), 0.2)) == pytest.approx(1.0)


def test_the_spectral_gap_of_nodes_that_never_mix_is_0():
    assert spectral_gap(np.eye(4)) == 0.0
    assert spectral_gap(np.roll(np.eye(4), 1, axis=0)) == pytest.approx(0.0)


@given(st.integers(3, 40))
@settings(deadline=None, max_examples=20)
def test_the_spectral_gap_of_a_uniform_ring_is_the_known_one(n):
    modes = np.abs(1 + 2 * np.cos(2 * np.pi * np.arange(1, n) / n)) / 3
    w = weight_matrix(build_topology("ring", n, 0), "uniform", 0)
    assert spectral_gap(w) == pytest.approx(1 - modes.max(), abs=1e-9)
