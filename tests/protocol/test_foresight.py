"""What is foreseen is what reading it in full would give, and nothing else is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lppa.protocol.codec import decode, encode
from lppa.protocol.foresight import Foresight
from lppa.protocol.messages import State

RUN, SIZES = "run-1", {"theta": 3, "gamma": 3}


def sight(sender: int = 2, epoch: int = 1, round: int = 5) -> Foresight:
    return Foresight(RUN, epoch, np.dtype("float32"), lambda t: SIZES, {sender: round})


def frames_of(state: State, sender: int = 2, number: int = 9, run: str = RUN) -> list[bytes]:
    return [memoryview(frame).tobytes() for frame in encode(state, run, sender, number)]


def a_state(epoch: int = 1, round: int = 5, dtype: str = "<f4", size: int = 3) -> State:
    return State(epoch, round, {name: np.arange(size, dtype=dtype) for name in SIZES})


def test_the_next_state_is_foreseen_and_the_one_after_it_then() -> None:
    one = sight()
    state = one.read(2, 9, frames_of(a_state()))
    assert state is not None and state.round == 5
    np.testing.assert_array_equal(state.vectors["gamma"], [0, 1, 2])
    one.saw(2, 5)
    assert one.read(2, 10, frames_of(a_state(), number=10)) is None
    assert one.read(2, 10, frames_of(a_state(round=6), number=10)) is not None


def test_another_sender_run_epoch_round_number_type_or_size_is_not_the_next_state() -> None:
    good = frames_of(a_state())
    others = [
        frames_of(a_state(), sender=3),
        frames_of(a_state(), run="run-2"),
        frames_of(a_state(epoch=2)),
        frames_of(a_state(round=6)),
        frames_of(a_state(), number=8),
        frames_of(a_state(dtype="<f8")),
        frames_of(a_state(size=4)),
        good[:-1],
        [*good, good[-1]],
        [good[0], good[1][:-1]],
        [good[0], good[1][:-4]],
        [good[0], good[1] + bytes(4)],
        [good[0], b""],
        [good[0], good[1][:12], good[1][12:-1]],
        [good[0], good[1][:8], good[1][8:]],
        [],
    ]
    assert all(sight().read(2, 9, frames) is None for frames in others)


def test_vectors_may_have_one_frame_or_a_frame_each() -> None:
    header, together = frames_of(a_state())
    for frames in ([header, together], [header, together[:12], together[12:]]):
        state = sight().read(2, 9, frames)
        assert state is not None
        assert all((vector == [0, 1, 2]).all() for vector in state.vectors.values())


@given(st.data())
def test_whatever_is_foreseen_is_what_decoding_gives(data: st.DataObject) -> None:
    frames = frames_of(a_state())
    which = data.draw(st.integers(0, len(frames) - 1))
    place = data.draw(st.integers(0, len(frames[which]) - 1))
    changed = bytearray(frames[which])
    changed[place] = data.draw(st.integers(0, 255))
    frames[which] = bytes(changed)
    state = sight().read(2, 9, frames)
    if state is None:
        return
    envelope = decode(frames, RUN)
    assert (envelope.sender, envelope.number) == (2, 9)
    assert encode(envelope.message, RUN, 2)[0] == encode(state, RUN, 2)[0]
    for name in SIZES:
        assert envelope.message.vectors[name].tobytes() == state.vectors[name].tobytes()
