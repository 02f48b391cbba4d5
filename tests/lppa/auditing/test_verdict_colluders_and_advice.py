"""The words of a verdict on who must collude, and on what to change."""

from __future__ import annotations

import pytest
from made_up_findings import EVERY, FREE, advised, pair, sentences

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


MORE = " (or more examples in a gradient: a larger --batch, more --local-steps)"
# 30 times a share of 0.01 over what is left of β: √12 of noise on the edges of a full graph of
# five, √2 of one draw.
EDGE, DRAW = "--beta 0.12", 0.28
# Whoever takes gradients before models have met bears less.
DEAR = ", which costs accuracy on this graph, or --mixing adapt-then-combine"
DEAR_TOO = ", which costs accuracy on this graph, or --weights uniform"
RANDOM = {"weights": "random"}
SPARSE = ", which costs accuracy on this graph, or a denser --topology"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # β is 0.5 here, more than models bear in every round.
        ({}, f"use {EVERY} {EDGE}{DEAR}{MORE}"),
        ({"noise_every": 2}, f"use {EVERY} {EDGE}{DEAR}{MORE}"),
        ({"noise_exchange": "seed"}, f"use --noise-every 1 {EDGE}{DEAR}{MORE}"),
        (FREE, f"use {EVERY}"),
        ({"rule": "dp"}, "use --noise-every 1"),
        ({"rule": "dsgt"}, f"use --rule lppa {EVERY} {EDGE}{DEAR}{MORE}"),
        ({"rule": "dsgt", "noise_every": 1}, f"use --rule lppa {EDGE}{DEAR}{MORE}"),
        ({"rule": "dsgt", "noise_every": 1, **FREE}, "use --rule lppa"),
        ({"beta": 0, **RANDOM}, f"use {EVERY} {EDGE}{DEAR_TOO}{MORE}"),
        ({"rule": "dsgt", "beta": 0}, f"use --rule lppa {EVERY} {EDGE}{DEAR}{MORE}"),
        ({"beta": 0}, f"use {EVERY} {EDGE}{DEAR}{MORE}"),
        ({"beta": 0.11, "noise_every": 1}, f"use {EDGE}{DEAR}{MORE}"),
        ({"beta": 0.12, "noise_every": 1}, ""),
        ({"beta": 0.05, "noise_every": 1, "topology": "ring"}, f"use --beta 0.2{SPARSE}{MORE}"),
        ({"rule": "dp", "beta": 0, "noise_every": 1}, f"use --beta {DRAW}{MORE}"),
        ({"rule": "dp", "beta": 0.27, "noise_every": 1}, f"use --beta {DRAW}{MORE}"),
        ({"rule": "dp", "beta": 0.28, "noise_every": 1}, ""),
        ({"beta": 0, "beta_own": 0.1}, f"use {EVERY} {EDGE}{DEAR}{MORE}"),
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
    assert advised(found, **ring, beta="auto").endswith(f"{EVERY}{table}{SPARSE}{MORE}")
    assert advised(found, **ring, beta=0.12).endswith(f"{EVERY}{table}{SPARSE}{MORE}")
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
    # Of what was too much already nothing is said, but where it is to be added in every round.
    less = "--beta 0.086"
    assert advised(both, topology="ring") == f"use {EVERY} {own} {less}{surrounding('node 0')}"
    assert advised(both, topology="ring", rule="dsgt") == (
        f"use --rule lppa {EVERY} {own} {less}{surrounding('node 0')}"
    )
    assert advised(both, **ring, rule="dp") == ""
    assert advised(both, **ring, beta_own=DRAW) == ""
    assert advised([pair((1, 3), 0, g0=0.0)], **ring) == ""
    # Of the hub, whom one leaf does not surround, noise on edges hides enough: √12 β again.
    star = [pair(0, v, g0=0.0) for v in (3, 1)] + [pair(1, 0)]
    assert advised(star, topology="star", noise_every=1) == f"use {own}{surrounding('nodes 1, 3')}"
    assert advised(star, topology="star", noise_every=1, beta=0.08) == (
        f"use {own} {EDGE}{SPARSE}{surrounding('nodes 1, 3')}"
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
