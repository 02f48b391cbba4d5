"""Ticks on round numbers, whatever the figures are, and figures as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lppa.report.formats import figure, percent, plural, seconds
from lppa.report.markup import Markup, tag
from lppa.report.scales import linear, logarithmic, rounds_scale

FIGURES = some.floats(-1e300, 1e300, allow_nan=False)


def plain(value, decimals):
    return f"{value:.{decimals}f}"


def test_a_linear_scale_ends_on_round_numbers_around_the_figures():
    scale = linear([0.13, 0.97], plain)
    assert [label for _, label in scale.ticks] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert scale.place(0.0) == 0
    assert scale.place(1.0) == 1


def test_figures_that_are_all_the_same_are_in_the_middle():
    assert linear([0.5, 0.5], plain).place(0.5) == pytest.approx(0.5, abs=0.3)
    assert linear([0.0], plain).place(0.0) == pytest.approx(0.5, abs=0.3)


@settings(deadline=None)
@given(some.lists(FIGURES, min_size=1, max_size=5))
def test_every_figure_is_inside_of_its_linear_scale(values):
    scale = linear(values, plain)
    assert 2 <= len(scale.ticks) <= 9
    assert all(-0.01 <= scale.place(value) <= 1.01 for value in values)


@settings(deadline=None)
@given(some.lists(some.floats(0, 1e300, allow_nan=False), min_size=1, max_size=5))
def test_every_figure_is_inside_of_its_logarithmic_scale(values):
    scale = logarithmic(values)
    assert (2 if any(values) else 1) <= len(scale.ticks) <= 9
    assert all(-0.01 <= scale.place(value) <= 1.01 for value in values)
    assert all(math.isfinite(scale.place(value)) for value, _ in scale.ticks)


def test_zero_lies_below_all_decades():
    scale = logarithmic([0.0, 1e-8, 1e-3])
    assert scale.ticks[0] == (0.0, "0")
    assert scale.place(0.0) < scale.place(1e-8) < scale.place(1e-3)


@settings(deadline=None)
@given(some.lists(some.integers(0, 10**9), min_size=1, max_size=5))
def test_rounds_have_whole_ticks_inside_of_the_chart(rounds):
    scale = rounds_scale(rounds)
    labels = [label for _, label in scale.ticks]
    assert len(labels) == len(set(labels))
    assert all(-0.001 <= scale.place(value) <= 1.001 for value, _ in scale.ticks)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "–"),
        (0.0, "0"),
        (3.2e-7, "3.2 × 10⁻⁷"),
        (9.99e-8, "1 × 10⁻⁷"),
        (0.123456, "0.123"),
        (12345.6, "12,346"),
        (-2e12, "-2 × 10¹²"),
    ],
)
def test_figures_have_few_digits(value, written):
    assert figure(value) == written


def test_times_and_shares_have_their_units():
    assert [seconds(s) for s in (0.0, 0.0123, 5, 125, 7300)] == [
        "0 ms",
        "12 ms",
        "5.0 s",
        "2 min 5 s",
        "2 h 1 min",
    ]
    assert percent(0.98765, 2) == "98.77%"
    assert plural(1, "class", "classes") == "1 class"
    assert plural(1200, "class", "classes") == "1,200 classes"


def test_text_is_escaped_and_markup_is_not():
    inner = tag("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert tag("p", inner, "<i>", [Markup("<br>")], None) == f"<p>{inner}&lt;i&gt;<br></p>"
    assert tag("img", alt='"', src=None) == '<img alt="&quot;">'
    assert "\x00" not in tag("p", "a\x00b\ud800")
