"""What nodes say about each other: two that agree are believed, and nonsense is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lppa.coordinator.witness import check_words, statements, suspected, two_faced
from lppa.protocol.codec import BadMessage
from lppa.protocol.messages import Metrics


def reports(**said):
    """Reports by node: n0={"heard": ...} and so on."""
    nothing = np.zeros(0)
    return {int(name[1:]): Metrics(5, values, nothing, nothing) for name, values in said.items()}


def test_a_sender_of_different_states_is_named_with_two_witnesses():
    found = reports(
        n0={"heard": {"1": "a", "2": "c"}}, n1={"heard": {"2": "c"}}, n2={"heard": {"1": "b"}}
    )
    assert two_faced(found) == {1: (0, 2)}
    assert statements(found)[0][0].startswith("node 1 sent different states to nodes 0 and 2, or")


def test_honest_senders_and_reports_without_words_name_nobody():
    found = reports(n0={"heard": {"1": "a"}}, n2={"heard": {"1": "a"}}, n1={})
    assert statements(found) == []


def test_one_witness_is_told_as_such_and_nobody_testifies_against_itself():
    found = reports(n0={"suspects": {"2": "far"}}, n2={"suspects": {"2": "me"}}, n1={})
    assert suspected(found) == {2: {0: "far"}}
    assert statements(found) == [("node 2 is suspect, as node 0 alone says: far", False)]
    both = reports(n0={"suspects": {"2": "far"}}, n1={"suspects": {"2": "too"}})
    assert statements(both) == [("node 2 is suspect, as nodes 0, 1 say: far", True)]


@pytest.mark.parametrize(
    "values",
    [
        {"heard": []},
        {"heard": {"x": "a"}},
        {"heard": {"1": 5}},
        {"suspects": {"1": "a\nb"}},
        {"suspects": {"1": "a" * 1000}},
        {"suspects": {str(i): "a" for i in range(4)}},
        {"suspects": {"9" * 400: "a"}},
    ],
)
def test_words_that_are_none_are_refused(values):
    with pytest.raises(BadMessage):
        check_words(values, 3)


def test_a_round_that_was_done_twice_is_not_compared_between_the_two_views():
    found = reports(n0={"heard": {"1": "aa"}}, n2={"heard": {"1": "bb"}})
    assert two_faced(found) == {1: (0, 2)}
    found[2] = replace(found[2], epoch=found[0].epoch + 1)
    assert two_faced(found) == {}
