"""What the audit says in words: the leak, the remedy, and nothing that does not hold."""

from __future__ import annotations

import json
import math
import re

import pytest

from lppa.auditing.assemble import case_of
from lppa.auditing.document import audit, audit_blueprint, blown_up, warning_lines
from lppa.auditing.grade import GRADES
from lppa.auditing.noise_law import epsilon, law, rho
from lppa.protocol.settings import make_settings
from lppa.running.noise_scale import scale_warnings
from lppa.running.prepare import make_blueprint

KEYS = {
    *("nodes", "topology", "rule", "noise_every", "mixing", "init", "rounds", "beta", "beta_own"),
    *("targets", "legend", "pairs", "smallest", "hide", "thresholds", "grade", "verdict", "advice"),
    *("bad", "dropout", "epsilon", "law"),
}


def blueprint(nodes=5, **settings):
    return make_blueprint(make_settings({"seed": 1, **settings}), nodes, "test")


def verdict_of(nodes=5, **settings):
    return audit_blueprint(blueprint(nodes, **settings), None)


def laws(nodes=5, **settings):
    return " ".join(law(case_of(blueprint(nodes, **settings))))


def test_a_change_that_is_learned_is_said_in_plain_words():
    found = verdict_of(noise_every=0, noise_exchange="tensor")
    assert (found["bad"], found["grade"]) == (True, "open")
    assert found["verdict"][0].startswith(
        "node 1 learns node 0's gradient change exactly after round 1: "
        "start-only noise does not hide it"
    )
    assert found["advice"] == "use --noise-every 1 --noise-exchange seed"
    (line,) = warning_lines(found)
    assert "node 1 learns node 0's gradient change exactly" in line
    assert "--noise-every 1 --noise-exchange seed" in line


def test_the_round_is_the_one_that_completes_what_is_needed():
    settings = {
        **{"topology": "ring", "init": "independent", "mixing": "combine-then-adapt"},
        **{"noise_every": 0, "finish": 0},
    }
    found = verdict_of(**settings)
    # Rounds that only average come after all others, and complete nothing before.
    later = verdict_of(**settings | {"finish": 3})
    assert "exactly after round 1:" not in later["verdict"][0]
    assert "exactly after round 1:" not in found["verdict"][0]
    round_said = int(found["verdict"][0].split("after round ")[1].split(":")[0])
    for rounds, exact in ((round_said - 1, False), (round_said, True)):
        case = case_of(blueprint(**settings), rounds)
        (pair,) = [p for p in audit(case, [1], 0)["pairs"] if p["victim"] == 0]
        assert (pair["change"] == "exact") is exact


def test_the_defaults_hide_all_and_nothing_is_warned_of():
    found = verdict_of()
    assert (found["bad"], found["grade"]) == (False, "hidden")
    assert {pair["grade"] for pair in found["pairs"]} == {"hidden"}
    assert found["advice"] is None
    assert warning_lines(found) == []
    assert found["smallest"]["0"] == [1, 2, 3, 4]
    assert any("unless 4 nodes collude" in sentence for sentence in found["verdict"])


def test_no_noise_is_bad():
    for settings in ({"rule": "dsgt"}, {"rule": "dp", "beta": 0}, {"beta": 0}):
        found = verdict_of(**settings)
        assert found["bad"]
        assert found["verdict"][0].startswith("nothing is hidden")


START = {"noise_every": 0, "noise_exchange": "tensor"}
ONE = {"batch": 1, "local_steps": 1}
EXACT = [
    {"rule": "dsgt"},
    {"rule": "dsgt", "topology": "star"},
    {"rule": "dsgt", "beta": 0, **ONE},
    {"rule": "dsgt", "topology": "ring"},
    {"topology": "ring", **START},
    {"beta": 0},
    {"rule": "dp", "beta": 0},
    {"rule": "dp", **START},
    START,
    {"noise_every": 2},
    {"topology": "star"},
    {"topology": "star", **START},
    {"topology": "directed-ring", **START, "init": "independent"},
    {"beta": 0, "beta_own": 0.1, **START},
    {"dataset": "quadratic", "beta": 0},
    {"dataset": "quadratic", **START},
    {"dataset": "quadratic", "rule": "dsgt"},
    {"dataset": "quadratic", "rule": "dp", "beta": 0},
    {"dataset": "quadratic", "topology": "star"},
]
# Nothing is exact, and yet more than a guess leaks.
SMALL = [
    {**ONE, "beta": 1e-5, "beta_own": 1e-5},
    {**ONE, "beta": 1e-5, "beta_own": 1e-5, "topology": "star", "model": "lenet"},
    {**ONE, "rule": "dp", "beta": 0.01},
    {"rule": "dp", "beta": 1e-4},
    {"beta": 0, "beta_own": 1e-4},
    {"beta": 1e-4, "beta_own": 1e-4, "noise": "gaussian", "dataset": "adult"},
    {"beta": 2e-4, "beta_own": 1e-3, "topology": "directed-ring"},
    {"rule": "dp", "beta": 0.001, "batches": "same", "local_steps": "epoch"},
]


