"""What a host is sent, and what passes through its pipe: whole, checked, no more than needed."""

from __future__ import annotations

import io

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.engines.frames import (
    MOST_NEWS,
    BadFrame,
    End,
    Ended,
    Here,
    Refused,
    Started,
    from_bytes,
    read_frame,
    read_words,
    skip_to_greeting,
    to_bytes,
    write_frame,
)
from lppa.engines.host import Death
from lppa.engines.mirror import Gone, Piece
from lppa.engines.parcel import Order, Parcel, placed_book, unpack
from lppa.protocol.errors import WrongUse
from lppa.running.chaos import parse_chaos


@pytest.fixture
def order(tmp_path):
    book, keys = placed_book("run", 4, "tcp://10.0.0.1:0")
    trouble = parse_chaos("kill:1@7,slow:3@2x0.5", 4)
    (tmp_path / "nodes/1").mkdir(parents=True)
    (tmp_path / "nodes/1/metrics.jsonl").write_bytes(b"{}\n")
    return Order(book, keys[:-1], tmp_path, 30.0, (1, 2), trouble, True, b"code")


def test_a_parcel_comes_out_as_it_was_packed(order):
    sent = order.parcel((0, 1), "eth0", place=2).to("tcp://10.0.0.1:4711")
    assert unpack(sent.pack()) == sent
    assert sent.nodes == (0, 1)
    assert sent.files == {"nodes/1/metrics.jsonl": b"{}\n"}


def test_a_host_gets_no_secret_of_others_nodes(order):
    packed = order.parcel((0, 1)).to("tcp://10.0.0.1:4711").pack()
    assert all(key.encode() in packed for key in order.keys[:2])
    assert not any(key.encode() in packed for key in order.keys[2:])
    content = msgpack.unpackb(packed)
    assert (content["attackers"], len(content["chaos"])) == ([1], 1)


def test_secrets_are_not_shown_where_a_parcel_is(order):
    shown = repr(order) + repr(order.parcel((0, 1)))
    assert not any(key in shown for key in order.keys)


def test_a_parcel_without_a_coordinator_that_listens_is_not_packed(order):
    with pytest.raises(WrongUse, match="no such port"):
        order.parcel((0, 1)).pack()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("book", {}),
        ("keys", []),
        ("keys", [[9, "key"]]),
        ("keys", [["0", "key"]]),
        ("timeout", 0.0),
        ("timeout", float("nan")),
        ("timeout", "30"),
        ("attackers", [-1]),
        ("chaos", [["melt", 1, 2, 1.0]]),
        ("chaos", [["kill", 1]]),
        ("resume", 1),
        ("code", "text"),
        ("interface", 5),
        ("files", {"nodes/3/node.log": b""}),
        ("files", {"nodes/0/../../x": b""}),
        ("files", {"nodes/0/node.log": "text"}),
        ("files", []),
    ],
)
def test_a_parcel_with_something_else_in_it_is_refused(order, name, value):
    content = msgpack.unpackb(order.parcel((0, 1)).to("tcp://10.0.0.1:4711").pack())
    with pytest.raises(WrongUse):
        unpack(msgpack.packb({**content, name: value}))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_parcel_are_refused(raw):
    with pytest.raises(WrongUse):
        unpack(raw)


def test_more_than_a_pipe_should_carry_is_refused_before_it_is_made(order, monkeypatch):
    monkeypatch.setattr("lppa.engines.parcel.MOST", 8)
    with pytest.raises(WrongUse, match="take more hosts"):
        order.parcel((0, 1)).to("tcp://10.0.0.1:4711").pack()
    assert isinstance(order.parcel((0, 1)), Parcel)


WORDS = st.one_of(
    st.just(Started()),
    st.just(Ended()),
    st.just(Here()),
    st.builds(Refused, st.text(max_size=50)),
    st.builds(End, st.floats(allow_nan=False)),
    st.builds(Death, st.integers(0, 10**6), st.text(max_size=50)),
    st.builds(Gone, st.text(max_size=50)),
    st.builds(
        Piece,
        st.text(max_size=50),
        st.integers(0, 1 << 42),
        st.binary(max_size=200),
        st.none() | st.integers(0, 1 << 42),
    ),
)


@given(st.lists(WORDS, max_size=8), st.integers(0, 60))
def test_words_come_out_as_they_went_in_and_a_cut_loses_only_the_last(words, cut):
    pipe = io.BytesIO()
    for word in words:
        write_frame(pipe, to_bytes(word))
    raw = pipe.getvalue()
    assert list(read_words(io.BytesIO(raw))) == words
    heard = list(read_words(io.BytesIO(raw[: max(0, len(raw) - cut)])))
    assert heard == words[: len(heard)]


@given(st.binary(max_size=100))
def test_bytes_that_are_no_word_are_refused(raw):
    try:
        word = from_bytes(raw)
    except BadFrame:
        return
    assert from_bytes(to_bytes(word)) == word


def test_a_frame_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(BadFrame, match="a frame of"):
        read_frame(io.BytesIO(b"\xff\xff\xff\xff"), MOST_NEWS)


def test_what_a_shell_says_before_the_host_is_passed_over():
    assert skip_to_greeting(io.BytesIO(b"Welcome!\nlppa host 1\n"))
    assert not skip_to_greeting(io.BytesIO(b"Welcome!\n"))
    with pytest.raises(BadFrame, match="much talk"):
        skip_to_greeting(io.BytesIO(bytes(1 << 20)))
