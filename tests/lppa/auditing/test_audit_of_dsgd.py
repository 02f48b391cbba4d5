"""The audit of D-SGD with noise in θ: closed forms, grades, colluders and departures."""

from __future__ import annotations

import json
import math

import pytest
from all_sets import brute_force
from dsgd_schedules import ROOT3, STEP, blueprint, schedule_of, singles, values, verdict_of

from lppa.auditing.assemble import GIVEN, Hidden, case_of
from lppa.auditing.collusion import neighbours, smallest_sets
from lppa.auditing.document import audit, rounds_of
from lppa.auditing.dropout import worst_dropout
from lppa.auditing.exposure import Exposure, by_round, exposures, targets_of, unseen_noise
from lppa.auditing.grade import graded


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
    # Each round has all 287 rows of a client in it, so that it is counted.
    left = min(pair["ratio"] for pair in found["pairs"])
    one = min(e.least for e in singles(case.schedule())) / case.once
    assert left == pytest.approx(one / math.sqrt(count), rel=1e-5)
    assert f"in all {count} of a run" in said
    assert f"no more than {left:.3g} times its share in the way ({found['grade']}; it is" in said
    first = next(s for s in found["verdict"] if s.startswith(found["grade"].capitalize()))
    assert f"tell of an example, {math.sqrt(count):.3g} times its share of one (" in first
    for other in ({"rounds": 2}, {"noise_every": 2}, {"rule": "lppa"}, {"dataset": "quadratic"}):
        assert not any("fresh noise:" in s for s in verdict_of(**other)["verdict"])


def test_with_shorter_steps_later_gradients_count_for_less():
    case = case_of(blueprint(rounds=4, lr_decay=1.0))
    found = audit(case)
    (said,) = [s for s in found["verdict"] if "fresh noise" in s]
    left = min(p["ratio"] for p in found["pairs"])
    one = min(e.least for e in singles(case.schedule())) / case.once
    assert left == pytest.approx(one / math.sqrt(1 + 1 / 4 + 1 / 9), rel=1e-5)
    assert f"no more than {left:.3g} times" in said


def test_an_example_that_is_in_few_gradients_is_told_of_in_words_alone():
    case = case_of(blueprint(dataset="mnist"))
    found = audit(case)
    (said,) = [s for s in found["verdict"] if "fresh noise" in s]
    left = min(p["ratio"] for p in found["pairs"])
    assert f"no more than {left / math.sqrt(79):.3g} times its share in the way (open)" in said
    assert (case.repeated, found["grade"]) == (1.0, "hidden")


@pytest.mark.parametrize(
    "settings", [{"batches": "same"}, {"local_steps": "epoch"}, {"batch": 512, "local_steps": 1}]
)
def test_all_data_in_every_gradient_is_counted_however_it_comes_about(settings):
    case = case_of(blueprint(**settings))
    assert case.repeated == pytest.approx(math.sqrt(79))
    assert case_of(blueprint(**settings, rounds=400)).repeated == pytest.approx(math.sqrt(399))
    assert case_of(blueprint(**settings, noise_every=2)).repeated == 1.0
    assert case_of(blueprint(**settings, rule="lppa")).repeated == 1.0


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
