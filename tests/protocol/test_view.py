"""A view of the graph travels as plain values, and one that makes no sense is refused."""

from __future__ import annotations

import contextlib
import copy

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.protocol.errors import RunFailed
from lppa.protocol.view import Place, View, read_view

ALL = View(
    3,
    7,
    (0, 1, 2),
    {
        0: Place((2,), (0.25,), 0.75, (1,), (0.25,)),
        1: Place((0, 2), (0.25, 0.25), 0.5, (2,), (0.5,)),
        2: Place((1,), (0.5,), 0.5, (0, 1), (0.25, 0.25)),
    },
    {0: "tcp://127.0.0.1:5001", 1: "tcp://127.0.0.1:5002", 2: "tcp://127.0.0.1:5003"},
)


def test_a_view_comes_back_as_it_went():
    assert read_view(msgpack.unpackb(msgpack.packb(ALL.content()))) == ALL


def test_a_client_is_told_its_own_place_and_where_its_neighbours_listen():
    told = ALL.told_to(0)
    assert dict(told.places) == {0: ALL.places[0]}
    assert set(told.endpoints) == {1, 2}
    assert (told.epoch, told.first_round, told.members) == (3, 7, (0, 1, 2))
    lonely = View(0, 0, (0, 1), {0: Place((), (), 1.0, (1,), (0.0,))}, ALL.endpoints)
    assert set(lonely.told_to(0).endpoints) == {1}


def test_a_row_of_w_has_the_client_among_its_neighbours_in_ascending_order():
    assert list(ALL.places[1].row(1).items()) == [(0, 0.25), (1, 0.5), (2, 0.25)]
    assert list(ALL.places[0].row(0).items()) == [(0, 0.75), (2, 0.25)]


def spoiled(path, value):
    content = copy.deepcopy(ALL.content())
    there = content
    for step in path[:-1]:
        there = there[step]
    there[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("epoch",), -1, "cannot be read"),
        (("first_round",), True, "cannot be read"),
        (("members",), [0, 0, 1], "must ascend"),
        (("members",), [0, 1], "neighbours that are none"),
        (("places", 0, 0), "0", "cannot be read"),
        (("places", 0, 1), [9], "neighbours that are none"),
        (("places", 0, 1), [0], "neighbours that are none"),
        (("places", 0, 4), [0], "neighbours that are none"),
        (("places", 0, 2), [], "does not fit"),
        (("places", 0, 2), [float("nan")], "cannot be read"),
        (("places", 0, 2), [0.3], "sums to"),
        (("places", 0, 2), [1], "cannot be read"),
        (("places", 0, 3), -0.25, "sums to"),
        (("places", 0, 5), [0.3], "column of W sums to"),
        (("places", 2, 5), [0.25], "column of W does not fit"),
        (("places",), [[0]], "cannot be read"),
        (("endpoints",), [[0, 7]], "cannot be read"),
    ],
)
def test_a_view_that_is_wrong_in_one_thing_is_refused(path, value, reason):
    with pytest.raises(RunFailed, match=reason):
        read_view(spoiled(path, value))


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.sampled_from(list(ALL.content())), json_like)
def test_whatever_stands_in_a_view_it_is_read_or_refused(name, value):
    with contextlib.suppress(RunFailed):
        read_view({**ALL.content(), name: value})
