"""What comes over a link is used only if it is what an honest neighbour would send now."""

from __future__ import annotations

import itertools
import queue

import numpy as np
import pytest

from lppa.protocol.codec import COORDINATOR, Envelope
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import LocalLinks, Neighbourhood
from lppa.protocol.messages import (
    Ask,
    Done,
    Failed,
    Greet,
    Hello,
    Metrics,
    Noise,
    Plan,
    Progress,
    Refuse,
    Seed,
    State,
    Stop,
    Taken,
    Waiting,
    Welcome,
    Who,
)
from lppa.protocol.sockets import NOBODY

SIZE, NODES, LAST = 5, 4, 100
SIZES = {"theta": SIZE, "gamma": SIZE}
FINE = np.arange(SIZE, dtype=np.float32)
BYTES = np.arange(32, dtype=np.uint8)
RUN = "run-1"


def around(me=0, inputs=(1, 2), outputs=(1, 2), timeout=20.0, **changes):
    changes = {"vectors": lambda t: SIZES if t < LAST else {"theta": SIZE}, **changes}
    changes = {"noise": lambda t: {4: Seed, 5: None}.get(t, Noise), **changes}
    return Neighbourhood(me, NODES, inputs, outputs, "float32", SIZE, timeout, **changes)


def state(round=0, theta=FINE, gamma=FINE, epoch=0):
    return State(epoch, round, {"theta": theta, "gamma": gamma})


@pytest.fixture
def links():
    return LocalLinks(around(timeout=0.05), [queue.SimpleQueue() for _ in range(NODES)])


def with_one(bad):
    array = FINE.copy()
    array[3] = bad
    return array


# --- every check --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sender", "message", "reason"),
    [
        pytest.param(3, state(), "not an in-neighbour", id="a node that is no in-neighbour"),
        pytest.param(0, state(), "not an in-neighbour", id="oneself"),
        pytest.param(COORDINATOR, state(), "not an in-neighbour", id="the coordinator"),
        pytest.param(10**6, state(), "not an in-neighbour", id="a node that there is not"),
        pytest.param(1, state(2), "round 2 while this node is in round 3", id="a round too late"),
        pytest.param(1, state(0), "round 0 while this node is in round 3", id="rounds too late"),
        pytest.param(1, state(8), "round 8 while this node is in round 3", id="too far ahead"),
        pytest.param(1, state(2**31 - 1), "while this node is in round 3", id="the last round"),
        pytest.param(1, Noise(0, 3, FINE.astype(np.float64)), "delta is float64", id="a wide type"),
        pytest.param(1, Noise(0, 3, FINE[:4]), r"float32\[4\], not float32\[5\]", id="too short"),
        pytest.param(1, Noise(0, 3, np.zeros(0, np.float32)), r"float32\[0\]", id="empty"),
        pytest.param(1, Noise(0, 3, FINE.reshape(1, 5)), r"float32\[1, 5\]", id="a matrix"),
        pytest.param(
            1, Seed(0, 4, BYTES[:31], BYTES), r"uint8\[31\], not uint8\[32\]", id="a seed"
        ),
        pytest.param(1, Seed(0, 4, BYTES, FINE), r"commitment is float32\[5\]", id="a commitment"),
        pytest.param(1, Seed(0, 3, BYTES, BYTES), "asked for a seed", id="a seed unasked"),
        pytest.param(1, Noise(0, 4, FINE), "asked for a noise", id="noise unasked"),
        pytest.param(1, Noise(0, 5, FINE), "asked for a noise", id="noise when none is due"),
        pytest.param(1, state(3, FINE, FINE[:4]), r"gamma is float32\[4\]", id="the second array"),
        pytest.param(1, Noise(0, 3, with_one(np.nan)), "delta has values that are not", id="nan"),
        pytest.param(1, state(3, with_one(np.inf)), "theta has values that are not", id="inf"),
        pytest.param(1, state(3, epoch=1), "epoch 1 while this node is in epoch 0", id="an epoch"),
        pytest.param(
            1,
            State(0, 3, {"theta": FINE}),
            "round 3 has the vectors gamma, theta",
            id="a vector less",
        ),
        pytest.param(
            1,
            State(0, 3, {"theta": FINE, "gamma": FINE, "more": FINE}),
            "and no others",
            id="a vector more",
        ),
        pytest.param(1, state(3, FINE, with_one(-np.inf)), "gamma has values that", id="-inf"),
    ],
)
def test_a_message_that_is_wrong_in_one_thing_is_dropped_with_the_reason(
    links, sender, message, reason
):
    links.round = 3
    links.accept(Envelope(sender, message), None)
    links.accept(Envelope(sender, message), None)
    assert len(links.mailbox) == 0
    ((said, count),) = links.dropped.items()
    assert count == 2
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(said)


