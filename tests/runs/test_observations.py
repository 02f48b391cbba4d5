"""What an attacker in a real run makes of its log, against the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from schedules import make_schedule

from lppa.attack.knowledge import read_knowledge
from lppa.attack.observation import OBSERVATIONS
from lppa.models.quadratic import quadratic
from lppa.models.tracking import messages
from lppa.node.log import log_path, read_log
from lppa.protocol.errors import WrongUse
from lppa.protocol.messages import Noise, Plan, State
from lppa.protocol.seeds import derive

BASE = {
    "dataset": "quadratic",
    "rounds": 5,
    "local_steps": 1,
    "init": "independent",
    "weights": "random",
    "beta": 0.5,
    "noise_every": 0,
    "noise_exchange": "tensor",
    "dtype": "float64",
    "seed": 1,
}


def spied(local_run, attackers=(1,), with_w=True, **settings):
    """A run with attackers, what they know, and the victim's true gradient at any θ."""
    run = local_run(attackers=attackers, **{**BASE, **settings})
    assert run.summary["status"] == "completed", run.summary
    W = run.blueprint.W if with_w else None
    known = read_knowledge([log_path(run.folder, a) for a in attackers], W)
    problem = quadratic(
        run.blueprint.nodes, derive(run.blueprint.run_seed, "problem"), shared=False
    )
    return known, lambda theta: problem.gradient(0, theta)


def truth(target, gradient):
    return sum(term.coefficient * gradient(term.theta) for term in target.terms)


def relative_error(target, gradient):
    true = truth(target, gradient)
    return float((target.vector - true).norm() / true.norm())


def test_a_log_has_the_plan_the_noise_and_every_state_once(local_run):
    run = local_run(attackers=(2,), **BASE)
    entries = list(read_log(log_path(run.folder, 2)))
    assert isinstance(entries[0].message, Plan)
    states = [(e.direction, e.peer, e.message.round) for e in entries if type(e.message) is State]
    assert sorted(r for d, _, r in states if d == "out") == list(range(5))
    assert sorted((p, r) for d, p, r in states if d == "in") == [
        (p, r) for p in (0, 1, 3, 4) for r in range(5)
    ]
    noise = [(e.direction, e.peer) for e in entries if type(e.message) is Noise]
    assert sorted(noise) == [(d, p) for d in ("in", "out") for p in (0, 1, 3, 4)]
    assert not log_path(run.folder, 0).exists()


def test_recording_changes_no_bit(local_run):
    plain, spied_on = (local_run(attackers=a, **BASE) for a in ((), (1, 2)))
    assert torch.equal(plain.final("theta"), spied_on.final("theta"))


def test_a_log_that_was_cut_off_is_read_up_to_there(local_run, tmp_path):
    run = local_run(attackers=(2,), **BASE)
    whole = log_path(run.folder, 2).read_bytes()
    cut = tmp_path / "node-2.log"
    cut.write_bytes(whole[:-10])
    assert len(list(read_log(cut))) == len(list(read_log(log_path(run.folder, 2)))) - 1


def test_naive_is_the_gradient_without_noise_and_far_from_it_with(local_run):
    known, gradient = spied(local_run, rule="dsgt")
    assert relative_error(OBSERVATIONS["naive"](known, 0, 0), gradient) < 1e-12
    known, gradient = spied(local_run, rule="lppa")
    assert relative_error(OBSERVATIONS["naive"](known, 0, 0), gradient) > 0.1


@pytest.mark.parametrize(
    ("settings", "deviation"),
    [
        ({"rule": "dsgt"}, 0.0),
        ({"rule": "dp"}, 0.5 * math.sqrt(2)),
        ({"rule": "lppa"}, 0.5 * math.sqrt(2 * 8)),
        ({"rule": "lppa", "topology": "ring"}, 0.5 * math.sqrt(2 * 4)),
        ({"rule": "lppa", "beta_own": 0.25}, math.sqrt(2 * (8 * 0.25 + 0.0625))),
    ],
)
@pytest.mark.parametrize("with_w", [True, False])
def test_naive_leaves_all_noise_and_reckons_with_none(local_run, settings, deviation, with_w):
    known, gradient = spied(local_run, with_w=with_w, **settings)
    target = OBSERVATIONS["naive"](known, 0, 0)
    assert target.sigma == 0
    assert target.ignored == pytest.approx(deviation)
    if with_w and deviation:
        left = target.vector - truth(target, gradient)
        assert float(left.std()) == pytest.approx(deviation, rel=0.6)


@pytest.mark.parametrize(
    "settings", [{"rule": "lppa", "noise_every": 2, "beta_own": 0.1}, {"rule": "dp"}]
)
def test_what_is_left_of_noise_in_later_rounds_follows_from_how_it_was_mixed(local_run, settings):
    known, _ = spied(local_run, topology="ring", **settings)
    own, every = settings.get("beta_own", 0.0) / 0.5, settings.get("noise_every", 0)
    rows = messages(make_schedule(known.W, settings["rule"], every, False, False, 0.05, 3, own))
    for t in range(4):
        expected = np.linalg.norm(rows.gamma[t, 0] * rows.deviations) * math.sqrt(2) * 0.5
        assert OBSERVATIONS["naive"](known, 0, t).ignored == pytest.approx(expected)
    known.W = None
    assert math.isnan(OBSERVATIONS["naive"](known, 0, 1).ignored)


