"""The words of a verdict on what is not exact: the least noise, and the grade of it."""

from __future__ import annotations

import pytest
from made_up_findings import (
    GRADED,
    NO_EXAMPLES,
    NOTHING_ALONE,
    SUM,
    UNKNOWN,
    judged,
    pair,
    sentences,
)

from lppa.auditing.assemble import GIVEN, RUN, TABLE, Hidden


def test_the_least_noise_is_that_of_the_best_placed_attacker():
    found = [
        pair(1, 0, g0=2.0, change=0.5),
        pair(2, 0, g0=1.23456, change=UNKNOWN),
        pair(1, 3, g0=UNKNOWN, change=4.0),
    ]
    assert sentences(found)[1:] == [
        "Where it is not exact, the least noise on a first gradient is 1.23 β (standard "
        "deviation): node 2 on node 0.",
        "Where it is not exact, the least noise on a gradient change is 0.5 β (standard "
        "deviation): node 1 on node 0.",
    ]
    # A first gradient about which there is nothing to say does not hide the change.
    (only,) = sentences([pair(1, 0, change=2.0)])[1:]
    assert "on a gradient change is 2 β" in only
    exact_or_unknown = [pair(1, 0, g0=0.0, change=UNKNOWN), pair(2, 0, g0=UNKNOWN)]
    assert not any("least noise" in s for s in sentences(exact_or_unknown))


def test_of_equals_but_for_rounding_the_first_attacker_and_its_first_victim_are_named():
    less = 1.0 - 4e-7
    found = [pair(2, 0, g0=less), pair(1, 3, g0=less), pair(1, 2, g0=1.0), pair(3, 1, g0=less)]
    assert sentences(found)[1].endswith("is 1 β (standard deviation): node 1 on node 2.")
    # What can be told apart is.
    nearer = [*found, pair(3, 4, g0=1.0 - 4e-6)]
    assert sentences(nearer)[1].endswith("node 3 on node 4.")


def test_noise_of_ones_own_alone_is_counted_in_its_own_scale():
    found = [pair(1, 0, g0=1.0)]
    assert " is 1 β_own (standard" in sentences(found, beta=0, beta_own=0.1)[1]
    assert " is 1 β (standard" in sentences(found, beta_own=0.1)[1]


def graded_sentence(found, **settings):
    (text,) = [s for s in judged(found, **settings).sentences if s.startswith(GRADED)]
    return text


@pytest.mark.parametrize(
    ("ratio", "grade", "bounds"),
    [
        (0.5, "Open", "below 6 examples can be rebuilt"),
        (5.999, "Open", "below 6 examples can be rebuilt"),
        (6.001, "Weak", "from 6 to 20 more than a guess leaks"),
        (19.99, "Weak", "from 6 to 20 more than a guess leaks"),
        (
            20.01,
            "Hidden",
            "from 20 on our best attack on a single example gets no more than a guess",
        ),
    ],
)
def test_the_grade_is_that_of_the_noise_over_an_examples_share(ratio, grade, bounds):
    # β = 0.5 and a share of 0.01: a share is 0.02 β.
    found = [pair(2, 3, g1=0.02 * ratio), pair(1, 0, g0=100.0)]
    assert graded_sentence(found) == (
        f"{grade}: the noise in the way of node 2 on node 3 is {ratio:.3g} times an example's "
        f"share of the gradient (0.01, as given); {bounds}."
    )
    assert judged(found).grade == grade.lower()


@pytest.mark.parametrize(
    ("hide", "source"),
    [
        (Hidden(0.0123456, TABLE, 64), "0.0123, as measured on such networks, one of 64"),
        (Hidden(0.01, RUN, 1), "0.01, as measured in this run, one of 1"),
        (Hidden(0.01, GIVEN), "0.01, as given"),
    ],
)
def test_where_the_size_of_a_share_is_from_is_said(hide, source):
    assert f"share of the gradient ({source}); " in graded_sentence([pair(1, 0, g0=1.0)], hide=hide)


def test_what_only_others_gradients_hide_is_weak_and_comes_before_what_noise_hides_weakly():
    told = (
        "Weak: nothing but other clients' gradients is in the way of nodes 1, 2 on node 0: they "
        "cannot be told apart by linear means, and no fresh noise is on them."
    )
    mixed, weak, hidden = pair((1, 2), 0), pair((1, 2), 3, g0=0.02 * 8), pair((1, 2), 4, g0=50.0)
    assert graded_sentence([hidden, weak, mixed]) == told
    assert graded_sentence([weak, hidden]).startswith("Weak: the noise in the way of nodes 1, 2 on")
    # Worse than that is what little noise hides; and fresh noise hides what is mixed.
    assert graded_sentence([mixed, pair((1, 2), 3, g0=0.02)]).startswith("Open: the noise")
    assert graded_sentence([pair((1, 2), 0, unseen=0.02 * 21)]).startswith("Hidden: the noise")
    assert graded_sentence([pair((1, 2), 0, unseen=0.02 * 7)]).startswith("Weak: the noise in")


def test_what_is_exact_is_said_before_the_grade_of_the_rest_and_has_none_of_its_own():
    exact, rest = pair(1, 0, g0=0.0), pair(1, 2, g0=50.0)
    both = judged([exact, rest])
    assert [s.split()[0] for s in both.sentences[:2]] == ["node", "Hidden:"]
    assert both.grade == "open"
    assert not any(s.startswith(GRADED) for s in judged([exact]).sentences)
    assert judged([rest]).sentences[0].startswith("Hidden:")
    assert judged([rest]).sentences[1] == NOTHING_ALONE


def test_the_quadratic_problem_has_nothing_to_hide_but_what_is_exact():
    quadratic = {"dataset": "quadratic", "hide": None}
    assert judged([pair(1, 0, g0=1.0)], **quadratic).sentences[:2] == [NO_EXAMPLES, NOTHING_ALONE]
    assert judged([pair(1, 0, g0=1.0)], **quadratic).grade == "weak"
    assert judged([pair(1, 0, g0=0.0)], **quadratic).grade == "open"


def summed(**settings):
    return [s for s in judged([pair(1, 0)], **settings).sentences if s.startswith(SUM)]


def test_that_the_sum_of_all_is_known_is_said_where_all_noise_cancels():
    assert summed() == [f"{SUM}."]
    assert summed(beta_own=0.1) == summed(rule="dp") == summed(rule="dsgt") == []
    assert summed(beta=0) == []
    assert summed(dataset="quadratic", hide=None) == []
    few = "; so few can be taken apart by attacks on batches"
    for examples, nodes, end in ((16, 5, f"64 or more{few}"), (13, 6, "65 or more")):
        told = summed(hide=Hidden(0.01, TABLE, examples), nodes=nodes)
        assert told == [f"{SUM}, here {end}."]


def test_an_example_that_counts_several_times_is_graded_and_told_so():
    hide = Hidden(0.01, TABLE, 64, spread=5.0)
    # 100 shares of 0.01 in β of 0.5: 20 times as it counts.
    found = [pair(1, 0, g0=0.02 * 100.1)]
    assert graded_sentence(found, hide=hide) == (
        "Hidden: the noise in the way of node 1 on node 0 is 20 times an example's share of the "
        "gradient (0.01, as measured on such networks, one of 64, counted 5 times as this network "
        "tells of it in so many numbers); from 20 on our best attack on a single example gets no "
        "more than a guess."
    )
    assert graded_sentence([pair(1, 0, g0=0.02 * 99.0)], hide=hide).startswith("Weak: ")
