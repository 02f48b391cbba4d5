"""The audit of D-SGD with noise in θ: closed forms, words that are true of it, what to change."""

from __future__ import annotations

import json
import math
from itertools import combinations

import pytest
from click.testing import CliRunner

from lppa.auditing.assemble import GIVEN, Hidden, case_of
from lppa.auditing.collusion import neighbours, smallest_sets
from lppa.auditing.compare import bytes_per_round, compare
from lppa.auditing.document import audit, audit_blueprint, rounds_of, warning_lines
from lppa.auditing.dropout import worst_dropout
from lppa.auditing.exposure import Exposure, by_round, exposures, targets_of, unseen_noise
from lppa.auditing.grade import graded
from lppa.auditing.noise_law import epsilon, guarantee, law, of_rho, rho
from lppa.cli import main
from lppa.protocol.settings import make_settings
from lppa.running.noise_scale import enough_noise
from lppa.running.prepare import make_blueprint

ROOT3 = math.sqrt(3)
STEP = 0.3  # ten steps of 0.03, the defaults


def blueprint(nodes=5, **settings):
    return make_blueprint(make_settings({"seed": 1, "rule": "dsgd", **settings}), nodes, "test")


def schedule_of(nodes=5, rounds=4, **settings):
    return case_of(blueprint(nodes, **{"beta": 0.1, **settings}), rounds).schedule()


def values(schedule, attackers, victim=0):
    return exposures(schedule, attackers, [victim])[0].values


def singles(schedule):
    return [e for a in range(schedule.nodes) for e in exposures(schedule, [a])]


def verdict_of(nodes=5, **settings):
    return audit_blueprint(blueprint(nodes, **settings), None)


def laws(nodes=5, **settings):
    return " ".join(law(case_of(blueprint(nodes, **settings))))


# --- the table ----------------------------------------------------------------------------------


def test_the_targets_are_single_gradients_and_their_mean_as_far_as_they_are_sent():
    g0, g1, g2, g3 = (("g", 4, t) for t in range(4))
    assert targets_of(schedule_of(rounds=3), 4) == {
        "g0": [[(1.0, g0)]],
        "g1": [[(1.0, g1)]],
        "gradient": [[(1.0, g)] for g in (g0, g1, g2)],
        "mean": [[(1 / 3, g) for g in (g0, g1, g2)]],
    }
    finished = targets_of(schedule_of(rounds=3, finish=2), 4)
    assert finished["gradient"] == [[(1.0, g)] for g in (g0, g1, g2, g3)]
    nothing = targets_of(schedule_of(rounds=0), 4)
    assert nothing == {"g0": [], "g1": [], "gradient": [], "mean": []}


@pytest.mark.parametrize("weights", ["uniform", "random"])
@pytest.mark.parametrize("mixing", ["adapt-then-combine", "combine-then-adapt"])
def test_the_table_has_the_closed_forms(weights, mixing):
    given = {"weights": weights, "mixing": mixing}
    one = 2 * ROOT3 / STEP
    found = values(schedule_of(**given), [1])
    assert found == pytest.approx({"g0": one, "g1": one, "gradient": one, "mean": one / 2})
    assert set(values(schedule_of(**given, noise_every=0), [1]).values()) == {0.0}
    # Round 1 has no noise, so g⁰ none; round 2 has.
    two = values(schedule_of(**given, noise_every=2), [1])
    assert (two["g0"], two["gradient"]) == (0, 0)
    assert (two["g1"], two["mean"]) == pytest.approx((one, one * math.sqrt(2) / 4))
    small = values(schedule_of(3, topology="ring", **given), [1])
    assert small["gradient"] == pytest.approx(2 / STEP)
    assert set(values(schedule_of(2, **given), [1]).values()) == {0.0}
    ring = schedule_of(topology="ring", **given)
    assert set(values(ring, [1, 4]).values()) == {0.0}
    assert values(ring, [1])["g1"] == math.inf


@pytest.mark.parametrize(
    ("settings", "step"),
    [
        ({"lr": 0.01, "local_steps": 4}, 0.04),
        ({"lr": 0.05, "local_steps": 1, "lr_decay": 1.0}, 0.05),
        # 287 rows for each client, four full batches.
        ({"lr": 0.05, "local_steps": "epoch"}, 0.2),
    ],
    ids=str,
)
def test_noise_is_counted_over_the_step_of_the_settings(settings, step):
    schedule = schedule_of(**settings)
    found = values(schedule, [1])
    assert found["gradient"] == found["g0"] == pytest.approx(2 * ROOT3 / step)
    decay = 2 if "lr_decay" in settings else 1
    assert found["g1"] == pytest.approx(decay * 2 * ROOT3 / step)
    assert unseen_noise(schedule, [1], 0) == pytest.approx(found["gradient"])


