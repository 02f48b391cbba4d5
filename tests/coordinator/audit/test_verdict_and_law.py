"""What the audit says in words: the leak, the remedy, and nothing that does not hold."""

from __future__ import annotations

import json
import math

import pytest

from lppa.coordinator.audit.assemble import case_of
from lppa.coordinator.audit.document import audit, audit_blueprint, warning_lines
from lppa.coordinator.audit.noise_law import epsilon, law, rho
from lppa.coordinator.plan import make_blueprint
from lppa.protocol.settings import make_settings

KEYS = {
    *("nodes", "topology", "rule", "noise_every", "mixing", "init", "rounds", "beta", "beta_own"),
    *("targets", "pairs", "smallest", "verdict", "advice", "bad", "law"),
}


def blueprint(nodes=5, **settings):
    return make_blueprint(make_settings({"seed": 1, **settings}), nodes, "test")


def verdict_of(nodes=5, **settings):
    return audit_blueprint(blueprint(nodes, **settings))


def laws(nodes=5, **settings):
    return " ".join(law(case_of(blueprint(nodes, **settings))))


def test_a_change_that_is_learned_is_said_in_plain_words():
    found = verdict_of(local_steps=1)
    assert found["bad"]
    assert found["verdict"][0].startswith(
        "node 1 learns node 0's gradient change exactly after round 1: "
        "start-only noise does not hide it"
    )
    assert found["advice"] == "use --noise-every 1 --noise-exchange seed"
    (line,) = warning_lines(found)
    assert "node 1 learns node 0's gradient change exactly" in line
    assert "--noise-every 1 --noise-exchange seed" in line


def test_the_round_is_the_one_that_completes_what_is_needed():
    settings = {"topology": "ring", "init": "independent", "mixing": "combine-then-adapt"}
    found = verdict_of(local_steps=1, **settings)
    assert "exactly after round 1:" not in found["verdict"][0]
    round_said = int(found["verdict"][0].split("after round ")[1].split(":")[0])
    for rounds, exact in ((round_said - 1, False), (round_said, True)):
        case = case_of(blueprint(local_steps=1, **settings), rounds)
        (pair,) = [p for p in audit(case, [1], 0)["pairs"] if p["victim"] == 0]
        assert (pair["change"] == "exact") is exact


def test_where_nothing_is_exact_nothing_is_warned_of():
    found = verdict_of(local_steps=1, noise_every=1)
    assert not found["bad"]
    assert found["advice"] is None
    assert warning_lines(found) == []
    assert found["smallest"]["0"] == [1, 2, 3, 4]
    assert any("unless 4 nodes collude" in sentence for sentence in found["verdict"])


def test_no_noise_is_bad():
    for settings in ({"rule": "dsgt"}, {"rule": "dp", "beta": 0}, {"beta": 0}):
        found = verdict_of(**settings)
        assert found["bad"]
        assert found["verdict"][0].startswith("nothing is hidden")


BAD = [
    {"rule": "dsgt"},
    {"rule": "dsgt", "topology": "star"},
    {"beta": 0},
    {"rule": "dp", "beta": 0},
    {"rule": "dp"},
    {},
    {"noise_every": 2},
    {"topology": "star", "noise_every": 1},
    {"topology": "star"},
    {"topology": "directed-ring"},
    {"beta": 0, "beta_own": 0.1},
]


@pytest.mark.parametrize("settings", BAD, ids=str)
@pytest.mark.parametrize("nodes", [2, 5])
def test_who_follows_the_advice_is_warned_no_more(settings, nodes):
    before = verdict_of(nodes, **settings)
    assert before["bad"]
    words = before["advice"].split(" (")[0].removeprefix("use ").replace(" and ", " ").split()
    assert words
    changed = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in zip(words[::2], words[1::2], strict=True)
    }
    assert not verdict_of(nodes, **{**settings, **changed})["bad"]


