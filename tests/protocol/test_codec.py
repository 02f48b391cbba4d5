"""What goes onto the wire comes off it unchanged; anything else is refused with a reason."""

from __future__ import annotations

import dataclasses

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.protocol import messages
from lppa.protocol.codec import (
    KINDS,
    MAX_HEADER,
    MAX_VECTORS,
    TOGETHER,
    BadMessage,
    WrongRun,
    all_finite,
    decode,
    encode,
)
from lppa.protocol.messages import Failed, Hello, Metrics, Noise, Plan, State, Waiting

RUN = "run-1"
PLAN = Plan("name", 3, {"rule": "lppa"}, 7, {"epoch": 0, "members": [0, 1, 2]}, "f" * 64, "g" * 64)


def state(size=5, round=3):
    theta = np.arange(size, dtype=np.float32)
    return State(2, round, {"theta": theta, "gamma": -theta})


def frames_of(message, sender=1):
    return [bytes(memoryview(frame)) for frame in encode(message, RUN, sender)]


def with_header(frames, **changes):
    header = msgpack.unpackb(frames[0])
    return [msgpack.packb({**header, **changes}), *frames[1:]]


@pytest.mark.parametrize(
    "message",
    [
        PLAN,
        Hello("abc", "host", 12),
        Waiting((1, 2)),
        Waiting(()),
        Failed(4, "it broke", -1),
    ],
)
def test_a_message_without_arrays_comes_back_equal(message):
    assert decode(frames_of(message), RUN).message == message


@given(
    st.sampled_from([np.float32, np.float64]),
    st.lists(st.floats(width=32), max_size=40),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
)
def test_arrays_come_back_bit_for_bit(dtype, values, sender, round):
    delta = np.array(values, dtype=dtype)
    envelope = decode(frames_of(Noise(0, round, delta), sender), RUN)
    assert (envelope.sender, envelope.message.round) == (sender, round)
    assert envelope.message.delta.dtype == dtype
    assert envelope.message.delta.tobytes() == delta.tobytes()


def test_every_message_has_a_kind_of_its_own_and_no_other_is_known():
    kinds = {value for value in vars(messages).values() if dataclasses.is_dataclass(value)}
    assert set(KINDS.values()) == kinds
    assert len(KINDS) == len(kinds)


def test_the_number_of_a_message_comes_back():
    frames = [bytes(memoryview(frame)) for frame in encode(state(), RUN, 1, 77)]
    assert decode(frames, RUN).number == 77
    assert decode(frames_of(state()), RUN).number == 0