OTHERS = [
    Hello("i", "host", 1),
    Waiting((1,)),
    Plan("n", 2, {}, 1, {}, "f", "g"),
    Who(),
    Ask(0, 1, 0),
    Taken(0, 1),
    Refuse("no"),
    Stop("now"),
    Greet(0, "f"),
    Welcome(0, "f"),
    Progress(3),
    Metrics(3, {}, FINE, FINE),
    Done(3, {}),
    Failed(3, "no", -1),
]


@pytest.mark.parametrize("message", OTHERS, ids=lambda message: type(message).__name__)
def test_only_noise_and_states_are_expected_from_a_neighbour(links, message):
    links.accept(Envelope(1, message), None)
    assert len(links.mailbox) == 0
    assert list(links.dropped) == [f"a {type(message).__name__.lower()} is not expected here"]


def test_a_message_that_is_right_in_everything_is_used(links):
    for message in (Noise(0, 0, FINE), state(0), state(NODES)):
        links.accept(Envelope(1, message), None)
        assert links.receive(type(message), message.round, 1) is message
        links.round = 0
    assert not links.dropped


def test_a_second_message_for_one_round_is_dropped_and_the_first_is_used(links):
    first, second = state(0), state(0, FINE + 1)
    links.accept(Envelope(1, first), None)
    links.accept(Envelope(1, second), None)
    assert list(links.dropped) == ["a second state for one round"]
    assert links.receive(State, 0, 1) is first


def test_a_second_message_is_dropped_also_after_the_first_was_used(links):
    links.accept(Envelope(1, state(0)), None)
    links.receive(State, 0, 1)
    links.accept(Envelope(1, state(0, FINE + 1)), None)
    assert sum(links.dropped.values()) == 1
    assert len(links.mailbox) == 0


def test_a_neighbour_that_repeats_itself_does_not_fill_the_memory(links):
    for round in range(50):
        for _ in range(3):
            links.accept(Envelope(1, state(round)), None)
        links.receive(State, round, 1)
        links.accept(Envelope(1, state(round)), None)
    assert len(links.mailbox) <= 2


@pytest.mark.parametrize("speaker", [2, 3, COORDINATOR, NOBODY])
def test_on_encrypted_links_the_key_says_who_speaks_and_not_the_header(links, speaker):
    links.accept(Envelope(1, state(0)), speaker)
    assert len(links.mailbox) == 0
    assert sum(links.dropped.values()) == 1
    assert next(iter(links.dropped)).startswith("its key is that of ")
    links.accept(Envelope(1, state(0)), 1)
    assert len(links.mailbox) == 1


def test_messages_that_come_early_wait_for_their_round(links):
    for round in (2, 0, 1):
        for sender in (2, 1):
            links.accept(Envelope(sender, state(round, FINE + round, FINE * sender)), None)
    for round, sender in itertools.product(range(3), (1, 2)):
        message = links.receive(State, round, sender)
        assert message.vectors["theta"][0] == round
        assert message.vectors["gamma"][1] == sender
    assert not links.dropped


def test_a_deadline_that_passes_names_the_peer_and_the_round(links):
    links.accept(Envelope(1, state(7 - 4)), None)
    links.accept(Envelope(2, Noise(0, 3, FINE)), None)
    with pytest.raises(RunFailed) as failure:
        links.receive(State, 3, 2)
    said = "node 0 waited 0.05 s for the state of round 3 from node 2"
    assert (str(failure.value), failure.value.node, failure.value.round) == (said, 2, 3)


def test_a_message_that_is_held_back_is_waited_for_and_not_missed():
    links = LocalLinks(around(latency=80.0), [queue.SimpleQueue() for _ in range(NODES)])
    for round in range(4):
        links.accept(Envelope(1, state(round)), None)
    assert [links.receive(State, round, 1).round for round in range(4)] == [0, 1, 2, 3]


def test_bytes_are_counted_by_kind(links):
    links.send(Noise(0, 0, FINE), 1)
    links.send(state(0), 1)
    links.send(State(0, 0, {"theta": FINE}), 2)
    assert dict(links.sent) == {"noise": 4 * SIZE, "state": 3 * 4 * SIZE}
