"""How large noise in θ must be and may be, under dsgd: against the audit, and drawn noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lppa.auditing.assemble import case_of
from lppa.auditing.document import audit
from lppa.auditing.exposure import exposures
from lppa.protocol.settings import make_settings
from lppa.running.facts import Facts
from lppa.running.known_networks import NETWORKS
from lppa.running.noise_scale import (
    BEARABLE,
    BEARABLE_ONCE,
    PLAIN,
    WANTED,
    disagreement,
    enough_noise,
    expected_share,
    gradient_weight,
    largest_beta,
    no_more_than,
    noise_left,
    scale_warnings,
    step_length,
    told_again,
)
from lppa.running.prepare import choose_noise, make_blueprint


def blueprint(nodes=5, **settings):
    return make_blueprint(make_settings({"seed": 1, "rule": "dsgd", **settings}), nodes, "test")


GRAPHS = [("ring", 6), ("directed-ring", 5), ("random-regular:4", 8), ("star", 5)]
MIXINGS = pytest.mark.parametrize("mixing", ["adapt-then-combine", "combine-then-adapt"])


def simulated(run, rounds, weights=4000):
    """Models that nothing but noise moves: their deviation where gradients are taken, by round."""
    rng, theta, sizes = np.random.default_rng(0), np.zeros((run.nodes, weights)), []
    for t in range(rounds):
        if run.settings.noisy(t):
            for sender, receiver in run.topology.edges:
                n = rng.laplace(scale=1.0, size=weights)
                theta[sender] += n
                theta[receiver] -= n
        mixed = run.W @ theta
        point = mixed if run.settings.mixing == "adapt-then-combine" else theta
        sizes.append(float(np.sqrt((point**2).mean())))
        theta = mixed
    return sizes


@MIXINGS
@pytest.mark.parametrize(("topology", "nodes"), GRAPHS)
def test_noise_keeps_models_as_far_apart_as_drawn_noise_does_whatever_the_step(
    topology, nodes, mixing
):
    run = blueprint(nodes, topology=topology, mixing=mixing, weights="random")
    found = disagreement(run.topology, run.W, run.settings, 7)
    assert np.sqrt(np.mean(np.square(simulated(run, 160)[60:]))) == pytest.approx(found, rel=0.05)
    longer = replace(run.settings, lr=5.0)
    assert disagreement(run.topology, run.W, longer, 1) == found
    # Now and then: so much less on average; once: the worst round.
    third = replace(run.settings, noise_every=3)
    assert disagreement(run.topology, run.W, third, 1) == pytest.approx(found / math.sqrt(3))
    once = blueprint(nodes, topology=topology, mixing=mixing, noise_every=0)
    worst = disagreement(once.topology, once.W, once.settings, 1)
    assert max(simulated(once, 30)) == pytest.approx(worst, rel=0.05)


def test_on_a_full_graph_noise_is_gone_before_a_gradient_is_taken_if_models_are_mixed_first():
    run = blueprint(6)
    assert largest_beta(run.settings, run.topology, run.W) == math.inf
    first = replace(run.settings, mixing="combine-then-adapt")
    # Ten draws on each node, five sent and five received.
    assert disagreement(run.topology, run.W, first, 1) == pytest.approx(math.sqrt(2 * 10))


def test_what_models_bear_is_a_part_of_the_size_of_their_weights():
    for every, bearable in ((1, BEARABLE), (4, BEARABLE), (0, BEARABLE_ONCE)):
        run = blueprint(6, topology="ring", noise_every=every)
        beta = largest_beta(run.settings, run.topology, run.W)
        apart = disagreement(run.topology, run.W, run.settings, 1)
        assert beta * apart == pytest.approx(bearable * NETWORKS["digits", "cnn"].weight_rms)
    free = blueprint(6, topology="ring", dataset="quadratic")
    assert largest_beta(free.settings, free.topology, free.W) == math.inf


@pytest.mark.parametrize("topology", ["full", "ring", "directed-ring", "star", "exponential"])
def test_the_least_noise_on_a_step_is_what_the_audit_finds_of_a_neighbour_or_less(topology):
    run = blueprint(6, topology=topology, beta=0.5)
    schedule = case_of(run, 3).schedule()
    # What neighbours are left with; of a client that is not heard, its own noise counts alone.
    found = [
        e.least
        for sender, receiver in schedule.edges()
        for e in exposures(schedule, [receiver], [sender])
        if e.least > 0
    ]
    left = noise_left(run.topology, "dsgd")
    assert left == noise_left(run.topology, "lppa")
    assert left / step_length(run.settings, 6) <= min(found) + 1e-9
    if topology == "full":
        assert left / step_length(run.settings, 6) == pytest.approx(min(found))


PLACES = [("full", 5), ("ring", 5), ("random-regular:4", 8)]


@pytest.mark.parametrize(("topology", "nodes"), PLACES)
@pytest.mark.parametrize(("dataset", "model"), sorted(NETWORKS))
def test_what_is_chosen_hides_every_shipped_network_where_the_graph_allows_it(
    dataset, model, topology, nodes
):
    run = blueprint(nodes, topology=topology, dataset=dataset, model=model)
    share = expected_share(run.settings, nodes)
    times = told_again(run.settings) if share.always else 1.0
    needed = enough_noise(0.3 * times * share.size, noise_left(run.topology, "dsgd"))
    most = largest_beta(run.settings, run.topology, run.W)
    assert run.settings.beta == min(needed, no_more_than(most))
    found = audit(case_of(run, 2), run.topology.out_neighbours(0)[:1], 0)
    if needed <= most:
        assert found["grade"] == "hidden"
        assert found["pairs"][0]["ratio"] >= 0.94 * WANTED
    assert scale_warnings(run) == []


def test_with_a_longer_step_more_is_needed_and_more_local_steps_cost_nothing():
    one, longer = (blueprint(batch=4, local_steps=2, lr=lr).settings.beta for lr in (0.01, 0.1))
    assert longer == pytest.approx(10 * one, rel=0.1)
    few, many = (blueprint(batch=4, local_steps=k, lr=0.01).settings.beta for k in (1, 16))
    assert few == pytest.approx(many, rel=0.1)


def test_the_length_of_a_step_is_all_local_steps_of_the_first_round():
    run = blueprint(local_steps=7, lr=0.02, lr_decay=3.0)
    assert gradient_weight(run.settings, 5) == step_length(run.settings, 5) == pytest.approx(0.14)
    assert gradient_weight(replace(run.settings, rule="lppa"), 5) == 1.0
    # 287 rows each, four batches of 64; of data of one's own only its examples tell.
    assert step_length(make_settings({"local_steps": "epoch", "lr": 1.0}), 5, 9999) == 4
    own = make_settings({"local_steps": "epoch", "lr": 1.0, "dataset": "own.npz"})
    assert [step_length(own, 5, k) for k in (None, 1, 640)] == [1, 1, 10]
    quadratic = make_settings({"local_steps": "epoch", "lr": 1.0, "dataset": "quadratic"})
    assert step_length(quadratic, 5, 640) == 1


def test_beta_follows_the_smallest_client():
    run = make_blueprint(make_settings({"rule": "dsgd", "seed": 1}), 5, "x")
    assert choose_noise(run, Facts((20,))).settings.beta > run.settings.beta
    # A pass over data of one's own: twice the rows are twice the steps, and half a share.
    own = {"dataset": "own.npz", "local_steps": "epoch", "batch": 10}
    few, many = (choose_noise(blueprint(**own), Facts((rows,))).settings.beta for rows in (50, 100))
    assert few == many


def test_without_examples_it_is_the_papers():
    assert blueprint(dataset="quadratic").settings.beta == PLAIN


def test_only_a_beta_above_the_largest_is_warned_of_and_steps_are_not_blamed():
    ring = {"topology": "ring", "nodes": 8}
    run = blueprint(**ring)
    bound = largest_beta(run.settings, run.topology, run.W)
    assert scale_warnings(blueprint(**ring, beta=bound)) == []
    (warning,) = scale_warnings(blueprint(**ring, beta=2.5 * bound))
    assert " is 2.5 times what models bear" in warning
    assert "--local-steps" not in warning
    advised = float(warning.split("use --beta ")[1].split(" or less")[0])
    assert scale_warnings(blueprint(**ring, beta=advised)) == []
    assert warning.endswith(" or less, or a denser --topology")
