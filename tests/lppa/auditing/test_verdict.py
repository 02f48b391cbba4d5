"""The exact words of a verdict, from findings that are made up: which pair is named, and why."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lppa.auditing.assemble import GIVEN, RUN, TABLE, Hidden, case_of
from lppa.auditing.collusion import Collusion
from lppa.auditing.exposure import Exposure, exposures
from lppa.auditing.verdict import advice, judge
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

UNKNOWN = math.inf
NO_EXAMPLES = "The quadratic problem has no examples to hide: no grade beyond what is exact."
HIDE = Hidden(0.01, GIVEN)
GRADED = ("Open: ", "Weak: ", "Hidden: ")
SUM = (
    "The sum of all clients' gradients is known to all: noise that cancels cancels in it. Who "
    "subtracts its own share has the mean over the others' examples"
)
NOTHING_ALONE = "No node alone learns a gradient or a change of a gradient exactly."


def case(nodes=5, rounds=4, hide=HIDE, **settings):
    """Noise at the start only, far more than is needed, unless something else is asked for."""
    given = {
        **{"local_steps": 1, "init": "independent", "mixing": "combine-then-adapt", "seed": 1},
        **{"noise_every": 0, "noise_exchange": "tensor", "beta": 0.5},
    }
    blueprint = make_blueprint(make_settings({**given, **settings}), nodes, "test")
    return case_of(blueprint, rounds, hide)


def pair(attackers, victim, unseen=0.0, **values):
    """An attacker, or several, that learn nothing but what is given."""
    nothing = dict.fromkeys(("g0", "g1", "change", "telescoped"), UNKNOWN)
    attackers = (attackers,) if isinstance(attackers, int) else tuple(attackers)
    return Exposure(attackers, victim, {**nothing, **values}, unseen)


def judged(found, sets=None, unsure=(), notes=(), nodes=5, rounds=4, **settings):
    collusion = Collusion(dict(sets or {}), set(unsure))
    return judge(case(nodes, rounds, **settings), found, collusion, notes)


def sentences(found, *rest, **settings):
    """What is said besides the grade and the sum of all, which have tests of their own."""
    told = judged(found, *rest, **settings).sentences
    return [s for s in told if not s.startswith(GRADED) and not s.startswith(SUM)]


# One averaging takes all noise out: models bear any.
FREE = {"mixing": "adapt-then-combine", "weights": "uniform"}


def advised(found, nodes=5, **settings):
    asked = case(nodes, **settings)
    return advice(asked, asked.schedule(), found)


# --- what is learned exactly --------------------------------------------------------------------


def test_where_nothing_is_exact_that_is_said():
    assert sentences([pair(1, 0)]) == [NOTHING_ALONE]
    assert not judged([pair(1, 0)]).bad
    together = [pair((1, 2), 0), pair((1, 2), 3)]
    assert sentences(together) == [
        "These attackers learn no gradient and no change of a gradient exactly."
    ]
    assert not judged(together).bad


def test_where_all_is_hidden_there_is_nothing_to_advise():
    enough, short = (judged([pair(1, 0, g0=20 * 0.01 / 0.5 + d)]) for d in (0.001, -0.001))
    assert (enough.advice, enough.bad, enough.grade) == (None, False, "hidden")
    assert (short.advice, short.bad, short.grade) == (f"use {EVERY}", False, "weak")


def test_one_exact_pair_among_many_is_bad():
    for exact in range(3):
        found = [pair(1, v, g1=0.0 if k == exact else 1.0) for k, v in enumerate((0, 2, 3))]
        verdict = judged(found)
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
    options = {"topology": topology, "init": "common" if common else "independent"}
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


# --- what is not exact --------------------------------------------------------------------------


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


# --- how well it is hidden ----------------------------------------------------------------------


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


# --- who must collude ---------------------------------------------------------------------------


CANCELS = "Noise that cancels never hides a node from all its neighbours together."


def colluders(sets, unsure=(), **settings):
    return sentences([pair(1, 0)], sets, unsure, **settings)[1:]


def test_how_many_must_collude_is_said_with_the_fewest_as_the_example():
    sets = {4: (0, 1), 3: (1, 2), 2: (0, 1, 3, 4), 1: (0,), 0: None}
    assert colluders(sets, topology="full", rule="dp") == [
        "Of nodes 2, 3, 4 nothing is learned exactly unless 2 to 4 nodes collude: nodes 1, 2 "
        "against node 3.",
        "Of node 0 no set of colluders learns anything exactly: noise that nobody else knows "
        "stays on all that is sent.",
    ]
    far = {0: tuple(range(1, 9)), 1: (2, 3, 4), 2: (0, 1)}
    assert "unless 2 to 8 nodes collude" in colluders(far, nodes=12, rule="dp")[0]
    assert colluders({2: (0, 1, 3)}, rule="dp") == [
        "Of node 2 nothing is learned exactly unless 3 nodes collude: nodes 0, 1, 3 against node 2."
    ]


def test_of_a_victim_whom_one_learns_alone_no_collusion_is_said():
    assert colluders({0: (1,), 1: (0,)}) == []
    assert colluders({}) == []


def test_noise_that_cancels_is_blamed_where_all_neighbours_are_the_set():
    ring = {"topology": "ring"}
    assert CANCELS in colluders({0: (1, 4)}, **ring)
    assert CANCELS in colluders({0: (1, 3), 2: (1, 3, 4)}, **ring)
    assert CANCELS not in colluders({0: (1, 3)}, **ring)
    assert CANCELS not in colluders({0: (1, 4)}, beta_own=0.1, **ring)
    assert CANCELS not in colluders({0: (1, 4)}, rule="dp", **ring)
    # One neighbour alone is no collusion.
    assert CANCELS not in colluders({1: (0,)}, topology="star")


def test_doubt_is_said_of_those_whom_it_is_about():
    sets = {0: (1, 2, 3), 2: (0, 1), 3: (0, 1, 2)}
    assert colluders(sets, {3, 0}, rule="dp")[-1] == (
        "The search for colluders was cut: for nodes 0, 3 a smaller set may exist."
    )
    assert not any("cut" in sentence for sentence in colluders(sets, rule="dp"))


def test_up_to_six_nodes_are_named_and_more_are_counted():
    for nodes, named in ((6, "nodes 0, 1, 2, 3, 4, 5"), (7, "7 nodes")):
        (text,) = colluders(dict.fromkeys(range(nodes)), nodes=8)
        assert text.startswith(f"Of {named} no set of colluders")


# --- what to change -----------------------------------------------------------------------------


EVERY = "--noise-every 1 --noise-exchange seed"
MORE = " (or more examples in a gradient: a larger --batch, more --local-steps)"
# 30 times a share of 0.01 over what is left of β: √12 of noise on the edges of a full graph of
# five, √2 of one draw.
EDGE, DRAW = "--beta 0.12", 0.28


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, f"use {EVERY}"),
        ({"noise_every": 2}, f"use {EVERY}"),
        ({"noise_exchange": "seed"}, "use --noise-every 1"),
        ({"rule": "dp"}, "use --noise-every 1"),
        ({"rule": "dsgt"}, f"use --rule lppa {EVERY}"),
        ({"rule": "dsgt", "noise_every": 1}, "use --rule lppa"),
        ({"rule": "dsgt", "beta": 0}, f"use --rule lppa {EVERY} {EDGE}{MORE}"),
        ({"beta": 0}, f"use {EVERY} {EDGE}{MORE}"),
        ({"beta": 0.11, "noise_every": 1}, f"use {EDGE}{MORE}"),
        ({"beta": 0.12, "noise_every": 1}, ""),
        ({"beta": 0.05, "noise_every": 1, "topology": "ring"}, f"use --beta 0.2{MORE}"),
        ({"rule": "dp", "beta": 0, "noise_every": 1}, f"use --beta {DRAW}{MORE}"),
        ({"rule": "dp", "beta": 0.27, "noise_every": 1}, f"use --beta {DRAW}{MORE}"),
        ({"rule": "dp", "beta": 0.28, "noise_every": 1}, ""),
        ({"beta": 0, "beta_own": 0.1}, f"use {EVERY} {EDGE}{MORE}"),
        ({"beta": 0, "beta_own": DRAW}, f"use {EVERY}"),
    ],
    ids=str,
)
def test_the_advice_is_what_is_missing_and_no_more(settings, expected):
    assert advised([pair(1, 0, change=0.0)], **settings) == expected


@pytest.mark.parametrize("settings", [{}, {"rule": "dsgt"}], ids=str)
def test_where_a_beta_that_nobody_named_would_be_chosen_smaller_it_is_named(settings):
    # On a directed ring, noise in every round keeps models further apart than at the start only.
    ring = {"topology": "directed-ring", "hide": None, "local_steps": 10, **settings}
    found, table = [pair(1, 0, change=0.0)], " --beta 0.11"
    assert advised(found, **ring, beta="auto").endswith(f"{EVERY}{table}{MORE}")
    assert advised(found, **ring, beta=0.12).endswith(EVERY)
    assert advised(found, beta="auto", hide=None, **FREE, **settings).endswith(EVERY)


def surrounding(nodes):
    return f" (noise on edges hides nothing of {nodes} from an attacker that is all its neighbours)"


def test_against_all_neighbours_together_own_noise_is_advised():
    ring, both = {"topology": "ring", "noise_every": 1}, [pair((1, 4), 0, g0=0.0)]
    own = f"--beta-own {DRAW}"
    assert advised(both, **ring) == f"use {own}{surrounding('node 0')}"
    # Noise on edges would not help against them, and is not asked for.
    assert advised(both, **ring, beta=0.001) == f"use {own}{surrounding('node 0')}"
    assert advised(both, **ring, beta_own=0.2) == f"use {own}{surrounding('node 0')}"
    assert advised(both, topology="ring") == f"use {EVERY} {own}{surrounding('node 0')}"
    assert advised(both, topology="ring", rule="dsgt") == (
        f"use --rule lppa {EVERY} {own}{surrounding('node 0')}"
    )
    assert advised(both, **ring, rule="dp") == ""
    assert advised(both, **ring, beta_own=DRAW) == ""
    assert advised([pair((1, 3), 0, g0=0.0)], **ring) == ""
    # Of the hub, whom one leaf does not surround, noise on edges hides enough: √12 β again.
    star = [pair(0, v, g0=0.0) for v in (3, 1)] + [pair(1, 0)]
    assert advised(star, topology="star", noise_every=1) == f"use {own}{surrounding('nodes 1, 3')}"
    assert advised(star, topology="star", noise_every=1, beta=0.08) == (
        f"use {own} {EDGE}{surrounding('nodes 1, 3')}"
    )


def test_without_examples_to_hide_any_noise_is_advised_where_there_is_none():
    quadratic = {"dataset": "quadratic", "hide": None, "noise_every": 1}
    open_ring, ring = [pair(1, 0, g0=0.0)], [pair((1, 4), 0, g0=0.0)]
    assert advised(open_ring, **quadratic) == ""
    assert advised(open_ring, **quadratic, beta=0) == "use --beta 0.025"
    assert advised(open_ring, **quadratic, rule="dp", beta=0) == "use --beta 0.025"
    assert advised(open_ring, **quadratic, beta=0, beta_own=0.1) == ""
    quadratic["topology"] = "ring"
    assert advised(ring, **quadratic) == f"use --beta-own 0.5{surrounding('node 0')}"
    assert advised(ring, **quadratic, beta=0) == f"use --beta-own 0.025{surrounding('node 0')}"
    assert advised(ring, **quadratic, beta_own=0.1) == ""