def test_large_arrays_are_not_copied_on_the_way_out():
    large = {name: np.zeros(TOGETHER // 8 + 1, np.float32) for name in ("theta", "gamma")}
    frames = encode(State(0, 3, large), RUN, 0)
    assert frames[1] is large["theta"]
    assert frames[2] is large["gamma"]


def test_small_arrays_travel_in_one_frame_one_behind_the_other():
    small = {name: np.full(TOGETHER // 8, k, np.float32) for k, name in enumerate(("a", "b"))}
    header, together = encode(State(0, 3, small), RUN, 0)
    assert bytes(together) == small["a"].tobytes() + small["b"].tobytes()
    for frames in ([header, together], [header, *small.values()]):
        found = decode(frames, RUN).message.vectors
        assert all((found[name] == small[name]).all() for name in small)
    for wrong in (bytes(together)[:-1], bytes(together) + b"x", b""):
        with pytest.raises(BadMessage, match="bytes in all"):
            decode([header, wrong], RUN)


def test_arrays_are_used_in_place_on_the_way_in():
    frames = [bytearray(frame) for frame in frames_of(state())]
    message = decode(frames, RUN).message
    frames[1][:4] = np.float32(42).tobytes()
    assert message.vectors["theta"][0] == 42


def test_a_frame_off_its_number_boundary_still_gives_aligned_numbers():
    frames = frames_of(state())
    shifted = memoryview(bytearray(b"x" + frames[1]))[1:]
    message = decode([frames[0], shifted], RUN).message
    for name, vector in state().vectors.items():
        assert message.vectors[name].flags.aligned
        np.testing.assert_array_equal(message.vectors[name], vector)


def test_a_message_of_another_run_names_that_run():
    with pytest.raises(WrongRun, match="run-1"):
        decode(frames_of(state()), "run-2")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 2}, "version 2"),
        ({"version": True}, "version is not int"),
        ({"kind": "pickle"}, "unknown kind"),
        ({"kind": 3}, "kind is not str"),
        ({"sender": -2}, "out of range"),
        ({"sender": 1 << 40}, "out of range"),
        ({"round": -1}, "out of range"),
        ({"number": -1}, "out of range"),
        ({"number": 1.0}, "number is not int"),
        ({"body": []}, "wrong types"),
        ({"body": {"extra": 1}}, "more than it should have"),
        ({"tensors": []}, "1 frames for 0 arrays"),
        ({"tensors": [["theta", "<f4", [0]]] * (MAX_VECTORS + 1)}, "more than 16 arrays"),
        ({"tensors": [["theta", "<f4", [5]], ["theta", "<f4", [5]]]}, "two arrays with one name"),
        ({"tensors": [["theta", "<f4", [6]], ["gamma", "<f4", [5]]]}, "40 bytes in all, not 44"),
        ({"tensors": [["theta", "<f4", [5]]]}, "40 bytes, not 20"),
        ({"tensors": [["theta", "<f4", [-5]], ["gamma", "<f4", [5]]]}, "impossible shape"),
        ({"tensors": [["theta", "<f4", [True]], ["gamma", "<f4", [5]]]}, "impossible shape"),
        ({"tensors": [["theta", "|O8", [5]], ["gamma", "<f4", [5]]]}, "does not travel"),
        ({"tensors": [["theta", ["<f4"], [5]], ["gamma", "<f4", [5]]]}, "does not travel"),
        ({"tensors": [7, 8]}, "unreadable array"),
    ],
)
def test_a_header_that_lies_is_refused_with_the_reason(changes, reason):
    with pytest.raises(BadMessage, match=reason):
        decode(with_header(frames_of(state()), **changes), RUN)


def test_an_oversized_header_is_refused_before_it_is_read():
    with pytest.raises(BadMessage, match="bytes"):
        decode([b"\x00" * (MAX_HEADER + 1)], RUN)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_random_bytes_are_refused_and_nothing_else_happens(frames):
    with pytest.raises(BadMessage):
        decode(frames, RUN)


@given(st.data())
def test_a_damaged_message_is_refused_or_still_well_formed(data):
    frames = [bytearray(frame) for frame in frames_of(state())]
    place = data.draw(st.integers(0, len(frames[0]) - 1))
    frames[0][place] = data.draw(st.integers(0, 255))
    try:
        message = decode(frames, RUN).message
    except BadMessage:
        return
    assert type(message) is State
    assert {vector.shape for vector in message.vectors.values()} == {(5,)}


def test_a_deeply_nested_header_is_refused():
    with pytest.raises(BadMessage):
        decode([b"\x91" * 5000], RUN)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_means_neither_nan_nor_infinite_and_large_is_still_finite(dtype):
    greatest = np.full(10, np.finfo(dtype).max, dtype=dtype)
    assert all_finite(greatest)
    for bad in (np.nan, np.inf, -np.inf):
        values = np.zeros(10, dtype=dtype)
        values[3] = bad
        assert not all_finite(values)
    assert not all_finite(np.array([np.inf, -np.inf], dtype=dtype))


def test_reports_carry_their_sketches():
    report = Metrics(5, {"loss": 0.5}, np.ones(4), np.zeros(4))
    back = decode(frames_of(report), RUN).message
    assert back.values == {"loss": 0.5}
    np.testing.assert_array_equal(back.theta, report.theta)


def test_a_node_that_does_not_say_what_it_speaks_is_taken_to_know_the_first_way_only():
    frames = frames_of(Hello("abc", "host", 12, ("tensor", "seed")))
    assert decode(frames, RUN).message.speaks == ("tensor", "seed")
    silent = with_header(frames, body={"instance": "abc", "host": "host", "pid": 12})
    assert decode(silent, RUN).message == Hello("abc", "host", 12, ("tensor",))
    wrong = with_header(frames, body={"instance": "a", "host": "h", "pid": 1, "speaks": [1]})
    with pytest.raises(BadMessage, match="without a proper speaks"):
        decode(wrong, RUN)
