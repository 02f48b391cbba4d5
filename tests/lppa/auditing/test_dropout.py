"""A neighbour that leaves takes its noise with it: as if it told its edges' draws."""

from __future__ import annotations

import math

import pytest

from lppa.auditing.assemble import GIVEN, Hidden, case_of
from lppa.auditing.collusion import neighbours
from lppa.auditing.dropout import worst_dropout
from lppa.auditing.exposure import exposures
from lppa.auditing.show import dropout_sentence
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint


def case(nodes=5, hide=0.01, **settings):
    given = {"seed": 1, "beta": 0.5, **settings}
    blueprint = make_blueprint(make_settings(given), nodes, "test")
    return case_of(blueprint, hide=Hidden(hide, GIVEN) if hide else None)


def dropout(nodes=5, **settings):
    asked = case(nodes, **settings)
    return worst_dropout(asked, asked.schedule())


@pytest.mark.parametrize("own", [0.0, 0.1])
@pytest.mark.parametrize("topology", ["full", "ring", "star", "erdos-renyi:0.7"])
def test_it_is_what_the_one_that_left_and_a_neighbour_would_find_together(topology, own):
    asked = case(6, topology=topology, beta_own=own)
    schedule = asked.schedule()
    least = {}
    for victim in range(6):
        around = neighbours(schedule, victim)
        for gone in around:
            for spy in around - {gone}:
                (found,) = exposures(schedule, (gone, spy), [victim])
                least[victim, gone, spy] = found.values["g0"]
    told = worst_dropout(asked, schedule)
    noise = 0.0 if told["noise"] == "exact" else told["noise"]
    assert noise == pytest.approx(min(least.values()))
    (spy,) = told["attackers"]
    assert least[told["victim"], told["gone"], spy] == pytest.approx(noise)
    # β = 0.5: a share of 0.01 is 0.02 of it.
    assert told["ratio"] == pytest.approx(noise / 0.02)


def test_on_a_full_graph_most_is_left_and_on_a_ring_nothing():
    full, ring = dropout(), dropout(topology="ring")
    assert full["noise"] == pytest.approx(math.sqrt(2 * 4), rel=1e-6)
    assert (full["victim"], full["gone"], full["attackers"]) == (0, 1, [2])
    assert full["grade"] == "hidden"
    assert (ring["noise"], ring["ratio"], ring["grade"]) == ("exact", 0.0, "open")
    assert dropout_sentence(full) == (
        "If node 1 leaves, 2.83 β of node 0's noise is left against node 2: hidden."
    )
    assert dropout_sentence(ring) == (
        "If node 1 leaves, nothing of node 0's noise is left against node 4: open."
    )


@pytest.mark.parametrize(("beta", "grade"), [(0.03, "weak"), (0.2, "hidden"), (0.005, "open")])
def test_the_grade_is_that_of_what_is_left(beta, grade):
    # √8 β is left, over a share of 0.01.
    assert dropout(beta=beta)["grade"] == grade


def test_of_noise_of_ones_own_nothing_goes():
    assert dropout(rule="dp")["noise"] == pytest.approx(math.sqrt(2), rel=1e-6)
    assert dropout(topology="ring", beta_own=0.5)["noise"] == pytest.approx(math.sqrt(2), rel=1e-6)


def test_noise_at_the_start_only_is_counted_while_it_is_there():
    assert dropout(noise_every=0) == dropout(noise_every=1)


def test_without_noise_or_without_anybody_who_stays_there_is_nothing_to_say():
    assert dropout(rule="dsgt") is None
    assert dropout(beta=0) is None
    assert dropout(2) is None


def test_without_examples_there_is_no_ratio():
    for topology, grade in (("full", "weak"), ("ring", "open")):
        told = dropout(topology=topology, dataset="quadratic", hide=None)
        assert (told["ratio"], told["grade"]) == (None, grade)
