"""What is taken from attackers' logs, where the graph changed in them."""

from __future__ import annotations

import numpy as np
import pytest

from lppa.attack.knowledge import read_knowledge
from lppa.attack.observation import OBSERVATIONS
from lppa.attack.solving import last_whole_round
from lppa.coordinator.views import first_view, make_view
from lppa.node.log import LogWriter
from lppa.protocol.errors import WrongUse
from lppa.protocol.messages import Noise, Seed, State
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint

SETTINGS = make_settings({"dataset": "quadratic", "rule": "dsgt", "seed": 1})
BLUEPRINT = make_blueprint(SETTINGS, 4, "run")


def vector(number):
    return np.full(3, number, np.float32)


def state(epoch, t):
    number = 10 * epoch + t
    return State(epoch, t, {"theta": vector(number), "gamma": vector(number)})


@pytest.fixture
def recorded(tmp_path):
    """What node 1 knows that heard these messages, as (peer, message), in one view of the graph."""

    def read(*messages, view=None):
        path = tmp_path / "node-1.log"
        writer = LogWriter(path, "run", 1, BLUEPRINT.plan(1, view or first_view(BLUEPRINT)))
        for peer, message in messages:
            writer("in", peer, message)
        writer.close()
        return read_knowledge([path], BLUEPRINT.W)

    return read


def test_what_was_said_from_a_change_of_the_graph_on_is_not_known(recorded):
    first, second = np.zeros(32, np.uint8), np.ones(32, np.uint8)
    known = recorded(
        (0, Seed(0, 0, first, first)),
        *((0, state(0, t)) for t in range(4)),
        (0, Noise(0, 2, vector(0.5))),
        (0, Noise(0, 3, vector(0.5))),
        (0, Seed(1, 2, second, second)),
        (0, Noise(1, 2, vector(0.7))),
        *((0, state(1, t)) for t in range(2, 5)),
    )
    assert known.change == 2
    assert sorted(known.states) == [(0, 0), (0, 1)]
    assert known.vector(0, 1, "gamma").tolist() == [1, 1, 1]
    assert not known.noise
    assert known.seeds == {(0, 1): first.tobytes()}
    with pytest.raises(WrongUse, match=r"the graph changed in round 2 .* this needs round 3"):
        known.vector(0, 3, "theta")


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_a_graph_that_changed_in_the_first_round_leaves_nothing_to_attack(recorded, observation):
    known = recorded((0, state(0, 0)), (0, state(1, 0)), (0, state(1, 1)), (0, state(2, 1)))
    with pytest.raises(WrongUse, match="the graph changed in round 0 "):
        OBSERVATIONS[observation](known, 0, 0)


def test_one_that_came_later_does_not_know_the_first_graph(recorded):
    view = make_view(BLUEPRINT, range(4), 2, 7, newcomers=(1,))
    with pytest.raises(WrongUse, match="node 1 began to record when the graph had changed"):
        recorded((0, state(2, 7)), view=view)


def test_equations_end_with_the_last_round_that_was_heard_of_all(recorded):
    heard = [(peer, state(0, t)) for t in range(3) for peer in (0, 2)]
    known = recorded(*heard, (2, state(0, 3)))
    assert last_whole_round(known, 0) == 2
    assert last_whole_round(known, 1) == 2
