"""What the audit says of D-SGD, in words that are true of it: leaks, advice, law, tables."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from dsgd_schedules import ROOT3, STEP, blueprint, laws, verdict_of

from lppa.auditing.assemble import GIVEN, Hidden, case_of
from lppa.auditing.compare import bytes_per_round, compare
from lppa.auditing.document import audit, warning_lines
from lppa.auditing.noise_law import epsilon, guarantee, of_rho, rho
from lppa.cli import main
from lppa.protocol.settings import make_settings
from lppa.running.noise_scale import enough_noise


def test_no_word_is_of_gamma_or_of_changes():
    for settings in (
        *({}, {"noise_every": 0}, {"noise_every": 3}, {"beta_own": 0.1, "clip": 1.0}),
        *({"topology": "star"}, {"topology": "ring", "noise_every": 0}, {"beta": 0}),
        {"beta_own": 0.1, "clip": 1.0, "noise": "gaussian", "noise_every": 2},
    ):
        found = verdict_of(**settings)
        text = " ".join([*found["verdict"], *found["law"], found["legend"], found["advice"] or ""])
        assert "γ" not in text
        assert "change of" not in text and "gradient change" not in text
        assert "lppa" not in text.replace("`lppa report`", "").replace("`lppa audit", "")


def test_a_leak_is_said_with_its_round_and_its_reason():
    start = verdict_of(noise_every=0)
    assert start["verdict"][0].startswith(
        "node 1 learns node 0's gradient exactly after round 1: start-only noise does not hide it"
    )
    assert start["advice"].startswith("use --noise-every 1")
    (line,) = warning_lines(start)
    assert "node 1 learns node 0's gradient exactly after round 1" in line
    # Of two clients each knows all noise of the other.
    pair = verdict_of(2)
    assert "its only neighbour knows all noise that it adds" in pair["verdict"][0]
    third = verdict_of(noise_every=3)["verdict"][0]
    assert "noise every 3 rounds leaves the rounds between without any" in third


def test_the_round_of_a_leak_counts_finishing_rounds_as_they_come():
    # The only gradient is in the message of round 1, the first that finishes.
    found = verdict_of(rounds=1, finish=3, noise_every=0)
    assert "exactly after round 1:" in found["verdict"][0]
    # Of who is two hops away, the next average tells it, and the one after that adds nothing.
    ring = case_of(blueprint(4, topology="ring", rounds=1, finish=3, noise_every=0, beta=0.1))
    assert "node 2's gradient exactly after round 2:" in audit(ring, [0], 2)["verdict"][0]
    # Round 1 has noise, and round 2, which is the second that finishes, tells no gradient.
    assert not verdict_of(rounds=1, finish=3)["bad"]


ONE = {"batch": 1, "local_steps": 1}
BAD = [
    *({"noise_every": 0}, {"noise_every": 2}, {"beta": 0}, {"topology": "star"}),
    *({"beta": 1e-5}, {**ONE, "beta": 1e-4}, {"beta": 0, "beta_own": 1e-5}),
    *({"topology": "ring", "noise_every": 0}, {"topology": "directed-ring", "noise_every": 0}),
    *({"beta": 1e-4, "beta_own": 1e-4, "topology": "star"}, {"beta": 1e-4, "lr": 0.5}),
    *({"noise_every": 0, "noise_exchange": "tensor"}, {"dataset": "quadratic", "noise_every": 0}),
]


@pytest.mark.parametrize("settings", BAD, ids=str)
@pytest.mark.parametrize("nodes", [2, 5])
def test_who_follows_the_advice_is_warned_no_more(settings, nodes):
    before = verdict_of(nodes, **settings)
    assert warning_lines(before)
    words = re.split(r" \(|, ", before["advice"])[0].removeprefix("use ").split()
    changed = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in zip(words[::2], words[1::2], strict=True)
    }
    after = verdict_of(nodes, **{**settings, **changed})
    assert warning_lines(after) == []
    assert after["grade"] == ("weak" if settings.get("dataset") == "quadratic" else "hidden")


def test_the_advised_noise_is_what_would_be_left_of_it_and_no_more():
    for beta in (0, 1e-6):
        case = case_of(blueprint(beta=beta), 4, Hidden(0.01, GIVEN))
        needed = enough_noise(0.01 * STEP, 2 * ROOT3)
        assert audit(case)["advice"].startswith(f"use --beta {needed:g} ")


def test_more_steps_are_not_advised_since_they_lengthen_the_step():
    advice = verdict_of(beta=1e-5)["advice"]
    assert "a larger --batch, or a smaller --lr" in advice
    assert "--local-steps" not in advice
    ratios = [
        audit(case_of(blueprint(beta=0.01, batch=4, local_steps=k)))["pairs"][0]["ratio"]
        for k in (1, 8)
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        *({"rounds": 2}, {"dataset": "quadratic"}, {"lr_decay": 0.5, "finish": 3}),
        *({"noise_every": 1000}, {"noise": "gaussian", "clip": 1.0}, {"beta": 1e9}),
        *({"beta": 1e-12, "beta_own": 1e9}, {"topology": "star", "local_steps": "epoch"}),
        *({"dataset": "nowhere.npz", "local_steps": "epoch"}, {"lr": 1e-9}, {"lr": 1e6}),
    ],
    ids=str,
)
def test_every_run_has_an_audit_that_is_json(settings):
    found, usual = verdict_of(**settings), verdict_of(**{**settings, "rule": "lppa"})
    assert found.keys() == usual.keys()
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found
    assert len(found["pairs"]) == 20


def test_the_law_says_where_noise_is_and_what_it_is_on_a_gradient():
    text = laws(beta=0.5)
    assert "a standard deviation of 2 in θ, whose weights are about 0.1 in size" in text
    assert "1/(K·λ) = 3.333 times as large." in text
    assert "and more in later rounds" in laws(lr_decay=0.1)
    assert "noise in the first message hides none" in text
    assert "No ε is stated for dsgd's noise: it sums to zero" in text
    assert "96.4" not in laws(beta_own=0.1)


OWN = {"beta_own": 0.1, "clip": 2.0, "batch": 50, "local_steps": 1, "lr": 0.2, "rounds": 50}


def test_a_step_along_a_clipped_gradient_has_an_epsilon():
    found = guarantee(blueprint(**OWN).settings)
    one = 0.2 * epsilon(2.0, 50, 0.1)
    assert one == pytest.approx(0.2 * 0.8)
    assert (found.release, found.run) == pytest.approx((one, 49 * one))
    assert found.releases == 49
    text = laws(**OWN)
    assert "a step of 0.2 along a gradient over 50 samples" in text
    assert "ε = 2·0.2·C/(batch·β_own) = 0.16:" in text
    assert "Over a run 49 releases add up to at most ε = 7.84:" in text
    # The last gradient is sent by rounds that finish only.
    finished = guarantee(blueprint(**OWN, finish=3).settings)
    assert (finished.run, finished.releases) == (pytest.approx(50 * one), 50)
    nothing = guarantee(blueprint(**{**OWN, "rounds": 1}).settings)
    assert (nothing.run, nothing.releases) == (0.0, 0)


def test_steps_that_get_shorter_tell_less():
    found = guarantee(blueprint(**{**OWN, "rounds": 4}, lr_decay=1.0).settings)
    one = 0.2 * 0.8
    assert found.run == pytest.approx(one * (1 + 1 / 2 + 1 / 3))
    gaussian = {**OWN, "rounds": 4, "lr_decay": 1.0, "noise": "gaussian", "local_steps": 3}
    found = guarantee(blueprint(**gaussian).settings)
    one = rho(2.0, 50, 0.1, 3) * (3 * 0.2) ** 2
    assert found.release == pytest.approx(of_rho(one))
    assert found.run == pytest.approx(of_rho(one * (1 + 1 / 4 + 1 / 9)))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"noise_every": 0}, "noise at the start comes before any gradient"),
        ({"local_steps": "epoch"}, "how long the step of a whole pass is depends on the data"),
        ({"clip": None}, "without --clip"),
        ({"beta_own": 0.0}, "it sums to zero"),
    ],
    ids=str,
)
def test_no_epsilon_is_stated_where_none_holds(settings, why):
    assert guarantee(blueprint(**{**OWN, **settings}).settings) is None
    text = laws(**{**OWN, **settings})
    assert "No ε is stated" in text and why in text
    assert "ε =" not in text


def test_noise_in_some_rounds_has_an_epsilon_for_those_and_none_for_a_run():
    found = guarantee(blueprint(**OWN, noise_every=2).settings)
    assert found.run is None
    assert "It holds for gradients that are sent with fresh noise only" in laws(
        **OWN, noise_every=2
    )


@pytest.mark.parametrize(
    ("settings", "vectors"),
    [
        ({}, 1),
        ({"noise_exchange": "tensor"}, 2),
        ({"noise_exchange": "tensor", "noise_every": 2}, 1),
    ],
    ids=str,
)
def test_one_vector_is_sent_an_edge_and_with_the_noise_itself_two(settings, vectors):
    assert bytes_per_round(blueprint(**settings)) == 20 * vectors * 6090 * 4


def test_topologies_are_compared_by_what_is_graded():
    full, ring, star = compare(
        make_settings({"rule": "dsgd", "seed": 1}), 5, ("full", "ring", "star"), 4, None
    )
    assert full["noise"] == pytest.approx(2 * ROOT3 / STEP)
    assert (full["grade"], full["smallest"], ring["smallest"]) == ("hidden", 4, 2)
    assert (star["noise"], star["grade"]) == ("exact", "open")


def test_the_command_shows_tables_and_pictures_of_it(tmp_path):
    argv = ["audit", "-n", "5", "--rule", "dsgd", "--per-round"]
    result = CliRunner().invoke(main, [*argv, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())  # in lines as long as the table is wide
    for word in ("gradient", "mean", "round by round", "over the length of the step"):
        assert word in said
    assert "change from the one before" not in said
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "per-round.png").read_bytes().startswith(b"\x89PNG")
    refused = CliRunner().invoke(main, ["audit", "--rule", "dp", "--beta-own", "0.1"])
    assert "--beta-own goes with --rule lppa or dsgd, not with dp" in refused.output
