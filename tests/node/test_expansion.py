"""Seeds become the same noise everywhere, of the right law, however long the vector is."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lppa.node import expansion
from lppa.node.expansion import (
    CHUNK,
    Expander,
    derive_seed,
    quantile_table,
)

SEED = bytes(range(32))
MANY = 1_000_000
LAWS = {"laplace": stats.laplace(), "gaussian": stats.norm(scale=math.sqrt(2))}


@pytest.mark.parametrize(
    ("distribution", "beta", "expected"),
    [
        ("laplace", 0.025, "015585c657df4e61"),
        ("laplace", 1.7, "4cd797af47b37961"),
        ("gaussian", 0.025, "74aada2d6bad7d13"),
    ],
)
def test_the_bits_are_those_of_every_other_machine(distribution, beta, expected):
    """Hashes of what the first machine made; a change of them breaks runs across versions."""
    drawn = Expander(distribution, beta, 3 * CHUNK + 5).total([(1, SEED)], 3)
    assert hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest()[:16] == expected


@pytest.mark.parametrize("distribution", LAWS)
def test_the_draws_follow_the_law_everywhere_and_not_only_in_their_moments(distribution):
    draws = Expander(distribution, 0.3, MANY).expand(SEED, 0) / 0.3
    # The seed is fixed, so this cannot fail by chance: 1.2 / √n is passed by 9 samples in 10.
    assert stats.kstest(draws, LAWS[distribution].cdf).statistic < 1.2 / math.sqrt(MANY)
    far = LAWS[distribution].isf(1e-5)
    assert (np.abs(draws) > far).sum() == pytest.approx(2e-5 * MANY, abs=20)


class Words:
    """A key stream that says the given words, and then zeros."""

    def __init__(self, words=()):
        self.left = np.asarray(words, "<i4").tobytes()

    def update_into(self, zeros, buffer):
        buffer[: len(zeros)] = self.left[: len(zeros)].ljust(len(zeros), b"\0")
        self.left = self.left[len(zeros) :]


def said(words, distribution, beta, patch):
    """The draws that these words become, in steps of the grid, and β in steps."""
    patch.setattr(expansion, "keystream", lambda *given: Words(words))
    expander = Expander(distribution, beta, len(words))
    return expander.total([(1, SEED)], 0).astype(np.int64), beta / expander.step


def true_place(distribution, words, ratio):
    """Where the law puts a word: a part |word| / 2^31 of all noise is further out."""
    words = np.asarray(words, np.int64)
    share = np.abs(words).astype(np.float64) / 2**31
    return np.where(words < 0, -1, 1) * LAWS[distribution].isf(share / 2) * ratio


SCALES = pytest.mark.parametrize("beta", [1.0, 1.3, 1.99999])


@SCALES
@pytest.mark.parametrize("distribution", LAWS)
def test_every_piece_begins_and_ends_where_the_law_says(distribution, beta, monkeypatch):
    """8 bits after the leading one number the pieces; below 256 every word has its own."""
    edges = [(256 + k << e) // 256 for e in range(31) for k in range(256)]
    words = np.unique([*edges, 2**31 - 1])
    for sign in (1, -1):
        found, ratio = said(sign * words, distribution, beta, monkeypatch)
        true = true_place(distribution, sign * words, ratio)
        # The last word of all rounds to 2^31, where the law has 0.
        assert np.abs(found - true).max() <= 0.5 + 1e-3
        far = np.abs(found)
        assert (np.diff(far) < 0).all()


@SCALES
@pytest.mark.parametrize("distribution", LAWS)
def test_within_a_piece_a_straight_line_misses_the_law_by_less_than_a_step(
    distribution, beta, monkeypatch
):
    starts = np.array([256 + k << e for e in range(9, 23) for k in range(256)], dtype=np.int64)
    lengths = np.array([1 << e for e in range(9, 23) for _ in range(256)], dtype=np.int64)
    for sign in (1, -1):
        for part in (1 / 512, 1 / 4, 1 / 2, 3 / 4, 511 / 512):
            words = sign * (starts + (lengths * part).astype(np.int64))
            found, ratio = said(words, distribution, beta, monkeypatch)
            # On 1/256 of its own probability −log p bends by 1/(8 · 256²) at most, and a normal
            # quantile by less. Both ends are rounded, and so is what is between them.
            bend = ratio / (8 * 256**2)
            assert bend < 0.25
            missed = np.abs(found - true_place(distribution, words, ratio))
            assert missed.max() < bend + 1.0
            assert np.mean(missed) < 0.5


@SCALES
@pytest.mark.parametrize("distribution", LAWS)
def test_the_extreme_words_are_the_furthest_draws_and_none(distribution, beta, monkeypatch):
    words = [0, 1, 2, -1, -2, 2**31 - 1, -(2**31), -(2**31) + 1]
    found, ratio = said(words, distribution, beta, monkeypatch)
    law = LAWS[distribution]
    # The word 0 stands for all that is rarer than the word 1, at half of that probability.
    furthest, first, second = (round(law.isf(p / 2**32) * ratio) for p in (0.5, 1, 2))
    assert found.tolist() == [furthest, first, second, -first, -second, 0, 0, 0]
    assert furthest < 2**22


def test_nothing_that_is_kept_for_the_next_expander_can_be_changed():
    for table in quantile_table("laplace", 65536.0):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 1


@pytest.mark.parametrize("count", [511, 512, 800])
def test_sums_of_many_of_the_furthest_draws_do_not_run_over(count, monkeypatch):
    monkeypatch.setattr(expansion, "keystream", lambda *given: Words())
    expander = Expander("laplace", 1.99999, 1)
    (one,) = expander.total([(1, SEED)], 0).tolist()
    assert one * 800 > 2**31
    for sign in (1, -1):
        assert expander.total([(sign, SEED)] * count, 0).tolist() == [sign * count * one]


@given(
    size=st.integers(1, 3 * CHUNK),
    t=st.integers(0, 2**31 - 1),
    seed=st.binary(min_size=32, max_size=32),
)
@settings(max_examples=30, deadline=None)
def test_a_longer_vector_begins_like_a_shorter_one(size, t, seed):
    long = Expander("laplace", 0.025, 3 * CHUNK).total([(1, seed)], t)
    assert np.array_equal(Expander("laplace", 0.025, size).total([(1, seed)], t), long[:size])


@given(signs=st.lists(st.sampled_from([1, -1]), min_size=1, max_size=12), t=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_a_total_is_the_sum_of_its_terms_and_cancels_to_nothing(signs, t):
    expander = Expander("laplace", 0.025, CHUNK + 7)
    terms = [(sign, derive_seed(k, ("test",))) for k, sign in enumerate(signs)]
    whole = expander.total(terms, t)
    assert np.array_equal(whole, sum(s * expander.total([(1, seed)], t) for s, seed in terms))
    back = [(-sign, seed) for sign, seed in terms]
    assert not expander.total([*terms, *back], t).any()


@pytest.mark.parametrize("part", [1, 15, 16, 1000, CHUNK + 5])
def test_any_part_of_the_noise_is_made_without_the_rest(part):
    terms = [(1, SEED), (-1, bytes(32))]
    size = max(100, 2 * part + 3)
    expander = Expander("laplace", 0.1, size)
    parts = [range(first, min(size, first + part)) for first in range(0, size, part)]
    found = np.concatenate([expander.total(terms, 3, 2, where) for where in parts])
    assert np.array_equal(found, expander.total(terms, 3, 2))


def test_noise_is_its_steps_times_the_grids_step():
    expander = Expander("gaussian", 0.3, 100)
    assert np.array_equal(expander.expand(SEED, 4), expander.total([(1, SEED)], 4) * 2.0**-18)


def test_seeds_and_rounds_give_unrelated_noise():
    expander = Expander("laplace", 1.0, 100_000)
    drawn = [expander.expand(derive_seed(k, ("x",)), t) for k in range(3) for t in range(3)]
    correlation = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlation).max() < 5 / math.sqrt(100_000)


def test_no_beta_is_no_noise():
    silent = Expander("laplace", 0.0, 100)
    assert not silent.total([(1, SEED)], 0).any()
    assert (silent.step, len(silent.expand(SEED, 0))) == (0.0, 100)
    assert silent.commitment(SEED)


def test_a_commitment_depends_on_all_that_the_noise_depends_on():
    changed = [
        Expander("laplace", 0.025, 100).commitment(SEED),
        Expander("laplace", 0.025, 101).commitment(SEED),
        Expander("laplace", 0.0250001, 100).commitment(SEED),
        Expander("gaussian", 0.025, 100).commitment(SEED),
        Expander("laplace", 0.025, 100).commitment(SEED[::-1]),
        Expander("laplace", 0.0, 100).commitment(SEED),
    ]
    assert len(set(changed)) == len(changed)
    assert SEED not in changed[0]


@pytest.mark.parametrize(
    ("size", "beta", "expected"),
    [
        (1000, 0.025, "f3cd20a31c43a2b0"),
        (100, 0.025, "9d76d24e5df1fc29"),
        (1000, 0.0, "df2be882dc8dc985"),
    ],
)
def test_a_commitment_is_that_of_every_other_machine(size, beta, expected):
    """As above: a change of these breaks runs across versions."""
    assert Expander("laplace", beta, size).commitment(SEED).hex()[:16] == expected


def test_a_seed_that_is_derived_is_that_of_every_other_machine():
    assert derive_seed(7, ("edge", 1, 2)).hex()[:16] == "f8b98b0e2c7efc70"
    others = [(7, ("edge", 12)), (7, ("edge", 2, 1)), (8, ("edge", 1, 2)), (7, ("own", 1, 2))]
    assert len({derive_seed(7, ("edge", 1, 2)), *(derive_seed(*o) for o in others)}) == 5
