"""Attacker × victim tables and smallest colluding sets, against what is known of the graphs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest

from lppa.coordinator.audit.assemble import case_of
from lppa.coordinator.audit.collusion import neighbours, smallest_sets
from lppa.coordinator.audit.exposure import exposures, plain, targets_of
from lppa.coordinator.plan import make_blueprint
from lppa.protocol.settings import make_settings


def schedule_of(nodes=5, rounds=4, **settings):
    given = {"local_steps": 1, "init": "independent", "mixing": "combine-then-adapt", "seed": 1}
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


def test_a_value_in_json_is_a_number_exact_or_nothing():
    assert [plain(v) for v in (0.0, math.inf, 2 * math.sqrt(3))] == ["exact", None, 3.4641016]


def test_a_record_names_attackers_in_order_and_has_every_target_as_json():
    ring = schedule_of(10, topology="directed-ring", init="common", rounds=2)
    (found,) = exposures(ring, [9, 8, 1], [0])
    # Node 1 hears node 0, whose noise came from node 9, another attacker, and went to node 1.
    assert found.record() == {
        **{"attackers": [1, 8, 9], "victim": 0},
        **dict.fromkeys(("g0", "g1", "change", "telescoped"), "exact"),
    }
    (unheard,) = exposures(ring, [9, 8, 1], [4])
    assert unheard.record() == {
        **{"attackers": [1, 8, 9], "victim": 4},
        **dict.fromkeys(("g0", "g1", "change", "telescoped")),
    }
    assert unheard.exact == []
    heard = exposures(ring, [1], [0])[0]
    assert heard.exact == [name for name, value in heard.record().items() if value == "exact"]
    assert heard.record()["g0"] == pytest.approx(math.sqrt(2))


def brute_force(schedule, victim):
    """The size of the smallest set, by looking at all."""
    others = [i for i in range(schedule.nodes) if i != victim]
    for size in range(1, len(others) + 1):
        for attackers in combinations(others, size):
            if exposures(schedule, attackers, [victim])[0].exact:
                return size
    return None


@pytest.mark.parametrize(
    "settings",
    [
        {"topology": "ring", "noise_every": 1},
        {"topology": "ring", "noise_every": 1, "local_steps": 2},
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
