"""D-SGD with noise in θ as linear algebra: against runs with numbers, closed forms, and densely."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dense_way import assert_both_ways_agree
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import make_schedule

from lppa.coordinator.sinkhorn import sinkhorn, weight_matrix
from lppa.coordinator.topology import build_topology
from lppa.models.leakage import deviations, view
from lppa.models.schedule import gradient_name, noise_in_every_round
from lppa.models.tracking import known_rows, messages

LAM = 0.3


def schedule_of(topology, nodes, weights="random", **options):
    W = weight_matrix(build_topology(topology, nodes, 1), weights, 2)
    given = {"rule": "dsgd", "noise_every": 1, "adapt_first": True, "common_start": False}
    return make_schedule(W=W, **{**given, "lam": LAM, "rounds": 4, **options})


def learned(schedule, attackers, t, victim=0):
    """The least deviation of g^t in units of β."""
    terms = [(1.0, gradient_name(victim, t))]
    return deviations(view(schedule, attackers), [terms])[0] * math.sqrt(2)


# --- the rows -----------------------------------------------------------------------------------


def simulated(schedule, at, training, finish):
    """Every θ̃ that is sent, as the algorithm says it, with numbers for all that is drawn."""
    n, sent = schedule.nodes, []

    def noise(t):
        found = np.zeros(n)
        if schedule.noisy(t):
            for sender, receiver in schedule.edges():
                if schedule.beta_noise:
                    found[sender] += at("noise", sender, receiver, t)
                    found[receiver] -= at("noise", sender, receiver, t)
            if schedule.beta_own:
                found += [at("noise", i, i, t) for i in range(n)]
        return found

    theta = np.array([at("theta", 0 if schedule.common_start else i) for i in range(n)])
    for t in range(training):
        sent.append(theta + noise(t))
        gradients = np.array([at("g", i, t) for i in range(n)])
        theta = schedule.W @ sent[-1] - schedule.step(t) * gradients
    for t in range(training, training + finish):
        sent.append(theta + noise(t) if t == training else theta)
        theta = schedule.W @ sent[-1]
    return sent


@pytest.mark.parametrize("common_start", [True, False])
@pytest.mark.parametrize("finish", [0, 1, 3])
@pytest.mark.parametrize("every", [0, 1, 2, 3])
@pytest.mark.parametrize(("own", "beta_noise"), [(0.0, True), (0.5, True), (1.0, False)])
def test_the_rows_are_those_of_a_run_with_numbers_in_it(
    common_start, finish, every, own, beta_noise
):
    schedule = schedule_of(
        *("ring", 4),
        **{"noise_every": every, "common_start": common_start, "finish": finish, "rounds": 3},
        **{"beta_own": own, "beta_noise": beta_noise, "lam_decay": 0.2},
    )
    rows = messages(schedule)
    values = np.random.default_rng(0).normal(size=len(rows.columns))
    sent = simulated(schedule, lambda *name: values[rows.columns[name]], 4, finish)
    assert len(rows.theta) == len(sent) == 4 + finish
    assert len(rows.gamma) == 0
    np.testing.assert_allclose(rows.theta @ values, sent)
    # All noise that is counted is in some message, and each draw has its own deviation.
    noise = rows.noise_columns
    assert rows.theta[:, :, noise].any(axis=(0, 1)).all()
    own_noise = [name[1] == name[2] for name in rows.columns if name[0] == "noise"]
    assert rows.deviations[noise].tolist() == [own if mine else 1.0 for mine in own_noise]


def test_a_gradient_is_in_the_message_after_its_round_and_the_last_in_the_first_that_finishes():
    schedule = schedule_of("full", 3, rounds=2)
    for finish, told in ((0, [0, 1]), (1, [0, 1, 2]), (4, [0, 1, 2])):
        ended = replace(schedule, finish=finish)
        rows = messages(ended)
        found = [
            next((t for t in range(3 + finish) if rows.theta[t, 0, rows.columns["g", 0, k]]), None)
            for k in range(3)
        ]
        assert found == [k + 1 if k in told else None for k in range(3)]
        assert list(ended.update.gradients(ended)) == told
        assert list(ended.update.bring_gradients(ended)) == [k + 1 for k in told]


def test_what_attackers_know_has_no_gamma_in_it():
    schedule = schedule_of("ring", 5, finish=2)
    rows = messages(schedule)
    known = known_rows(schedule, rows, [1])
    assert {name[0] for name in known.names} == {"theta", "g", "noise"}
    heard = {name[1:] for name in known.names if name[0] == "theta"}
    assert heard == {(i, t) for i in (0, 1, 2) for t in range(7)}
    bare = known_rows(schedule, rows, [1], own_gradients=False)
    assert {name[0] for name in bare.names} == {"theta", "noise"}


def test_noise_is_in_every_round_if_it_is_on_all_messages_that_bring_a_gradient():
    assert noise_in_every_round(schedule_of("full", 3))
    assert noise_in_every_round(schedule_of("full", 3, noise_every=1, finish=3))
    assert not noise_in_every_round(schedule_of("full", 3, noise_every=0))
    assert not noise_in_every_round(schedule_of("full", 3, noise_every=2))
    assert not noise_in_every_round(schedule_of("full", 3, beta_noise=False))
    # The first message brings none, the second only if there is one.
    assert noise_in_every_round(schedule_of("full", 3, noise_every=0, rounds=0))
    assert not noise_in_every_round(schedule_of("full", 3, noise_every=0, rounds=0, finish=1))


# --- closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["uniform", "random"])
@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
def test_on_a_full_graph_each_colluder_takes_its_share_and_the_step_divides_the_rest(
    nodes, weights
):
    # θ̃_v^{t+1} is all known but for step·g and the draws on edges between honest nodes.
    schedule = schedule_of("full", nodes, weights, lam_decay=0.5)
    for k in range(1, nodes):
        for t in range(4):
            expected = 2 * math.sqrt(nodes - 1 - k) / (LAM / (1 + 0.5 * t))
            found = learned(schedule, range(1, k + 1), t)
            assert found == pytest.approx(expected, abs=1e-12)
            assert (found == 0) == (k == nodes - 1)


@pytest.mark.parametrize("lam", [1e-4, 0.02, 3.0])
def test_noise_on_a_gradient_is_that_in_theta_over_the_step(lam):
    found = learned(schedule_of("full", 5, lam=lam), [1], 0)
    assert found == pytest.approx(2 * math.sqrt(3) / lam)


def test_start_only_noise_hides_no_gradient_from_who_hears_all_inputs():
    for common in (False, True):
        schedule = schedule_of("full", 5, noise_every=0, common_start=common)
        assert [learned(schedule, [1], t) for t in range(4)] == [0, 0, 0, 0]


def test_noise_every_two_rounds_hides_every_second_gradient():
    # Rounds 2 and 4 have noise: they bring g¹ and g³.
    found = [learned(schedule_of("full", 5, noise_every=2), [1], t) for t in range(4)]
    hidden = 2 * math.sqrt(3) / LAM
    assert found == pytest.approx([0, hidden, 0, hidden])


def test_the_last_gradient_is_sent_by_finishing_rounds_only_and_with_noise_if_it_is_due():
    for every, expected in ((0, 0.0), (1, 2 * math.sqrt(3) / LAM), (5, 2 * math.sqrt(3) / LAM)):
        schedule = schedule_of("full", 5, noise_every=every)
        assert learned(schedule, [1], 4) == math.inf
        for finish in (1, 3):
            found = learned(replace(schedule, finish=finish), [1], 4)
            assert found == pytest.approx(expected)


def test_successive_gradients_have_independent_noise():
    schedule = schedule_of("full", 5)
    one = 2 * math.sqrt(3) / LAM
    mean = [(0.25, gradient_name(0, t)) for t in range(4)]
    change = [(1.0, gradient_name(0, 1)), (-1.0, gradient_name(0, 0))]
    found = deviations(view(schedule, [1]), [mean, change]) * math.sqrt(2)
    assert found == pytest.approx([one / 2, one * math.sqrt(2)])


def test_on_a_ring_who_does_not_hear_an_input_waits_a_round_for_it():
    # Node 1 hears 0 and 2. Of node 0's inputs it does not hear the other neighbour, whose θ is in
    # the next θ of node 0 with node 0's next gradient: these two cannot be told apart.
    ring = schedule_of("ring", 5, "uniform")
    assert learned(ring, [1], 1) == math.inf
    # On a ring of three all inputs are heard; of the two edges of node 0 one is unknown, two draws.
    small = schedule_of("ring", 3, "uniform")
    assert learned(small, [1], 0) == pytest.approx(2.0 / LAM)
    # On a directed ring it hears node 0 and not node 4, node 0's only input.
    directed = schedule_of("directed-ring", 5, "uniform")
    assert learned(directed, [1], 1) == math.inf
    assert learned(directed, [1, 4], 1) == 0
    assert learned(directed, [1, 4], 0) == 0


def test_a_common_start_is_as_good_as_hearing_all_inputs_once_only_without_noise():
    # All first models are known: what node 4 sends first is, too, unless there is noise on it.
    ring = schedule_of("directed-ring", 5, "uniform", common_start=True)
    quiet = replace(ring, beta_noise=False)
    assert learned(quiet, [1], 0) == 0
    assert learned(quiet, [1], 1) == math.inf
    # With noise g⁰ of node 0 comes with one unknown draw of its own, δ_40 of round 1, and with w
    # times node 4's first noise δ_40 − δ_34, where δ_40 follows from what node 0 sent first.
    w = float(ring.W[0, 4])
    assert learned(ring, [1], 0) == pytest.approx(math.sqrt(2 * (1 + w**2)) / LAM)


def test_what_all_neighbours_cannot_take_away_is_own_noise():
    everyone = [1, 2, 3, 4]
    own = schedule_of("full", 5, beta_own=0.3)
    assert learned(own, everyone, 0) == pytest.approx(0.3 * math.sqrt(2) / LAM)
    assert learned(own, [1], 0) == pytest.approx(math.sqrt(12 + 2 * 0.3**2) / LAM)
    alone = schedule_of("full", 5, beta_own=1.0, beta_noise=False)
    assert learned(alone, [1], 0) == pytest.approx(math.sqrt(2) / LAM)


# --- the quick way and the dense way ------------------------------------------------------------


@st.composite
def cases(draw):
    """A random strongly connected digraph with random weights, any schedule, some attackers."""
    nodes = draw(st.integers(4, 7))
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    support = rng.random((nodes, nodes)) < draw(st.sampled_from([0.0, 0.15, 0.4]))
    order = rng.permutation(nodes)
    support[order, np.roll(order, 1)] = True  # a cycle through all nodes
    beta_noise = draw(st.sampled_from([True, True, True, False]))
    schedule = make_schedule(
        W=sinkhorn(support, draw(st.sampled_from(["uniform", "random"])), seed),
        rule="dsgd",
        noise_every=draw(st.sampled_from([0, 1, 2, 3])),
        adapt_first=draw(st.booleans()),
        common_start=draw(st.booleans()),
        lam=draw(st.sampled_from([0.01, 0.3, 2.0])),
        rounds=draw(st.integers(1, 4)),
        beta_own=draw(st.sampled_from([0.0, 0.3])) if beta_noise else 1.0,
        lam_decay=draw(st.sampled_from([0.0, 0.1, 2.0])),
        finish=draw(st.sampled_from([0, 0, 1, 3])),
        beta_noise=beta_noise,
    )
    attackers = draw(st.sets(st.integers(0, nodes - 1), min_size=1, max_size=3))
    return schedule, sorted(attackers)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(cases())
def test_the_quick_way_and_the_dense_way_agree_on_random_graphs(case):
    schedule, attackers = case
    victims = [v for v in range(schedule.nodes) if v not in attackers][:3]
    last = schedule.rounds
    wanted = [[(1.0, gradient_name(v, t))] for v in victims for t in range(last + 1)]
    wanted += [[(1.0, gradient_name(v, 1)), (-1.0, gradient_name(v, 0))] for v in victims]
    wanted += [[(0.5, gradient_name(v, t)) for t in range(last)] for v in victims]
    assert_both_ways_agree(schedule, attackers, wanted, atol=1e-8)