def test_a_pass_over_data_of_ones_own_has_as_many_steps_as_its_examples_have_batches():
    run = blueprint(dataset="own.npz", local_steps="epoch", batch=10, lr=0.1, beta=0.5)
    for examples, steps in ((None, 1), (5, 1), (95, 9)):
        case = case_of(run, 2, Hidden(0.1, GIVEN, examples))
        assert case.schedule().step(0) == pytest.approx(0.1 * steps)
        (said,) = [s for s in audit(case)["verdict"] if "pass over this data" in s]
        assert f"is taken to have {steps}." in said
    known = audit(case_of(blueprint(local_steps="epoch")))["verdict"]
    assert not any("pass over this data" in s for s in known)


def test_own_noise_alone_is_counted_in_its_own_unit():
    case = case_of(blueprint(beta=0, beta_own=0.5))
    assert (case.unit, case.scale) == ("β_own", 0.5)
    found = audit(case, (1, 2, 3, 4), 0)["pairs"][0]
    assert found["gradient"] == pytest.approx(math.sqrt(2) / STEP)
    both = case_of(blueprint(beta=0.25, beta_own=0.5)).schedule()
    assert values(both, [1])["g0"] == pytest.approx(math.sqrt(2 * (6 + 4)) / STEP)
    assert values(both, [1, 2, 3, 4])["g0"] == pytest.approx(math.sqrt(2 * 4) / STEP)


def test_what_nobody_adds_noise_to_is_exact():
    for settings in ({"beta": 0}, {"beta": 0, "topology": "star"}):
        found = verdict_of(**settings)
        assert found["bad"]
        assert found["verdict"][0].startswith("nothing is hidden: noise of scale 0 is none")
        assert found["dropout"] is None


@pytest.mark.parametrize("topology", ["full", "ring", "directed-ring", "exponential"])
def test_what_is_told_is_never_hidden_by_less_than_the_noise_that_attackers_do_not_know(topology):
    schedule = schedule_of(6, topology=topology, beta_own=0.02)
    for e in singles(schedule):
        assert e.values["gradient"] >= e.unseen - 1e-9
        told = math.isfinite(e.values["gradient"])
        assert e.least == (e.values["gradient"] if told else e.unseen)
        assert not e.bare


@pytest.mark.parametrize("every", [0, 1, 2])
def test_round_by_round_the_gradients_are_those_of_the_table(every):
    schedule = schedule_of(topology="erdos-renyi:0.6", rounds=5, noise_every=every)
    for e in singles(schedule):
        rows = by_round(schedule, e.attackers, e.victim)
        assert len(rows) == 5
        assert {change for _, change in rows} == {math.inf}
        found = [g for g, _ in rows]
        assert found[:2] == pytest.approx([e.values["g0"], e.values["g1"]])
        assert min(found) == pytest.approx(e.values["gradient"])


def test_round_by_round_noise_every_two_rounds_leaves_every_second_gradient_open():
    case = case_of(blueprint(noise_every=2, beta=1.0), 5)
    told = rounds_of(case, audit(case))["rounds"]
    assert [row["grade"] for row in told] == ["open", "hidden", "open", "hidden", "open"]
    assert {row["change"] for row in told} == {None}
    assert [row["ratio"] == 0 for row in told] == [True, False, True, False, True]


# --- the grade ----------------------------------------------------------------------------------


def test_the_ratio_is_noise_in_theta_over_the_step_and_the_share():
    case = case_of(blueprint(beta=0.05), 4, Hidden(0.01, GIVEN))
    for pair in audit(case)["pairs"]:
        assert pair["ratio"] == pytest.approx(2 * ROOT3 * 0.05 / STEP / 0.01, rel=1e-5)
    shorter = case_of(blueprint(beta=0.05, lr=0.003), 4, Hidden(0.01, GIVEN))
    assert audit(shorter)["pairs"][0]["ratio"] == pytest.approx(10 * pair["ratio"], rel=1e-5)


def test_the_mean_over_rounds_is_reported_and_not_graded():
    found = {"g0": 3.0, "g1": 4.0, "gradient": 3.0, "mean": 1.0}
    assert Exposure((1,), 0, found).least == 3.0
    assert Exposure((1,), 0, {**found, "mean": 0.0}).exact == ["mean"]
    assert graded(Exposure((1,), 0, {**found, "mean": 0.0}), 1.0) == (0.0, "open")


@pytest.mark.parametrize(("rounds", "finish", "count"), [(50, 0, 49), (50, 2, 50), (2, 1, 2)])
def test_an_example_that_is_in_all_gradients_is_told_again_and_again(rounds, finish, count):
    case = case_of(blueprint(rounds=rounds, finish=finish))
    found = audit(case)
    (said,) = [s for s in found["verdict"] if "fresh noise" in s]
    left = min(pair["ratio"] for pair in found["pairs"]) / math.sqrt(count)
    assert f"in all {count} of a run" in said
    assert f"no more than {left:.3g} times" in said
    for other in ({"rounds": 2}, {"noise_every": 2}, {"rule": "lppa"}, {"dataset": "quadratic"}):
        assert not any("fresh noise:" in s for s in verdict_of(**other)["verdict"])