@pytest.mark.parametrize("mixing", ["combine-then-adapt", "adapt-then-combine"])
@pytest.mark.parametrize("with_w", [True, False])
def test_difference_is_exact_against_noise_at_the_start(local_run, mixing, with_w):
    known, gradient = spied(local_run, rule="lppa", mixing=mixing, with_w=with_w)
    for t in range(3):
        target = OBSERVATIONS["difference"](known, 0, t)
        assert target.sigma == 0
        assert relative_error(target, gradient) < 1e-6


def test_noise_in_every_round_leaves_what_the_audit_says(local_run):
    left = []
    for seed in range(6):
        known, gradient = spied(local_run, rule="lppa", noise_every=1, seed=seed)
        target = OBSERVATIONS["difference"](known, 0, 1)
        assert target.sigma == pytest.approx(2 * math.sqrt(3) * 0.5)
        left.append(target.vector - truth(target, gradient))
    deviation = float(torch.cat(left).std())
    assert deviation == pytest.approx(2 * math.sqrt(3) * 0.5, rel=0.25)


def test_neighbour_takes_its_own_noise_out(local_run):
    known, gradient = spied(local_run, rule="lppa")
    target = OBSERVATIONS["neighbour"](known, 0, 0)
    assert target.sigma == pytest.approx(2 * math.sqrt(3) * 0.5)
    everyone, gradient = spied(local_run, attackers=(1, 2, 3, 4), rule="lppa")
    target = OBSERVATIONS["neighbour"](everyone, 0, 0)
    assert target.sigma == 0
    assert relative_error(target, gradient) < 1e-12


def test_two_hop_finds_the_unheard_neighbour_where_it_can(local_run):
    known, gradient = spied(local_run, rule="lppa", topology="ring", mixing="combine-then-adapt")
    target = OBSERVATIONS["two-hop"](known, 0, 0)
    assert target.sigma == 0
    assert relative_error(target, gradient) < 1e-6
    with pytest.raises(WrongUse, match="heard nothing"):
        OBSERVATIONS["difference"](known, 0, 0)


def test_two_hop_says_so_where_it_cannot(local_run):
    settings = {"topology": "directed-ring", "mixing": "combine-then-adapt"}
    known, _ = spied(local_run, rule="lppa", **settings)
    with pytest.raises(WrongUse, match="does not determine"):
        OBSERVATIONS["two-hop"](known, 0, 0)


@pytest.mark.parametrize("finish", [0, 2])
@pytest.mark.parametrize("observation", ["difference", "two-hop"])
def test_there_is_no_gradient_change_in_and_after_the_last_round(local_run, observation, finish):
    known, _ = spied(local_run, rule="lppa", finish=finish)
    OBSERVATIONS[observation](known, 0, 3)
    for t in (4, 5, 99):
        with pytest.raises(WrongUse, match=r"heard nothing from node 0|node 0 sent no gamma"):
            OBSERVATIONS[observation](known, 0, t)


@pytest.mark.parametrize("observation", ["difference", "two-hop"])
def test_the_last_step_of_dsgd_is_in_no_message(local_run, observation):
    known, _ = spied(local_run, rule="dsgd", finish=0)
    OBSERVATIONS[observation](known, 0, 3)
    with pytest.raises(WrongUse, match="heard nothing from node 0 in round 5"):
        OBSERVATIONS[observation](known, 0, 4)
    with pytest.raises(WrongUse, match="no gradient in round 5"):
        OBSERVATIONS[observation](known, 0, 5)


def test_two_hop_works_with_a_falling_step_too(local_run):
    settings = {"topology": "ring", "mixing": "combine-then-adapt", "lr_decay": 0.5}
    known, gradient = spied(local_run, rule="lppa", **settings)
    assert relative_error(OBSERVATIONS["two-hop"](known, 0, 0), gradient) < 1e-6


@pytest.mark.parametrize("rule", ["lppa", "dp"])
def test_two_hop_does_without_the_noise_that_attackers_give_themselves(local_run, rule):
    own = {"beta_own": 0.3} if rule == "lppa" else {}
    known, gradient = spied(local_run, rule=rule, noise_every=1, **own)
    target = OBSERVATIONS["two-hop"](known, 0, 0)
    assert target.sigma == pytest.approx(OBSERVATIONS["difference"](known, 0, 0).sigma)
    left = target.vector - truth(target, gradient)
    assert float(left.abs().max()) < 12 * target.sigma  # noise, and nothing of another size


@pytest.mark.parametrize("every", [0, 1])
def test_seeds_give_attackers_the_noise_on_their_own_edges(local_run, every):
    settings = {"rule": "lppa", "noise_exchange": "seed", "noise_every": every}
    known, gradient = spied(local_run, attackers=(1, 2, 3, 4), **settings)
    assert not known.noise and len(known.seeds) == 20
    target = OBSERVATIONS["neighbour"](known, 0, 0)
    assert target.sigma == 0
    assert relative_error(target, gradient) < 1e-12
    target = OBSERVATIONS["difference"](known, 0, 1)
    assert target.sigma == 0
    assert relative_error(target, gradient) < 1e-8


def test_own_noise_is_left_even_when_everybody_else_colludes(local_run):
    known, gradient = spied(local_run, attackers=(1, 2, 3, 4), rule="lppa", beta_own=0.25)
    target = OBSERVATIONS["neighbour"](known, 0, 0)
    assert target.sigma == pytest.approx(0.25 * math.sqrt(2))
    assert relative_error(target, gradient) > 1e-3
