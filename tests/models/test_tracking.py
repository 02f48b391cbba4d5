"""What linear algebra says an attacker learns, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from schedules import make_schedule

from lppa.coordinator.sinkhorn import weight_matrix
from lppa.coordinator.topology import build_topology
from lppa.models.tracking import best_estimate, known_rows, messages


def learned(topology, nodes, attackers, what, rule="lppa", every=0, victim=0, **options):
    """The least deviation in units of β; 0 is exact, None not identifiable."""
    W = weight_matrix(build_topology(topology, nodes, 1), "random", 2)
    given = {"adapt_first": False, "common_start": False, "lam": 0.05, "rounds": 4, **options}
    schedule = make_schedule(W=W, rule=rule, noise_every=every, **given)
    rows = messages(schedule)
    targets = {
        "g0": rows.gradient(victim, 0),
        "difference": rows.gradient(victim, 1) - rows.gradient(victim, 0),
    }
    found = best_estimate(known_rows(schedule, rows, attackers), rows, targets[what])
    return None if found is None else found.deviation * math.sqrt(2)


@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_on_a_full_graph_each_colluder_takes_its_share_of_the_noise_away(nodes):
    for k in range(1, nodes):
        expected = 2 * math.sqrt(nodes - 1 - k)
        assert learned("full", nodes, range(1, k + 1), "g0") == pytest.approx(expected, abs=1e-9)


def test_a_neighbour_on_a_directed_ring_sees_as_much_as_under_dp():
    assert learned("directed-ring", 5, [1], "g0") == pytest.approx(math.sqrt(2))
    assert learned("directed-ring", 5, [1], "g0", rule="dp") == pytest.approx(math.sqrt(2))


def test_one_of_two_clients_sees_all_of_the_other():
    assert learned("full", 2, [1], "g0") == 0


@pytest.mark.parametrize("adapt_first", [False, True])
def test_noise_at_the_start_only_does_not_hide_a_gradient_difference(adapt_first):
    assert learned("full", 5, [1], "difference", adapt_first=adapt_first) == 0
    assert learned("full", 5, [1], "difference", rule="dp", adapt_first=adapt_first) == 0


def test_noise_in_every_round_hides_it():
    assert learned("full", 5, [1], "difference", every=1) == pytest.approx(2 * math.sqrt(3))


def test_on_sparse_graphs_theta_gives_away_what_gamma_does_not():
    assert learned("directed-ring", 3, [1], "difference") == 0
    assert learned("ring", 5, [1], "difference") == 0
    assert learned("directed-ring", 5, [1], "difference") is None
    assert learned("ring", 6, [1], "difference") is None


def test_a_common_start_gives_more_away():
    assert learned("directed-ring", 5, [1], "difference", common_start=True) == 0
    assert learned("ring", 6, [1], "difference", common_start=True) == 0


def test_the_rows_are_those_of_a_run_with_numbers_in_it():
    W = weight_matrix(build_topology("ring", 4, 1), "random", 3)
    schedule = make_schedule(W, "lppa", 2, False, False, 0.1, 3)
    rows = messages(schedule)
    values = np.random.default_rng(0).normal(size=len(rows.columns))
    at = lambda *name: values[rows.columns[name]]  # noqa: E731
    theta = np.array([at("theta", i) for i in range(4)])
    gamma = np.array([at("g", i, 0) for i in range(4)])
    for t in range(4):
        if t % 2 == 0:
            for sender, receiver in schedule.edges():
                gamma[sender] += at("noise", sender, receiver, t)
                gamma[receiver] -= at("noise", sender, receiver, t)
        np.testing.assert_allclose(rows.theta[t] @ values, theta)
        np.testing.assert_allclose(rows.gamma[t] @ values, gamma)
        if t < 3:
            change = np.array([at("g", i, t + 1) - at("g", i, t) for i in range(4)])
            theta, gamma = W @ theta - 0.1 * gamma, W @ gamma + change


def test_the_rows_of_finishing_rounds_are_those_of_a_run_with_numbers_in_it():
    W = weight_matrix(build_topology("ring", 4, 1), "random", 3)
    shorter = {"beta_own": 0.5, "lam_decay": 0.2, "finish": 2}
    schedule = make_schedule(W, "lppa", 1, True, False, 0.1, 2, **shorter)
    rows = messages(schedule)
    values = np.random.default_rng(0).normal(size=len(rows.columns))
    at = lambda *name: values[rows.columns[name]]  # noqa: E731
    theta = np.array([at("theta", i) for i in range(4)])
    g = np.array([at("g", i, 0) for i in range(4)])
    gamma = g.copy()
    for t in range(3):
        for sender, receiver in schedule.edges():
            gamma[sender] += at("noise", sender, receiver, t)
            gamma[receiver] -= at("noise", sender, receiver, t)
        gamma += [at("noise", i, i, t) for i in range(4)]
        np.testing.assert_allclose(rows.theta[t] @ values, theta)
        np.testing.assert_allclose(rows.gamma[t] @ values, gamma)
        lam, gamma = 0.1 / (1 + 0.2 * t), W @ gamma
        theta = W @ theta - lam * gamma
        if t < 2:
            new = np.array([at("g", i, t + 1) for i in range(4)])
            gamma, g = gamma + new - g, new
    for t in (3, 4):
        np.testing.assert_allclose(rows.theta[t] @ values, theta)
        theta = W @ theta
    assert len(rows.theta) == 5
    assert len(rows.gamma) == 3


def test_what_all_neighbours_cannot_take_away_is_own_noise():
    everyone = [1, 2, 3, 4]
    assert learned("full", 5, everyone, "g0") == 0
    assert learned("full", 5, everyone, "g0", beta_own=0.3) == pytest.approx(0.3 * math.sqrt(2))
    expected = math.sqrt(12 + 2 * 0.3**2)
    assert learned("full", 5, [1], "g0", beta_own=0.3) == pytest.approx(expected)


def test_what_is_in_no_message_is_not_counted_as_heard():
    W = weight_matrix(build_topology("ring", 4, 1), "random", 3)
    schedule = make_schedule(W, "lppa", 1, False, False, 0.1, 2, beta_own=0.5)
    heard = known_rows(schedule, messages(schedule), [1], own_gradients=False)
    noise = {name[1:3] for name in heard.names if name[0] == "noise"}
    assert noise == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert not [name for name in heard.names if name[0] == "g"]


@pytest.mark.parametrize("adapt_first", [False, True])
@pytest.mark.parametrize("rule", ["lppa", "dp"])
def test_coefficients_stay_of_a_size_that_numbers_can_bear(rule, adapt_first):
    # Rows that follow from others leave room for any coefficients; rounding must not choose them.
    for common in (False, True):
        for every in (0, 1):
            W = weight_matrix(build_topology("full", 5, 1), "random", 2)
            schedule = make_schedule(W, rule, every, adapt_first, common, 0.05, 3)
            rows = messages(schedule)
            known = known_rows(schedule, rows, [1], own_gradients=False)
            target = rows.gradient(0, 1) - rows.gradient(0, 0)
            found = best_estimate(known, rows, target)
            assert np.abs(found.coefficients).max() < 1e3
            np.testing.assert_allclose(
                (found.coefficients @ known.rows)[~rows.noise_columns],
                target[~rows.noise_columns],
                atol=1e-10,
            )
