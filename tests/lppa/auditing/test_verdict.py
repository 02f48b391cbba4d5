"""The exact words of a verdict, from findings that are made up: which pair is named, and why."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_findings import EVERY, FREE, NO_EXAMPLES, NOTHING_ALONE, case, judged, pair, sentences

from lppa.auditing.exposure import exposures


def test_where_nothing_is_exact_that_is_said():
    assert sentences([pair(1, 0)]) == [NOTHING_ALONE]
    assert not judged([pair(1, 0)]).bad
    together = [pair((1, 2), 0), pair((1, 2), 3)]
    assert sentences(together) == [
        "These attackers learn no gradient and no change of a gradient exactly."
    ]
    assert not judged(together).bad


def test_where_all_is_hidden_there_is_nothing_to_advise():
    enough, short = (judged([pair(1, 0, g0=20 * 0.01 / 0.5 + d)], **FREE) for d in (0.001, -0.001))
    assert (enough.advice, enough.bad, enough.grade) == (None, False, "hidden")
    assert (short.advice, short.bad, short.grade) == (f"use {EVERY}", False, "weak")


def test_one_exact_pair_among_many_is_bad():
    for exact in range(3):
        found = [pair(1, v, g1=0.0 if k == exact else 1.0) for k, v in enumerate((0, 2, 3))]
        verdict = judged(found, **FREE)
        assert (verdict.bad, verdict.grade) == (True, "open")
        assert verdict.advice == "use --noise-every 1 --noise-exchange seed"


def test_notes_come_last():
    assert judged([pair(1, 0)], {0: None}, (), ["a note", "and one"]).sentences[-2:] == [
        "a note",
        "and one",
    ]


def test_the_first_victims_first_attacker_is_the_example_and_all_are_counted():
    found = [
        pair(2, 1, change=0.0, g0=1.0),
        pair(3, 0, change=0.0, g0=1.0),
        pair(2, 0, change=0.0, g0=2.0),
        pair(1, 0, g0=3.0),
    ]
    assert sentences(found) == [
        "node 2 learns node 0's gradient change exactly after round 1: start-only noise does not "
        "hide it (3 of 4 pairs of attacker and victim)",
        "Where it is not exact, the least noise on a first gradient is 1 β (standard deviation): "
        "node 2 on node 1.",
    ]


def test_each_kind_of_leak_has_its_sentence_and_its_count():
    found = [pair((1, 3), 0, g0=0.0, change=0.0), pair((1, 3), 2, change=0.0), pair((1, 3), 4)]
    assert sentences(found) == [
        "nodes 1, 3 together learn node 0's first gradient exactly: what noise is left cancels "
        "(1 of 3 pairs of attacker and victim)",
        "nodes 1, 3 together learn node 0's gradient change exactly after round 1: start-only "
        "noise does not hide it (2 of 3 pairs of attacker and victim)",
    ]


def test_whatever_else_leaks_is_named_by_its_targets():
    found = [pair(1, 0), pair(1, 3, telescoped=0.0), pair(1, 2, g1=0.0, telescoped=0.0)]
    assert sentences(found) == [
        "node 1 learns something of node 2 exactly (g1, telescoped; 2 of 3 pairs of attacker and "
        "victim)"
    ]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"rule": "dsgt"}, "dsgt adds no noise"),
        ({"rule": "dsgt", "beta": 0}, "dsgt adds no noise"),
        ({"rule": "dp", "beta": 0}, "noise of scale 0 is none"),
        ({"beta": 0}, "noise of scale 0 is none"),
        ({"beta": 0, "dataset": "quadratic", "hide": None}, "noise of scale 0 is none"),
    ],
    ids=str,
)
def test_without_noise_nothing_is_hidden_and_why_is_said(settings, why):
    found = [pair((2, 3), 1, g0=0.0), pair((2, 3), 0), pair((2, 3), 4, change=0.0)]
    assert [s for s in sentences(found, **settings) if s != NO_EXAMPLES] == [
        f"nothing is hidden: {why}, and nodes 2, 3 together learn node 1's gradients exactly "
        "(2 of 3 pairs of attacker and victim)"
    ]
    alone = sentences([pair(2, 1, g0=0.0)], **settings)
    assert "and node 2 learns node 1's gradients" in alone[0]
    assert NOTHING_ALONE in sentences([pair(2, 1)], **settings)


def reason(found, **settings):
    """Why the example is learned, without what comes before and after."""
    return sentences([found], **settings)[0].split(": ")[1].split(" (")[0]


def test_the_reason_is_the_neighbours_where_they_attack_and_the_gaps_elsewhere():
    ring = {"topology": "ring"}
    surrounded = "all neighbours of node 0 attack, and know all noise that it adds"
    assert reason(pair((1, 4), 0, g0=0.0), **ring) == surrounded
    assert reason(pair((1, 2, 4), 0, g0=0.0), **ring) == surrounded
    assert reason(pair((1, 3), 0, g0=0.0), **ring) == "what noise is left cancels"
    leaf = pair(0, 3, g0=0.0)
    assert reason(leaf, topology="star") == "its only neighbour knows all noise that it adds"
    assert reason(pair(1, 0, g0=0.0), topology="star") == "what noise is left cancels"
    # A change that is learned although there is noise in every round has the same reasons.
    both, one = pair((1, 4), 0, change=0.0), pair(1, 0, change=0.0)
    assert reason(both, noise_every=1, **ring) == surrounded
    assert reason(one, noise_every=1, **ring) == "what noise is left cancels"
    # With noise in some rounds only, those without are the reason, whoever attacks.
    for change in (both, one):
        assert reason(change, **ring) == "start-only noise does not hide it"
        assert reason(change, noise_every=3, **ring) == (
            "noise every 3 rounds leaves the rounds between without any"
        )


@settings(max_examples=12)
@given(
    topology=st.sampled_from(["full", "ring", "directed-ring", "star"]),
    nodes=st.integers(3, 6),
    rounds=st.integers(1, 6),
    common=st.booleans(),
)
def test_the_round_that_is_said_is_the_first_after_which_the_change_is_exact(
    topology, nodes, rounds, common
):
    options = {"topology": topology, "init": "common" if common else "independent", "finish": 0}
    whole = case(nodes, rounds, **options)
    for found in exposures(whole.schedule(), [1]):
        if "change" in found.exact:
            (text,) = [
                s for s in sentences([found], nodes=nodes, rounds=rounds, **options) if "round" in s
            ]
            said = int(text.split(" exactly after round ")[1].split(":")[0])
            exact = [
                "change"
                in exposures(case(nodes, t, **options).schedule(), [1], [found.victim])[0].exact
                for t in range(1, rounds + 1)
            ]
            assert said == 1 + exact.index(True)


def test_what_takes_all_rounds_is_said_to_take_all():
    # Made up: in truth a node on a directed ring of five never learns it by itself.
    found = pair(1, 0, change=0.0)
    for rounds in (1, 3):
        (text,) = sentences([found], topology="directed-ring", rounds=rounds)
        assert f"exactly after round {rounds}:" in text
