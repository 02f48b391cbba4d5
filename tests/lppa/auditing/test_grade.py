"""The three grades: exact at their edges, and the lowest counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.auditing.assemble import case_of
from lppa.auditing.exposure import Exposure, exposures
from lppa.auditing.grade import (
    GRADES,
    HIDDEN_FROM,
    MEANING,
    OPEN_BELOW,
    grade_of,
    graded,
    worst,
)
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

RATIOS = st.floats(1e-9, 1e9)


def exposure(unseen=0.0, **values):
    return Exposure((1,), 0, values, unseen)


def test_an_edge_belongs_to_the_better_grade():
    assert (OPEN_BELOW, HIDDEN_FROM) == (6.0, 20.0)
    below = [math.nextafter(edge, 0.0) for edge in (OPEN_BELOW, HIDDEN_FROM)]
    assert [grade_of(r) for r in (0.0, *below)] == ["open", "open", "weak"]
    assert [grade_of(r) for r in (OPEN_BELOW, HIDDEN_FROM)] == ["weak", "hidden"]
    assert grade_of(math.inf) == "hidden"


@given(RATIOS, RATIOS)
def test_more_noise_never_has_a_worse_grade(one, other):
    ranks = [GRADES.index(grade_of(ratio)) for ratio in sorted((one, other))]
    assert ranks == sorted(ranks)


@given(RATIOS, st.floats(1e-6, 1e6))
def test_the_ratio_is_that_of_the_least_noise_to_the_size(least, size):
    ratio, grade = graded(exposure(g0=2 * least, change=least, g1=math.inf), size)
    assert ratio == pytest.approx(least / size)
    assert grade == grade_of(ratio)


def test_what_is_exact_is_open_whatever_its_size():
    for size in (None, 1e-9, 1.0):
        assert graded(exposure(g0=0.0, change=100.0, unseen=100.0), size) == (0.0, "open")


def test_what_is_mixed_has_the_unknown_noise_on_it_and_is_weak_without():
    mixed = {"g0": math.inf, "change": math.inf}
    assert graded(exposure(**mixed), 1e-9) == (None, "weak")
    assert graded(exposure(**mixed, unseen=20.0), 1.0) == (20.0, "hidden")
    assert graded(exposure(**mixed, unseen=2.0), 1.0) == (2.0, "open")


def test_where_there_is_no_example_to_hide_there_is_no_ratio():
    assert graded(exposure(g0=1e9), None) == (None, "weak")
    assert graded(exposure(g0=math.inf, unseen=1e9), None) == (None, "weak")


@given(st.lists(st.sampled_from(GRADES)))
def test_the_worst_of_several_is_the_first_in_the_list_of_grades_that_is_among_them(grades):
    assert worst(grades) == next((grade for grade in GRADES if grade in grades), "hidden")
    assert worst(iter(grades)) == worst(grades)


def test_every_grade_has_a_meaning():
    assert tuple(MEANING) == GRADES


def test_what_only_others_gradients_hide_later_is_weak_however_large_the_first_noise():
    # Noise at the start only, on a directed ring: the change is mixed, and bare of any noise.
    settings = {"topology": "directed-ring", "init": "independent", "beta": 2.0, "seed": 1}
    for every, expected in ((0, "weak"), (1, "hidden")):
        told = make_settings({**settings, "noise_every": every, "mixing": "combine-then-adapt"})
        case = case_of(make_blueprint(told, 5, "test"), 4)
        (found,) = exposures(case.schedule(), [1], [0])
        assert found.bare == (every == 0)
        assert graded(found, 0.001)[1] == expected
