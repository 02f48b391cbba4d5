"""Observations under dsgd, on runs that are made here number by number, against the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from schedules import make_schedule

from lppa.attack.knowledge import Knowledge
from lppa.attack.observation import OBSERVATIONS
from lppa.coordinator.sinkhorn import weight_matrix
from lppa.coordinator.topology import build_topology
from lppa.models.tracking import messages
from lppa.protocol.errors import WrongUse
from lppa.protocol.messages import Plan
from lppa.protocol.settings import make_settings

SIZE, VICTIM, BETA, LR, STEPS = 4000, 0, 0.05, 0.1, 3
BASE = {"rule": "dsgd", "dataset": "quadratic", "dtype": "float64", "beta": BETA, "lr": LR}
BASE |= {"local_steps": STEPS, "rounds": 5, "init": "independent", "weights": "random"}


class Run:
    """A run as the algorithm says it; gradients are A θ + b with a diagonal A of their own."""

    def __init__(self, nodes=5, **settings):
        self.settings = make_settings({**BASE, **settings})
        self.topology = build_topology(self.settings.topology, nodes, 1)
        self.W = weight_matrix(self.topology, self.settings.weights, 2)
        self.nodes, rng = nodes, np.random.default_rng(3)
        self.curvature = rng.uniform(0.5, 2.0, (nodes, SIZE))
        self.slope = rng.normal(size=(nodes, SIZE))
        start = rng.normal(size=(nodes, SIZE))
        theta = np.repeat(start[:1], nodes, 0) if self.settings.init == "common" else start
        self.draws, self.sent, self.g, self.points = {}, [], [], []
        total, T = self.settings.total, self.settings.rounds
        for t in range(total):
            if self.settings.noisy(t) and t <= T:
                theta = theta + self.noise(t, rng)
            self.sent.append(theta)
            mixed = self.W @ theta
            theta = mixed
            if t < T:
                after = self.settings.mixing == "adapt-then-combine"
                self.points.append(mixed if after else self.sent[-1])
                self.g.append(self.curvature * self.points[-1] + self.slope)
                theta = mixed - STEPS * self.settings.step(t) * self.g[-1]

    def noise(self, t, rng):
        found = np.zeros((self.nodes, SIZE))
        for sender, receiver in self.topology.edges:
            self.draws[sender, receiver, t] = n = rng.laplace(scale=self.settings.beta, size=SIZE)
            found[sender] += n
            found[receiver] -= n
        if self.settings.beta_own:
            found += rng.laplace(scale=self.settings.beta_own, size=found.shape)
        return found

    def known(self, attackers=(1,), with_w=True):
        """What these attackers have in their logs."""
        plan = Plan("x", self.nodes, self.settings.to_dict(), 0, {}, "", "")
        known = Knowledge(plan, set(attackers), STEPS, self.W if with_w else None)
        heard = {j for a in attackers for j in np.flatnonzero(self.W[a]).tolist()}
        for t, theta in enumerate(self.sent):
            for j in heard:
                known.states[j, t] = {"theta": torch.from_numpy(theta[j])}
        for (sender, receiver, t), n in self.draws.items():
            if {sender, receiver} & set(attackers):
                known.noise[sender, receiver, t] = torch.from_numpy(n)
        return known


def check(run, target, t, sigma):
    """The target is the gradient at its point, with noise of that deviation and no other."""
    (term,) = target.terms
    assert (term.coefficient, term.batch) == (1.0, 0)
    assert target.sigma == pytest.approx(sigma, abs=1e-12)
    error = target.vector.numpy() - run.g[t][VICTIM]
    if sigma == 0:
        assert np.abs(error).max() < 1e-9
    else:
        assert error.std() == pytest.approx(sigma, rel=0.06)
        assert abs(error.mean()) < 5 * sigma / math.sqrt(SIZE)


MIXINGS = pytest.mark.parametrize("mixing", ["adapt-then-combine", "combine-then-adapt"])


@MIXINGS
def test_difference_is_exact_against_noise_at_the_start_in_every_round_with_a_gradient(mixing):
    run = Run(mixing=mixing, noise_every=0, lr_decay=0.3)
    for t in range(4):
        target = OBSERVATIONS["difference"](run.known(), VICTIM, t)
        check(run, target, t, 0.0)
        np.testing.assert_allclose(target.terms[0].theta, run.points[t][VICTIM], atol=1e-12)


@MIXINGS
@pytest.mark.parametrize(
    ("settings", "attackers", "draws"),
    [
        ({}, (1,), 6),
        ({}, (1, 2), 4),
        ({}, (1, 2, 3, 4), 0),
        ({"beta_own": 2 * BETA}, (1,), 6 + 4),
        ({"beta_own": 2 * BETA}, (1, 2, 3, 4), 4),
        ({"topology": "ring"}, (1, 4), 0),
        ({"topology": "ring", "nodes": 3}, (1,), 2),
    ],
    ids=str,
)
def test_difference_has_the_noise_that_nobody_knows_over_the_step(
    settings, attackers, draws, mixing
):
    run = Run(mixing=mixing, noise_every=1, lr_decay=0.5, **settings)
    for t in (0, 2):
        step = STEPS * LR / (1 + 0.5 * t)
        target = OBSERVATIONS["difference"](run.known(attackers), VICTIM, t)
        check(run, target, t, BETA * math.sqrt(2 * draws) / step)


def test_the_last_gradient_is_told_by_the_first_round_that_finishes():
    for every, draws in ((0, 0), (1, 6), (2, 0), (5, 6)):
        run = Run(noise_every=every, finish=3)
        sigma = BETA * math.sqrt(2 * draws) / (STEPS * LR)
        for name in ("difference", "two-hop"):
            check(run, OBSERVATIONS[name](run.known(), VICTIM, 4), 4, sigma)
        with pytest.raises(WrongUse, match="no gradient in round 5: the last is that of round 4"):
            OBSERVATIONS["difference"](run.known(), VICTIM, 5)
    with pytest.raises(WrongUse, match="heard nothing from node 0 in round 5"):
        OBSERVATIONS["difference"](Run().known(), VICTIM, 4)


def test_difference_needs_all_inputs_and_w():
    ring = Run(topology="ring")
    with pytest.raises(WrongUse, match="heard nothing from node 4"):
        OBSERVATIONS["difference"](ring.known(), VICTIM, 0)
    with pytest.raises(WrongUse, match="a row of W cannot be told"):
        OBSERVATIONS["difference"](Run().known(with_w=False), VICTIM, 0)
    with pytest.raises(WrongUse, match="`two-hop` needs W"):
        OBSERVATIONS["two-hop"](Run().known(with_w=False), VICTIM, 0)


@MIXINGS
def test_two_hop_is_as_good_as_difference_where_all_inputs_are_heard(mixing):
    run = Run(mixing=mixing, noise_every=1, beta_own=0.3 * BETA)
    known = run.known()
    for t in (0, 1):
        target = OBSERVATIONS["two-hop"](known, VICTIM, t)
        check(run, target, t, OBSERVATIONS["difference"](known, VICTIM, t).sigma)
        np.testing.assert_allclose(target.terms[0].theta, run.points[t][VICTIM], atol=1e-9)


@MIXINGS
def test_two_hop_solves_for_an_input_that_it_does_not_hear(mixing):
    # After a common start what node 4 sends first is known but for one draw of its noise.
    run = Run(topology="directed-ring", init="common", mixing=mixing, noise_every=1)
    known = run.known()
    w = run.W[0, 4]
    target = OBSERVATIONS["two-hop"](known, VICTIM, 0)
    check(run, target, 0, BETA * math.sqrt(2 * (1 + w**2)) / (STEPS * LR))
    error = target.terms[0].theta.numpy() - run.points[0][VICTIM]
    expected = BETA * math.sqrt(2) * w if mixing == "adapt-then-combine" else 0.0
    assert error.std() == pytest.approx(expected, rel=0.06, abs=1e-9)
    with pytest.raises(WrongUse, match="does not determine the gradient of node 0"):
        OBSERVATIONS["two-hop"](known, VICTIM, 1)


@pytest.mark.parametrize("mixing", ["adapt-then-combine", "combine-then-adapt"])
def test_naive_is_right_after_a_common_start_without_noise_and_far_off_otherwise(mixing):
    quiet = Run(init="common", beta=0.0, mixing=mixing)
    check(quiet, OBSERVATIONS["naive"](quiet.known(), VICTIM, 0), 0, 0.0)
    noisy = Run(mixing=mixing)
    target = OBSERVATIONS["naive"](noisy.known(), VICTIM, 0)
    assert target.sigma == 0
    assert np.abs(target.vector.numpy() - noisy.g[0][VICTIM]).mean() > 1


@pytest.mark.parametrize(
    "settings",
    [{"noise_every": 1}, {"noise_every": 2, "beta_own": 0.02}, {"noise_every": 0}],
    ids=str,
)
def test_naive_ignores_all_noise_of_both_rounds_as_it_was_mixed(settings):
    run = Run(topology="ring", lr_decay=0.5, **settings)
    every, own = settings["noise_every"], settings.get("beta_own", 0.0) / BETA
    rows = messages(make_schedule(run.W, "dsgd", every, True, False, 1.0, 4, own))
    for t in range(4):
        step = STEPS * LR / (1 + 0.5 * t)
        both = (rows.theta[t, VICTIM] - rows.theta[t + 1, VICTIM]) * rows.deviations
        expected = np.linalg.norm(both) * math.sqrt(2) * BETA / step
        assert OBSERVATIONS["naive"](run.known(), VICTIM, t).ignored == pytest.approx(expected)
    assert math.isnan(OBSERVATIONS["naive"](run.known(with_w=False), VICTIM, 1).ignored)


def test_what_is_on_gamma_is_refused_in_one_sentence():
    with pytest.raises(WrongUse, match="`neighbour` attacks γ, and dsgd sends none"):
        OBSERVATIONS["neighbour"](Run().known(), VICTIM, 0)
    with pytest.raises(WrongUse, match="node 0 sent no gamma in round 0"):
        Run().known().vector(VICTIM, 0, "gamma")
    with pytest.raises(WrongUse, match="heard nothing from node 3 in round 0"):
        Run(topology="ring").known().vector(3, 0, "theta")
