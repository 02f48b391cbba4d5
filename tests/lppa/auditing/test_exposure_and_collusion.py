"""Attacker × victim tables and smallest colluding sets, against what is known of the graphs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from all_sets import brute_force

from lppa.auditing.assemble import case_of
from lppa.auditing.collusion import neighbours, smallest_sets
from lppa.auditing.exposure import (
    Exposure,
    by_round,
    exposures,
    plain,
    targets_of,
    unseen_noise,
)
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint


def schedule_of(nodes=5, rounds=4, **settings):
    given = {
        **{"init": "independent", "mixing": "combine-then-adapt", "seed": 1},
        **{"noise_every": 0, "beta": 0.025},
    }
    blueprint = make_blueprint(make_settings({**given, **settings}), nodes, "test")
    return case_of(blueprint, rounds).schedule()


def values(schedule, attackers, victim=0):
    return exposures(schedule, attackers, [victim])[0].values


def singles(schedule):
    return [e for a in range(schedule.nodes) for e in exposures(schedule, [a])]


@pytest.mark.parametrize("weights", ["uniform", "random"])
def test_the_table_has_the_closed_forms(weights):
    start = values(schedule_of(weights=weights), [1])
    every = values(schedule_of(weights=weights, noise_every=1), [1])
    assert start["g0"] == pytest.approx(2 * math.sqrt(3))
    assert start["change"] == start["telescoped"] == 0
    assert every["change"] == pytest.approx(2 * math.sqrt(3))
    assert every["telescoped"] == pytest.approx(2 * math.sqrt(3) * 2)
    assert every["g1"] == pytest.approx(2 * math.sqrt(3) * math.sqrt(2))
    ring = schedule_of(topology="directed-ring", weights=weights)
    assert values(ring, [1])["g0"] == pytest.approx(math.sqrt(2))
    assert values(ring, [1])["change"] == math.inf
    small = schedule_of(3, topology="directed-ring", weights=weights)
    assert values(small, [1])["change"] == 0
    assert set(values(schedule_of(2, weights=weights), [1]).values()) == {0.0}


def test_the_best_round_counts_for_a_change():
    # Noise is due in rounds 0 and 2: the change in between is without any, and the next is not.
    two = schedule_of(noise_every=2)
    assert values(two, [1])["change"] == 0
    assert values(two, [1])["telescoped"] > 1
    assert values(schedule_of(noise_every=1), [1])["change"] > 1


def test_the_targets_are_two_gradients_each_change_and_the_whole_change():
    g0, g1, g2, g3 = (("g", 4, t) for t in range(4))
    assert targets_of(schedule_of(rounds=3), 4) == {
        "g0": [[(1.0, g0)]],
        "g1": [[(1.0, g1)]],
        "change": [[(1.0, b), (-1.0, a)] for a, b in ((g0, g1), (g1, g2), (g2, g3))],
        "telescoped": [[(1.0, g3), (-1.0, g0)]],
    }


def test_over_one_round_the_whole_change_is_the_only_one():
    found = values(schedule_of(rounds=1, noise_every=1), [1])
    assert found["telescoped"] == found["change"] == pytest.approx(2 * math.sqrt(3))


def test_a_table_covers_all_victims_but_the_attackers():
    found = exposures(schedule_of(), [3, 1, 3])
    assert [e.victim for e in found] == [0, 2, 4]
    assert {e.attackers for e in found} == {(1, 3)}


def test_a_value_in_json_is_a_number_exact_or_mixed():
    assert [plain(v) for v in (0.0, math.inf, 2 * math.sqrt(3))] == ["exact", "mixed", 3.4641016]


def test_an_exposure_names_attackers_in_order_and_has_every_target_as_json():
    ring = schedule_of(10, topology="directed-ring", init="common", rounds=2)
    (found,) = exposures(ring, [9, 8, 1], [0])
    # Node 1 hears node 0, whose noise came from node 9, another attacker, and went to node 1.
    targets = ("g0", "g1", "change", "telescoped")
    assert (found.attackers, found.victim) == ((1, 8, 9), 0)
    assert found.noise() == dict.fromkeys(targets, "exact")
    (unheard,) = exposures(ring, [9, 8, 1], [4])
    assert (unheard.attackers, unheard.victim) == ((1, 8, 9), 4)
    assert unheard.noise() == dict.fromkeys(targets, "mixed")
    assert unheard.exact == []
    assert set(unheard.values.values()) == {math.inf} != set(found.values.values())
    heard = exposures(ring, [1], [0])[0]
    assert heard.exact == [name for name, value in heard.noise().items() if value == "exact"]
    assert heard.noise()["g0"] == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    "settings",
    [
        {"topology": "ring", "noise_every": 1},
        {"topology": "directed-ring", "init": "common"},
        {"topology": "directed-ring", "rule": "dp"},
        {"topology": "erdos-renyi:0.5", "noise_every": 1, "weights": "random"},
        {"topology": "erdos-renyi:0.5", "noise_every": 2, "weights": "random"},
        {"topology": "erdos-renyi:0.5", "mixing": "adapt-then-combine"},
        {"topology": "ring", "noise_every": 1, "beta_own": 0.1},
    ],
    ids=str,
)
def test_the_smallest_set_is_the_one_that_looking_at_all_sets_finds(settings):
    schedule = schedule_of(6, rounds=3, **settings)
    found = smallest_sets(schedule, singles(schedule))
    assert not found.unsure
    for victim, attackers in found.sets.items():
        assert (None if attackers is None else len(attackers)) == brute_force(schedule, victim)
        if attackers is not None:
            assert exposures(schedule, attackers, [victim])[0].exact


def test_with_noise_in_every_round_all_neighbours_are_needed():
    schedule = schedule_of(16, topology="random-regular:4", noise_every=1, weights="random")
    found = smallest_sets(schedule, [])
    assert found.sets == {v: tuple(sorted(neighbours(schedule, v))) for v in range(16)}


def test_own_noise_in_every_round_leaves_no_set():
    schedule = schedule_of(noise_every=1, beta_own=0.01)
    assert set(smallest_sets(schedule, singles(schedule)).sets.values()) == {None}


def test_a_search_that_was_cut_says_so_and_still_gives_a_set_that_does_it():
    schedule = schedule_of(10, topology="random-regular:4", rule="dp", weights="random")
    cut = smallest_sets(schedule, singles(schedule), budget=3)
    assert cut.unsure
    whole = smallest_sets(schedule, singles(schedule))
    for victim, attackers in cut.sets.items():
        assert exposures(schedule, attackers, [victim])[0].exact
        assert len(whole.sets[victim]) <= len(attackers)
        if victim not in cut.unsure:
            assert len(whole.sets[victim]) == len(attackers)


def test_a_state_that_is_never_sent_tells_nothing():
    schedule = replace(schedule_of(), rounds=0)
    found = values(schedule, [1])
    assert found["g0"] == pytest.approx(2 * math.sqrt(3))
    assert {found[name] for name in ("g1", "change", "telescoped")} == {math.inf}


# --- the noise that attackers do not know -------------------------------------------------------


def test_a_neighbour_knows_the_draws_on_its_own_edges_and_nobody_knows_own_noise():
    full, ring = schedule_of(noise_every=1), schedule_of(noise_every=1, topology="ring")
    assert unseen_noise(full, [1], 0) == pytest.approx(math.sqrt(2 * 6))
    assert unseen_noise(full, [1, 2], 0) == pytest.approx(math.sqrt(2 * 4))
    assert unseen_noise(ring, [1], 0) == pytest.approx(math.sqrt(2 * 2))
    # Who is no neighbour knows none of it.
    assert unseen_noise(ring, [2], 0) == pytest.approx(math.sqrt(2 * 4))
    assert unseen_noise(ring, [1, 4], 0) == 0
    own = schedule_of(noise_every=1, topology="ring", beta_own=0.05)
    assert unseen_noise(own, [1, 4], 0) == pytest.approx(math.sqrt(2) * 2)
    assert unseen_noise(own, [1], 0) == pytest.approx(math.sqrt(2 * (2 + 4)))
    assert unseen_noise(schedule_of(noise_every=1, rule="dp"), [1], 0) == pytest.approx(
        math.sqrt(2)
    )


def test_noise_that_is_not_in_every_round_or_is_none_counts_for_nothing():
    for settings in ({}, {"noise_every": 2}, {"rule": "dsgt", "noise_every": 1}, {"rule": "dp"}):
        assert unseen_noise(schedule_of(**settings), [1], 0) == 0


@pytest.mark.parametrize("topology", ["full", "ring", "directed-ring", "star", "exponential"])
def test_what_a_neighbour_does_not_know_is_what_the_first_gradient_is_hidden_by(topology):
    schedule = schedule_of(6, topology=topology, noise_every=1, beta_own=0.01)
    heard = {(r, s) for s, r in schedule.edges()}
    for e in singles(schedule):
        if (e.attackers[0], e.victim) in heard:
            assert e.values["g0"] == pytest.approx(e.unseen)


def test_the_least_of_all_targets_counts_and_where_all_are_mixed_the_unknown_noise():
    mixed = dict.fromkeys(("g0", "g1", "change", "telescoped"), math.inf)
    assert Exposure((1,), 0, {**mixed, "g0": 3.0, "telescoped": 2.0}, 1.0).least == 2.0
    assert Exposure((1,), 0, mixed, 1.5).least == 1.5
    assert Exposure((1,), 0, mixed).least == 0.0


@pytest.mark.parametrize("noise_every", [0, 1, 2])
def test_round_by_round_the_first_and_the_best_are_those_of_the_table(noise_every):
    schedule = schedule_of(noise_every=noise_every, topology="erdos-renyi:0.6", rounds=5)
    for e in singles(schedule):
        rows = by_round(schedule, e.attackers, e.victim)
        assert len(rows) == 6
        assert rows[0][1] == math.inf
        assert [g for g, _ in rows[:2]] == pytest.approx([e.values["g0"], e.values["g1"]])
        assert min(change for _, change in rows) == pytest.approx(e.values["change"])


def test_rounds_that_only_average_tell_one_more_model():
    # Node 2 of a ring hears θ of node 1 once more, and with it what that heard of node 0 last.
    plain, finished = (
        [e.values for e in singles(schedule_of(rounds=1, topology="ring", finish=k))]
        for k in (0, 3)
    )
    assert all(b[t] <= a[t] + 1e-6 for a, b in zip(plain, finished, strict=True) for t in a)
    assert any(b["g1"] < a["g1"] for a, b in zip(plain, finished, strict=True))