def test_colluders_that_surround_a_victim_are_advised_against_with_own_noise():
    case = case_of(blueprint(topology="ring", local_steps=1, noise_every=1))
    found = audit(case, [1, 4])
    assert found["bad"]
    assert found["advice"].startswith("use --beta-own")


WEIRD = [
    {"rounds": 1},
    {"rounds": 2},
    {"dataset": "quadratic"},
    {"dataset": "quadratic-shared", "rule": "dsgt", "rounds": 1},
    {"lr_decay": 0.5, "finish": 3},
    {"noise_every": 1000},
    {"noise": "gaussian", "clip": 1.0, "rule": "dp"},
    {"beta": 1e9},
    {"beta": 1e-12, "beta_own": 1e9},
    {"local_steps": 1000},
]


@pytest.mark.parametrize("settings", WEIRD, ids=str)
def test_every_run_has_an_audit_that_is_json(settings):
    found = verdict_of(**settings)
    assert set(found) == KEYS
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert len(found["pairs"]) == 20
    for pair in found["pairs"]:
        assert set(pair) == {"attackers", "victim", *found["targets"]}


def test_more_than_32_nodes_are_looked_at_in_part_and_that_is_said():
    found = verdict_of(40, topology="ring")
    assert len({tuple(pair["attackers"]) for pair in found["pairs"]}) == 8
    assert len(found["pairs"]) == 8 * 39
    assert any("only 8 were looked at" in sentence for sentence in found["verdict"])


def test_the_law_counts_edges_in_and_out():
    full = laws(beta=0.5)
    assert "d_in + d_out is 8: a standard deviation of 2" in full
    assert "2.828 times dp's" in full
    assert "only for one neighbour each way" in full
    assert "d_in + d_out is 2: a standard deviation of 1" in laws(
        topology="directed-ring", beta=0.5
    )
    assert "d_in + d_out is 2 to 8" in laws(topology="star")
    assert "A neighbour knows the draws on its own edges" in full
    assert "one draw per release" in laws(rule="dp")


def test_without_clipping_no_epsilon_is_stated():
    for settings in ({"rule": "dp"}, {"beta_own": 0.1}):
        text = laws(**settings)
        assert "No ε is stated: without --clip" in text
        assert "ε =" not in text


def test_the_noise_of_lppa_has_no_epsilon_even_with_clipping():
    text = laws(clip=1.0)
    assert "No ε is stated for lppa's noise: it sums to zero" in text
    assert "ε =" not in text


def test_with_clipping_epsilon_is_stated_with_what_it_means():
    every = {"clip": 2.0, "batch": 50, "local_steps": 1, "noise_every": 1}
    assert epsilon(2.0, 50, 0.1) == pytest.approx(0.8)
    for settings in ({"rule": "dp", "beta": 0.1}, {"beta_own": 0.1}):
        text = laws(**every, **settings)
        assert "= 0.8: if one sample is replaced" in text
        assert "at most 2ε for each gradient" in text
    gaussian = laws(**every, rule="dp", beta=0.1, noise="gaussian")
    assert rho(2.0, 50, 0.1) == pytest.approx(0.16)
    loss = 0.16 + 2 * math.sqrt(0.16 * math.log(1e5))
    assert f"({loss:.3g}, 1e-05)" in gaussian


def test_epsilon_is_not_stretched_over_a_run_that_it_does_not_cover():
    start = laws(rule="dp", clip=1.0, local_steps=1)
    assert "holds for the first message only" in start


def test_the_epsilon_of_laplace_noise_is_the_largest_log_ratio_of_its_densities():
    # Two batches that differ in one sample: means that differ by at most 2C / batch in L1.
    clip, batch, scale = 1.5, 10, 0.3
    shift = 2 * clip / batch
    ratios = [abs(abs(x) - abs(x - shift)) / scale for x in (-5.0, -0.1, 0.0, 0.2, shift, 4.0)]
    assert max(ratios) == pytest.approx(epsilon(clip, batch, scale))
