"""Seeds become the same noise everywhere, of the right law, however long the vector is."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lppa.node.expansion import CHUNK, QUANTILES, WORDS, Expander, derive_seed, quantile_table

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


@pytest.mark.parametrize("distribution", LAWS)
@pytest.mark.parametrize("ratio", [65536.0, 131071.9])
def test_the_pieces_miss_the_quantile_function_by_less_than_a_step_or_so(distribution, ratio):
    values, slopes = quantile_table(distribution, ratio)
    words = np.unique(np.geomspace(1, WORDS, 100_000).astype(np.float32))
    bits = words.view(np.uint32)
    piece, low = bits >> 15, (bits & 0x7FFF).astype(np.int64)
    found = values[piece] + (slopes[piece] * low + (1 << 14) >> 15)
    true = QUANTILES[distribution](words.astype(np.float64) / WORDS) * ratio
    assert np.abs(found - true).max() < 2.0


@given(
    size=st.integers(1, 3 * CHUNK),
    t=st.integers(0, 2**40),
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


def test_seeds_and_rounds_give_unrelated_noise():
    expander = Expander("laplace", 1.0, 100_000)
    drawn = [expander.expand(derive_seed(k, ("x",)), t) for k in range(3) for t in range(3)]
    correlation = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlation).max() < 5 / math.sqrt(100_000)


def test_no_beta_is_no_noise():
    assert not Expander("laplace", 0.0, 100).total([(1, SEED)], 0).any()
    assert Expander("laplace", 0.0, 100).commitment(SEED)


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
