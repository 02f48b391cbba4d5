"""What a client notices about its neighbours' vectors, and what clipping leaves of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lppa.node.lengths import length
from lppa.node.robust import BOUND, Scrutiny, short_hash, sum_is_finite
from lppa.protocol.codec import FEW


def seen(lengths, clip=False, due=True):
    """Node 0's scrutiny after a round in which each sender's vector is of such a length."""
    scrutiny = Scrutiny(0, lambda t: due, clip)
    vectors = [torch.full((4,), size / 2, dtype=torch.float32) for size in lengths]
    scrutiny.begin({"theta": vectors[0]})
    for sender, vector in enumerate(vectors[1:], start=1):
        scrutiny.see(3, sender, {"theta": vector.numpy()})
    scrutiny.judge(3)
    return scrutiny, vectors


@pytest.mark.parametrize("huge", [201.0, 1e30, 6e38])
def test_a_sender_far_outside_is_named_once_with_its_length(huge):
    scrutiny, _ = seen([1.0, 2.0, huge, 1.5])
    assert list(scrutiny.suspects) == [2]
    assert "its theta of round 3 has length" in scrutiny.suspects[2]


@pytest.mark.parametrize("lengths", [[1, 50, 1, 1], [0, 0, 0], [500, 1, 1], [1e-9, 1e-8, 1e-8]])
def test_what_is_within_reach_of_others_or_one_s_own_is_nobody_s_fault(lengths):
    assert not seen(lengths)[0].suspects


@given(st.lists(st.floats(0, 1e18), min_size=2, max_size=6))
def test_clipping_bounds_every_vector_and_keeps_the_bits_of_most(lengths):
    scrutiny, vectors = seen(lengths, clip=True)
    middle = sorted(length(vector) for vector in vectors)[(len(vectors) - 1) // 2]
    for sender, vector in enumerate(vectors):
        bounded = scrutiny.bounded(sender, {"theta": vector})["theta"]
        if sender == 0 or length(vector) <= BOUND * middle:
            assert bounded is vector
        else:
            assert length(bounded) <= BOUND * middle * (1 + 1e-5)


def test_two_states_have_one_hash_only_if_they_are_the_same():
    state = {"theta": np.ones(3, np.float32), "gamma": np.zeros(3, np.float32)}
    assert short_hash(state) == short_hash(dict(reversed(state.items())))
    assert short_hash(state) != short_hash({**state, "gamma": np.full(3, 1e-40, np.float32)})


def test_hashes_are_kept_of_rounds_that_are_due_alone():
    assert set(seen([1, 1, 1])[0].about()["heard"]) == {"1", "2"}
    assert not seen([1, 1, 1], due=False)[0].about()["heard"]


@pytest.mark.parametrize("size", [5, 20_000])
def test_a_vector_is_as_long_on_the_wire_as_in_the_client(size):
    vector = torch.linspace(-3, 5, size)
    for huge in (1.0, 1e30):
        assert length(vector.numpy() * np.float32(huge)) == pytest.approx(length(vector * huge))
    assert length(np.full(size, np.nan, np.float32)) == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [10, FEW, FEW + 1, 3 * FEW])
def test_a_sum_tells_as_much_as_a_look_at_every_number(dtype, size):
    greatest = np.full(size, np.finfo(dtype).max, dtype=dtype)
    assert sum_is_finite(greatest)
    assert sum_is_finite(np.ones(size, np.uint8))
    for place in (0, size // 2, size - 1):
        for bad in (np.nan, np.inf, -np.inf):
            for values in (np.zeros(size, dtype), greatest.copy()):
                values[place] = bad
                assert not sum_is_finite(values)
    ends = np.zeros(size, dtype)
    ends[0], ends[-1] = np.inf, -np.inf
    assert not sum_is_finite(ends)