def test_with_shorter_steps_later_gradients_count_for_less():
    case = case_of(blueprint(rounds=4, lr_decay=1.0))
    found = audit(case)
    (said,) = [s for s in found["verdict"] if "fresh noise" in s]
    left = min(p["ratio"] for p in found["pairs"]) / math.sqrt(1 + 1 / 4 + 1 / 9)
    assert f"no more than {left:.3g} times" in said


def test_what_only_others_gradients_hide_in_a_round_without_noise_is_weak():
    for every, bare, grade in ((0, True, "weak"), (1, False, "hidden")):
        case = case_of(blueprint(topology="directed-ring", beta=5.0, noise_every=every))
        (found,) = exposures(case.schedule(), [1], [0])
        assert (found.bare, graded(found, 0.001)[1]) == (bare, grade)
    # g⁰ is told with noise of others on it; g¹ is mixed, and sent with noise of its own.
    some = case_of(blueprint(topology="directed-ring", beta=5.0, noise_every=2), 2)
    (found,) = exposures(some.schedule(), [1], [0])
    assert (found.values["g1"], found.unseen, found.bare) == (math.inf, 0, False)
    assert graded(found, 0.001)[1] == "hidden"


def test_where_training_ends_before_a_gradient_is_sent_nothing_is_told_of_any():
    for settings in ({}, {"noise_every": 0}, {"beta": 0}):
        found = verdict_of(rounds=1, **settings)
        assert {pair["gradient"] for pair in found["pairs"]} == {"mixed"}
        assert (found["grade"], found["bad"], found["dropout"]) == ("hidden", False, None)
        assert found["verdict"][0].startswith("No gradient is in any message")
        assert not any("noise that nobody else knows" in s for s in found["verdict"])
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found
    sent = verdict_of(rounds=1, finish=1, noise_every=0)
    assert (sent["grade"], sent["bad"]) == ("open", True)


# --- colluders and departures -------------------------------------------------------------------


def brute_force(schedule, victim):
    others = [i for i in range(schedule.nodes) if i != victim]
    for size in range(1, len(others) + 1):
        for attackers in combinations(others, size):
            if exposures(schedule, attackers, [victim])[0].exact:
                return size
    return None


@pytest.mark.parametrize(
    "settings",
    [
        {"topology": "ring"},
        {"topology": "ring", "noise_every": 0, "init": "independent"},
        {"topology": "erdos-renyi:0.5", "weights": "random", "finish": 2},
        {"topology": "erdos-renyi:0.5", "noise_every": 2, "weights": "random"},
        {"topology": "directed-ring", "noise_every": 0},
        {"topology": "ring", "beta_own": 0.1},
    ],
    ids=str,
)
def test_the_smallest_set_is_the_one_that_looking_at_all_sets_finds(settings):
    schedule = schedule_of(6, rounds=3, **settings)
    found = smallest_sets(schedule, singles(schedule))
    assert not found.unsure
    for victim, attackers in found.sets.items():
        assert (None if attackers is None else len(attackers)) == brute_force(schedule, victim)


def test_with_noise_in_every_round_all_neighbours_are_needed_and_enough():
    schedule = schedule_of(12, topology="random-regular:4", weights="random")
    found = smallest_sets(schedule, [])
    assert found.sets == {v: tuple(sorted(neighbours(schedule, v))) for v in range(12)}
    for victim in (0, 5):
        assert exposures(schedule, found.sets[victim], [victim])[0].exact


def test_when_a_neighbour_leaves_its_noise_leaves_with_it():
    case = case_of(blueprint(beta=0.05), 4, Hidden(0.01, GIVEN))
    told = worst_dropout(case, case.schedule())
    # Two of four neighbours know theirs: two edges each way are left.
    assert told["noise"] == pytest.approx(math.sqrt(2 * 4))
    assert told["ratio"] == pytest.approx(math.sqrt(2 * 4) * 0.05 / STEP / 0.01)


# --- words --------------------------------------------------------------------------------------


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
    words = before["advice"].split(" (")[0].removeprefix("use ").split()
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


# --- the law ------------------------------------------------------------------------------------


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


# --- side by side, and on the command line ------------------------------------------------------


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
    for word in ("gradient", "mean", "round by round", "over the length of the step"):
        assert word in result.stdout
    assert "change from the one before" not in result.stdout
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "per-round.png").read_bytes().startswith(b"\x89PNG")
    refused = CliRunner().invoke(main, ["audit", "--rule", "dp", "--beta-own", "0.1"])
    assert "--beta-own goes with --rule lppa or dsgd, not with dp" in refused.output
