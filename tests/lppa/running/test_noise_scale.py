"""How large noise must be and may be: against the audit, and against noise that is drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.auditing.assemble import case_of
from lppa.auditing.document import audit
from lppa.auditing.exposure import exposures
from lppa.coordinator.sinkhorn import weight_matrix
from lppa.coordinator.topology import build_topology
from lppa.models.sizes import Network
from lppa.protocol.settings import make_settings
from lppa.running import noise_scale
from lppa.running.facts import Facts
from lppa.running.known_networks import NETWORKS
from lppa.running.noise_scale import (
    BEARABLE,
    PLAIN,
    WANTED,
    Share,
    choose_beta,
    disagreement,
    enough_noise,
    examples_per_gradient,
    expected_share,
    largest_beta,
    local_steps,
    momentum_gain,
    no_more_than,
    noise_left,
    scale_warnings,
    two_digits,
)
from lppa.running.prepare import choose_noise, make_blueprint


def blueprint(nodes=5, **settings):
    return make_blueprint(make_settings({"seed": 1, **settings}), nodes, "test")


# --- how many share a gradient ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "rows", "examples"),
    [
        ({"batch": 7, "local_steps": 3}, 1000, 21),
        ({"batch": 7, "local_steps": 3}, 21, 21),
        ({"batch": 7, "local_steps": 3}, 20, 10),
        ({"batch": 7, "local_steps": "epoch"}, 1000, 1000),
        ({"batch": 7, "local_steps": 3, "batches": "same"}, 1000, 7),
        ({"batch": 7, "local_steps": "epoch", "batches": "same"}, 1000, 7),
        ({"batch": 7, "local_steps": 3, "batches": "same"}, 5, 5),
    ],
    ids=str,
)
def test_a_gradient_has_its_steps_batches_and_never_more_than_all_rows(settings, rows, examples):
    assert examples_per_gradient(make_settings(settings), rows) == examples


def test_a_share_is_an_examples_gradient_over_how_many_share_it():
    settings = make_settings({"batch": 8, "local_steps": 2})
    assert expected_share(settings, 5) == Share(NETWORKS["digits", "cnn"].example_rms, 16)
    assert expected_share(settings, 5, rows=3).examples == 3
    assert Share(0.5, 20).rms == pytest.approx(0.025)
    # 1,438 rows over five clients, and over more clients than there are rows.
    assert expected_share(make_settings({}), 5).examples == 213
    assert expected_share(make_settings({}), 2000).examples == 1
    assert expected_share(make_settings({"dataset": "quadratic"}), 5) is None


@pytest.mark.parametrize(
    ("settings", "examples"),
    [({}, 640), ({"local_steps": "epoch"}, 64), ({"batch": 1, "local_steps": 1}, 1)],
    ids=str,
)
def test_data_of_ones_own_is_taken_to_have_the_rows_of_the_steps_and_of_a_pass_one(
    settings, examples
):
    own = make_settings({"dataset": "own.npz", **settings})
    assert expected_share(own, 5).examples == examples
    assert expected_share(own, 5, rows=1).examples == 1


# --- how much of the noise is left --------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "nodes"),
    [
        *(("full", 5), ("full", 3), ("ring", 5), ("directed-ring", 5), ("star", 5)),
        *(("grid", 6), ("torus", 9), ("random-regular:4", 8), ("erdos-renyi:0.5", 7)),
        *(("small-world:4", 8), ("exponential", 8)),
    ],
)
@pytest.mark.parametrize("rule", ["lppa", "dp"])
def test_what_is_left_is_what_the_audit_finds_of_the_best_placed_neighbour(topology, nodes, rule):
    run = blueprint(nodes, topology=topology, rule=rule, beta=0.5)
    schedule = case_of(run, 1).schedule()
    found = [e.values["g0"] for a in range(nodes) for e in exposures(schedule, [a])]
    least = min(value for value in found if 0 < value < math.inf)
    assert noise_left(run.topology, rule) == pytest.approx(least)


def test_where_one_neighbour_knows_all_no_beta_hides_and_one_edge_is_counted():
    assert noise_left(blueprint(2).topology, "lppa") == pytest.approx(2.0)


# --- how far noise keeps models apart -----------------------------------------------------------


def simulated(run, rounds, kappa, seed=0):
    """Models that nothing but noise moves, many weights at once: their deviation per weight."""
    rng, settings, W = np.random.default_rng(seed), run.settings, run.W
    weights = 4000
    theta, gamma = np.zeros((2, run.nodes, weights))
    sizes = []
    for t in range(rounds):
        if settings.noisy(t):
            for sender, receiver in run.topology.edges:
                n = rng.laplace(scale=1.0, size=weights)
                gamma[sender] += n
                gamma[receiver] -= n
        mixed = W @ gamma
        adapt = settings.mixing == "adapt-then-combine"
        theta = W @ theta - kappa * (mixed if adapt else gamma)
        gamma = mixed
        sizes.append(float(np.sqrt((theta**2).mean())))
    return sizes


GRAPHS = [("ring", 6), ("directed-ring", 5), ("random-regular:4", 8), ("star", 5)]


@pytest.mark.parametrize("mixing", ["adapt-then-combine", "combine-then-adapt"])
@pytest.mark.parametrize(("topology", "nodes"), GRAPHS)
def test_noise_in_every_round_keeps_models_as_far_apart_as_drawn_noise_does(
    topology, nodes, mixing
):
    run = blueprint(nodes, topology=topology, mixing=mixing, lr=0.05, weights="random")
    sizes = simulated(run, 160, kappa=3 * 0.05)
    expected = disagreement(run.topology, run.W, run.settings, 3)
    assert np.sqrt(np.mean(np.square(sizes[100:]))) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("mixing", ["adapt-then-combine", "combine-then-adapt"])
def test_noise_at_the_start_only_counts_in_its_worst_round(mixing):
    for topology, nodes in GRAPHS:
        run = blueprint(nodes, topology=topology, mixing=mixing, noise_every=0, lr=0.05)
        sizes = simulated(run, 60, kappa=0.05)
        expected = disagreement(run.topology, run.W, run.settings, 1)
        assert max(sizes) == pytest.approx(expected, rel=0.05)


def test_noise_in_some_rounds_is_so_much_less_on_average():
    run = blueprint(6, topology="ring", noise_every=3, lr=0.05)
    sizes = simulated(run, 300, kappa=0.05)
    expected = disagreement(run.topology, run.W, run.settings, 1)
    assert np.sqrt(np.mean(np.square(sizes[99:]))) == pytest.approx(expected, rel=0.05)


@given(st.floats(1e-4, 1.0), st.integers(1, 50))
def test_it_grows_with_the_length_of_a_rounds_step(lr, steps):
    run = blueprint(6, topology="ring")
    one = disagreement(run.topology, run.W, replace(run.settings, lr=1.0), 1)
    found = disagreement(run.topology, run.W, replace(run.settings, lr=lr), steps)
    assert found == pytest.approx(one * lr * steps)


@pytest.mark.parametrize("nodes", [2, 3, 5, 6, 7, 12])
def test_on_a_full_graph_with_equal_weights_noise_is_gone_before_it_is_in_a_model(nodes):
    run = blueprint(nodes)
    assert largest_beta(run.settings, run.topology, run.W) == math.inf
    # The paper's order lets it in first.
    paper = replace(run.settings, mixing="combine-then-adapt")
    assert largest_beta(paper, run.topology, run.W) < math.inf


def test_the_largest_beta_keeps_models_apart_by_a_part_of_the_weights_size():
    run = blueprint(6, topology="ring", local_steps=4)
    beta = largest_beta(run.settings, run.topology, run.W)
    apart = disagreement(run.topology, run.W, run.settings, 4)
    assert beta * apart == pytest.approx(BEARABLE * NETWORKS["digits", "cnn"].weight_rms)
    for other in ({"rule": "dp"}, {"rule": "dsgt"}, {"dataset": "quadratic"}):
        free = blueprint(6, topology="ring", **other)
        assert largest_beta(free.settings, free.topology, free.W) == math.inf


def test_steps_of_a_pass_are_those_of_an_equal_share():
    assert local_steps(make_settings({"local_steps": 7}), 5) == 7
    # 1,438 rows: 287 for each of five, four full batches of 64.
    assert local_steps(make_settings({"local_steps": "epoch"}), 5) == 4
    assert local_steps(make_settings({"local_steps": "epoch", "batch": 2000}), 5) == 1
    assert local_steps(make_settings({"local_steps": "epoch", "dataset": "quadratic"}), 5) == 1


# --- what is chosen -----------------------------------------------------------------------------


PLACES = [("full", 5), ("ring", 5), ("random-regular:4", 8)]


@pytest.mark.parametrize(("topology", "nodes"), PLACES)
@pytest.mark.parametrize(("dataset", "model"), sorted(NETWORKS))
def test_what_is_chosen_hides_every_shipped_network_where_the_graph_allows_it(
    dataset, model, topology, nodes
):
    run = blueprint(nodes, topology=topology, dataset=dataset, model=model)
    share = expected_share(run.settings, nodes)
    needed = enough_noise(share.size, noise_left(run.topology, "lppa"))
    most = largest_beta(run.settings, run.topology, run.W)
    assert run.settings.beta == min(needed, no_more_than(most))
    found = audit(case_of(run, 2), run.topology.out_neighbours(0)[:1], 0)
    if needed <= most:
        assert found["grade"] == "hidden"
        assert found["pairs"][0]["ratio"] == pytest.approx(WANTED, rel=0.06)
    else:
        assert found["pairs"][0]["ratio"] < WANTED
    assert scale_warnings(run) == []


def test_every_shipped_data_set_is_hidden_on_a_full_graph_by_default():
    for dataset in {name for name, _ in NETWORKS}:
        assert audit(case_of(blueprint(dataset=dataset)))["grade"] == "hidden"


@pytest.mark.parametrize("rule", ["dp", "dsgt"])
def test_dp_has_one_draw_and_no_bound(rule):
    run = blueprint(topology="directed-ring", rule=rule)
    share = expected_share(run.settings, 5)
    assert run.settings.beta == two_digits(WANTED * share.rms / math.sqrt(2))


def test_without_examples_it_is_the_papers():
    assert blueprint(dataset="quadratic").settings.beta == PLAIN == 0.025
    assert blueprint(beta=0.7).settings.beta == 0.7


# --- what is warned of --------------------------------------------------------------------------


def test_only_a_beta_above_the_largest_is_warned_of_and_who_follows_is_warned_no_more():
    ring = {"topology": "ring", "nodes": 8, "local_steps": 20}
    most = blueprint(**ring)
    bound = largest_beta(most.settings, most.topology, most.W)
    assert scale_warnings(blueprint(**ring, beta=bound)) == []
    (warning,) = scale_warnings(blueprint(**ring, beta=math.nextafter(bound, 1.0)))
    assert warning.startswith(f"--beta {bound:g} is 1 times what models bear on this graph: ")
    (warning,) = scale_warnings(blueprint(**ring, beta=3.4 * bound))
    assert " is 3.4 times what models bear" in warning
    advised = float(warning.split("use --beta ")[1].split(" or less")[0])
    assert advised <= bound < 1.1 * advised
    assert scale_warnings(blueprint(**ring, beta=advised)) == []
    for quiet in ({"topology": "full"}, {"rule": "dp", "topology": "ring"}):
        assert scale_warnings(blueprint(**quiet, beta=1e9)) == []


@given(st.floats(1e-12, 1e12))
def test_a_bound_is_rounded_down_to_two_digits_and_to_no_less_than_needed(value):
    rounded = no_more_than(value)
    assert rounded <= value < rounded * 1.1000001
    assert two_digits(rounded) == rounded
    assert abs(two_digits(value) / value - 1) < 0.0501


def test_what_has_no_bound_stays_without():
    assert no_more_than(math.inf) == math.inf
    assert no_more_than(0.00999) == 0.0099


def test_the_choice_is_made_from_the_graph_and_not_from_its_name():
    run = blueprint(topology="ring")
    assert choose_beta(replace(run.settings, topology="full"), run.topology, run.W) == (
        run.settings.beta
    )


def test_beta_that_was_chosen_follows_the_smallest_client_and_one_that_was_named_does_not():
    chosen = make_blueprint(make_settings({"dataset": "digits", "seed": 1}), 5, "x")
    few = choose_noise(chosen, Facts((300, 20)))
    # Ten passes over twenty rows: each gradient is shared by twenty, and not by two hundred.
    assert examples_per_gradient(chosen.settings, 20) == 20
    assert few.settings.beta > chosen.settings.beta
    named = make_blueprint(make_settings({"dataset": "digits", "beta": 0.01, "seed": 1}), 5, "x")
    assert choose_noise(named, Facts((300, 20))).settings == named.settings


def test_momentum_makes_an_example_count_more():
    plain, fast = (make_settings({"momentum": m, "local_steps": 10}) for m in (0.0, 0.9))
    gain = sum(0.9**k for k in range(10))
    assert momentum_gain(plain, 300) == 1.0
    assert momentum_gain(fast, 300) == pytest.approx(gain)
    assert momentum_gain(make_settings({"momentum": 0.9, "local_steps": 1}), 300) == 1.0
    assert expected_share(fast, 5).rms == pytest.approx(gain * expected_share(plain, 5).rms)


def test_a_network_that_was_measured_takes_the_place_of_the_table():
    settings = make_settings({"dataset": "own/mine", "model": "own"})
    assert expected_share(settings, 5) is None
    measured = Network(100, 1000, 0.5, 0.1)
    share = expected_share(settings, 5, 200, measured)
    assert share.example_rms == 0.5
    run = make_blueprint(make_settings({"dataset": "own/mine", "model": "own", "seed": 1}), 5, "x")
    chosen = choose_noise(run, Facts((200,) * 5, network=measured))
    assert chosen.network is measured
    assert chosen.settings.beta != run.settings.beta


@pytest.mark.parametrize("weights", ["uniform", "random"])
@pytest.mark.parametrize("name", ["ring", "random-regular:4", "directed-ring", "full"])
@pytest.mark.parametrize("first", [0, 1])
def test_what_is_left_of_noise_is_the_same_however_it_is_multiplied(
    monkeypatch, name, weights, first
):
    topology = build_topology(name, 12, 1)
    W = weight_matrix(topology, weights, 1)
    draws = np.zeros((12, len(topology.edges)))
    for k, (sender, receiver) in enumerate(topology.edges):
        draws[sender, k], draws[receiver, k] = 1.0, -1.0
    plainly = list(islice(noise_scale.left_of(draws, W, first), 20))
    monkeypatch.setattr(noise_scale, "LARGE", 4)
    assert list(islice(noise_scale.left_of(draws, W, first), 20)) == pytest.approx(
        plainly, rel=1e-9, abs=1e-12
    )
