"""How many last rounds only average the models, where nobody says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lppa.protocol.settings import make_settings
from lppa.running.prepare import CLOSE, make_blueprint


def chosen(nodes=5, **told):
    return make_blueprint(make_settings({"seed": 1, "rounds": 80, **told}), nodes, "x")


def left(W, k):
    """What k rounds leave of how far models are apart, at worst."""
    return np.abs(np.linalg.eigvals(np.linalg.matrix_power(W - 1 / len(W), k))).max()


@given(st.sampled_from(["ring", "star", "torus", "random-regular:4", "exponential"]))
@settings(deadline=None, max_examples=10)
def test_models_come_as_close_as_asked_with_no_round_too_many(topology):
    blueprint = chosen(9, topology=topology, rounds=1000)
    k = blueprint.settings.finishing
    assert left(blueprint.W, k) <= CLOSE < left(blueprint.W, k - 1)


def test_where_one_round_makes_all_models_one_there_is_nothing_to_do():
    assert chosen(topology="full").settings.finish == 0


@pytest.mark.parametrize(("rounds", "most"), [(80, 8), (19, 1), (9, 0)])
def test_no_more_than_a_tenth_of_the_rounds(rounds, most):
    assert chosen(64, topology="directed-ring", rounds=rounds).settings.finish == most


def test_who_names_a_number_gets_it_and_a_rule_of_one_s_own_is_left_alone():
    assert chosen(topology="ring", finish=2).settings.finish == 2
    assert chosen(topology="full", finish=3).settings.total == 83
    assert chosen(topology="ring", rule="own/push").settings.finish == 0