@pytest.mark.parametrize("settings", [*EXACT, *SMALL], ids=str)
@pytest.mark.parametrize("nodes", [2, 5])
def test_who_follows_the_advice_is_warned_no_more(settings, nodes):
    before = verdict_of(nodes, **settings)
    # A directed ring of five tells nothing exactly, and of two everything.
    assert before["bad"] or settings in SMALL or "directed-ring" in settings.values()
    assert warning_lines(before)
    words = re.split(r" \(|, ", before["advice"])[0].removeprefix("use ").split()
    assert words
    changed = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in zip(words[::2], words[1::2], strict=True)
    }
    after = verdict_of(nodes, **{**settings, **changed})
    assert warning_lines(after) == []
    assert not after["bad"]
    assert after["grade"] == ("weak" if settings.get("dataset") == "quadratic" else "hidden")


@pytest.mark.parametrize("topology", ["ring", "star", "full"])
def test_advice_says_what_the_next_run_would_warn_of(topology):
    """On sparse graphs models do not bear the noise that hides."""
    advice = verdict_of(6, topology=topology, weights="uniform", beta=1e-4)["advice"]
    options, _, other = advice.partition(", which costs accuracy on this graph, or ")
    beta = float(options.partition("--beta ")[2].split()[0])
    told = scale_warnings(blueprint(6, topology=topology, weights="uniform", beta=beta))
    assert bool(told) == bool(other) == (topology != "full")


def test_a_run_that_blew_up_is_open_whatever_noise_there_was():
    found = audit(case_of(blueprint()))
    assert found.grade == "hidden"
    after = blown_up(found)
    assert after.grade == after.protection.grade == "open"
    assert after.protection.noise_to_example == 0.0
    assert {pair.grade for pair in after.pairs} == {"open"}
    assert warning_lines(after)[0].startswith("Open: gradients grew until they were no numbers")
    assert not [line for line in after.verdict if line.startswith("Hidden")]


def test_noise_far_below_a_single_examples_gradient_hides_nothing_and_that_is_said():
    # An attack rebuilds the image to 89 dB from it.
    settings = {**ONE, "beta_own": 1e-5, "noise_every": 1, "model": "lenet"}
    found = verdict_of(2, **settings)
    assert (found["grade"], found["bad"]) == ("open", False)
    (line,) = warning_lines(found)
    assert line.startswith("Open: the noise in the way of node 1 on node 0 is 0.000214 times an ")
    assert line.endswith("; to change that, use --beta-own 1.9 (`lppa audit` tells more)")


def test_colluders_that_surround_a_victim_are_advised_against_with_own_noise():
    case = case_of(blueprint(topology="ring", noise_every=1))
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
    {"beta": 0},
    {"topology": "star", "local_steps": "epoch"},
    {"dataset": "nowhere.npz"},
    {"local_steps": 1000},
]


@pytest.mark.parametrize("settings", WEIRD, ids=str)
def test_every_run_has_an_audit_that_is_json(settings):
    found = verdict_of(**settings)
    assert set(found) == KEYS
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found
    assert len(found["pairs"]) == 20
    for pair in found["pairs"]:
        assert set(pair) == {"attackers", "victim", "ratio", "grade", *found["targets"]}
    assert found["grade"] == min((p["grade"] for p in found["pairs"]), key=GRADES.index)


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
    every = {"clip": 2.0, "batch": 50, "local_steps": 1, "noise_every": 1, "rounds": 50}
    assert epsilon(2.0, 50, 0.1) == pytest.approx(0.8)
    for settings in ({"rule": "dp", "beta": 0.1}, {"beta_own": 0.1}):
        text = laws(**every, **settings)
        assert "= 0.8: if one sample is replaced" in text
        assert "Over 50 rounds releases add up to at most ε = 79.2:" in text
    gaussian = laws(**every, rule="dp", beta=0.1, noise="gaussian")
    assert rho(2.0, 50, 0.1) == pytest.approx(0.16)
    loss = 0.16 + 2 * math.sqrt(0.16 * math.log(1e5))
    assert f"({loss:.3g}, 1e-05)" in gaussian


def test_epsilon_is_not_stretched_over_a_run_that_it_does_not_cover():
    start = laws(rule="dp", clip=1.0, local_steps=1, noise_every=0)
    assert "holds for the first message only" in start


def test_the_epsilon_of_laplace_noise_is_the_largest_log_ratio_of_its_densities():
    # Two batches that differ in one sample: means that differ by at most 2C / batch in L1.
    clip, batch, scale = 1.5, 10, 0.3
    shift = 2 * clip / batch
    ratios = [abs(abs(x) - abs(x - shift)) / scale for x in (-5.0, -0.1, 0.0, 0.2, shift, 4.0)]
    assert max(ratios) == pytest.approx(epsilon(clip, batch, scale))
