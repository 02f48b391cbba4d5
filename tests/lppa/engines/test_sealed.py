"""Sealed bytes: read by the other end, in order, and by nobody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lppa.engines.sealed import Half
from lppa.protocol.errors import RunFailed


def pair():
    asks, answers = Half(), Half()
    return asks.asking(answers.public), answers.answering(asks.public)


@given(st.lists(st.tuples(st.booleans(), st.binary())))
def test_what_one_end_seals_the_other_opens_in_both_directions(said):
    asks, answers = pair()
    for from_asking, data in said:
        here, there = (asks, answers) if from_asking else (answers, asks)
        assert there.open(here.seal(data)) == data


@given(st.binary(min_size=1), st.data())
def test_a_message_with_any_bit_changed_is_refused_and_the_right_one_still_opens(data, draw):
    asks, answers = pair()
    sealed = asks.seal(data)
    at = draw.draw(st.integers(0, 8 * len(sealed) - 1))
    spoiled = bytearray(sealed)
    spoiled[at // 8] ^= 1 << at % 8
    with pytest.raises(RunFailed, match="changed, lost or repeated"):
        answers.open(bytes(spoiled))
    assert answers.open(sealed) == data


def test_a_message_that_comes_twice_or_too_soon_or_back_is_refused():
    asks, answers = pair()
    first, second = asks.seal(b"first"), asks.seal(b"second")
    for wrong in (second, answers.seal(b"its own")):
        with pytest.raises(RunFailed):
            answers.open(wrong)
    assert answers.open(first) == b"first"
    with pytest.raises(RunFailed):
        answers.open(first)
    assert answers.open(second) == b"second"


def test_who_has_seen_both_public_halves_cannot_open_anything():
    asks, answers = Half(), Half()
    sealed = asks.asking(answers.public).seal(b"a key")
    assert b"a key" not in sealed
    for listener in (Half().answering(asks.public), Half().asking(answers.public)):
        with pytest.raises(RunFailed):
            listener.open(sealed)


@pytest.mark.parametrize("half", [b"", b"short", bytes(32)])
def test_a_public_half_that_is_none_is_refused(half):
    with pytest.raises(RunFailed, match="public key"):
        Half().asking(half)
