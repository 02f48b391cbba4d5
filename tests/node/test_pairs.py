"""One draw for both directions of an edge has the law of the difference of two, and cancels."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lppa.models.leakage import _laplacian_factor
from lppa.node.expansion import Expander, derive_seed
from lppa.node.noise import NoiseSource, SeededDifference
from lppa.node.pairs import (
    CHUNK,
    QUANTILES,
    FromTheStart,
    PairExpander,
    keystream,
    pair_key,
    pieces,
)

KEY = bytes(32)
MANY = 400_000
LAWS = ("laplace", "gaussian")


def beyond(distribution, z):
    """The part of all differences, in units of β, that is further out than z ≥ 0."""
    if distribution == "laplace":
        return (1 + z / 2) * np.exp(-z)
    return 2 * stats.norm(scale=2).sf(z)


def cdf(distribution):
    return lambda z: np.where(
        z < 0, 0.5 * beyond(distribution, np.abs(z)), 1 - 0.5 * beyond(distribution, np.abs(z))
    )


def drawn(distribution, beta, size, t=0, key=KEY):
    """Draws in units of β."""
    expander = PairExpander(distribution, beta, size)
    return expander.total([(1, key)], t) * expander.step / beta


@pytest.mark.parametrize(
    ("distribution", "beta", "expected"),
    [
        ("laplace", 0.025, "b904bc82fa51ef2c"),
        ("laplace", 1.7, "7c4666113b788e67"),
        ("gaussian", 0.025, "557d70a664a415bc"),
    ],
)
def test_the_bits_are_those_of_every_other_machine(distribution, beta, expected):
    """Hashes of what the first machine made; a change of them breaks runs across versions."""
    steps = PairExpander(distribution, beta, 3 * CHUNK + 5).total([(1, KEY)], 3)
    assert hashlib.sha256(steps.astype("<i8").tobytes()).hexdigest()[:16] == expected


# --- the law ------------------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", LAWS)
def test_the_draws_follow_the_law_of_a_difference_of_two(distribution):
    draws = drawn(distribution, 0.3, MANY)
    # The key is fixed, so this cannot fail by chance: 1.2 / √n is passed by 9 samples in 10.
    assert stats.kstest(draws, cdf(distribution)).statistic < 1.2 / math.sqrt(MANY)
    for part in (1e-1, 1e-3, 1e-5):
        (far,) = QUANTILES[distribution](np.array([part]))
        expected = part * MANY
        assert (np.abs(draws) > far).sum() == pytest.approx(expected, abs=4 * math.sqrt(expected))


@pytest.mark.parametrize(("distribution", "kurtosis"), [("laplace", 1.5), ("gaussian", 0.0)])
def test_mean_variance_and_tails_are_those_of_a_difference(distribution, kurtosis):
    """Each draw of a scale β has a variance of 2β²; the excess of a sum of two is half of one's."""
    draws = drawn(distribution, 7.0, MANY)
    assert draws.mean() == pytest.approx(0.0, abs=0.01)
    assert draws.var() == pytest.approx(4.0, rel=0.01)
    assert stats.skew(draws) == pytest.approx(0.0, abs=0.02)
    assert stats.kurtosis(draws) == pytest.approx(kurtosis, abs=0.06)


@pytest.mark.parametrize("distribution", LAWS)
def test_differences_of_two_plain_draws_cannot_be_told_from_it(distribution):
    plain = Expander(distribution, 0.3, MANY)
    two = plain.total([(1, KEY), (-1, derive_seed(1, ("other",)))], 0) * plain.step / 0.3
    found = stats.ks_2samp(drawn(distribution, 0.3, MANY), two)
    assert found.statistic < 1.2 * math.sqrt(2 / MANY)


@pytest.mark.parametrize("distribution", LAWS)
def test_the_quantiles_are_where_the_law_says(distribution):
    p = np.concatenate([np.logspace(-9.7, 0, 500), np.linspace(0.01, 1, 500)])
    z = QUANTILES[distribution](p)
    assert beyond(distribution, z) == pytest.approx(p, rel=1e-12)
    assert QUANTILES[distribution](np.ones(1)) == 0.0


class Words:
    """A key stream that says the given words."""

    def __init__(self, words):
        self.said = np.asarray(words, "<i4").tobytes()

    def update_into(self, zeros, buffer):
        buffer[: len(zeros)] = self.said


def said(words, distribution, beta):
    """The draws that these words become, in steps of the grid, and β in steps."""
    expander = PairExpander(distribution, beta, len(words))
    ratio = beta / expander.step
    draws = expander.work.draw(Words(words), pieces(distribution, ratio))
    return draws.astype(np.int64), ratio


SCALES = pytest.mark.parametrize("beta", [1.0, 1.3, 1.99999])


@SCALES
@pytest.mark.parametrize("distribution", LAWS)
def test_every_piece_is_a_line_that_misses_the_law_by_less_than_a_step_and_a_half(
    distribution, beta
):
    """10 bits after the leading one number the pieces; below 2048 every word has its own."""
    edges = np.array([1024 + k << e for e in range(1, 21) for k in range(1024)])
    lengths = np.array([1 << e for e in range(1, 21) for _ in range(1024)])
    for sign, part in itertools.product((1, -1), (0, 1 / 512, 1 / 3, 1 / 2, 3 / 4, 511 / 512)):
        words = sign * (edges + (lengths * part).astype(int))
        for half in np.array_split(words, 1 + len(words) // CHUNK):
            found, ratio = said(half, distribution, beta)
            true = np.sign(half) * QUANTILES[distribution](np.abs(half) / 2**31) * ratio
            assert np.abs(found - true).max() < 1.5


@pytest.mark.parametrize("distribution", LAWS)
def test_lines_are_right_on_average_and_prefer_no_side(distribution):
    random = np.random.default_rng(0)
    for sign in (1, -1):
        words = sign * (2.0 ** random.uniform(11, 31, CHUNK)).astype(np.int64)
        found, ratio = said(words, distribution, 1.99999)
        missed = found - sign * QUANTILES[distribution](np.abs(words) / 2**31) * ratio
        assert abs(missed.mean()) < 0.1
        assert missed.std() < 0.5


@SCALES
@pytest.mark.parametrize("distribution", LAWS)
def test_the_extreme_words_are_the_furthest_draws_and_none(distribution, beta):
    words = [0, 1, 2, 2047, -1, -2, -2047, 2**31 - 1, -(2**31), -(2**31) + 1]
    found, ratio = said(words, distribution, beta)
    share = np.array([0.5, 1, 2, 2047]) / 2**31
    furthest, first, second, last = np.rint(QUANTILES[distribution](share) * ratio)
    assert found.tolist() == [furthest, first, second, last, -first, -second, -last, 0, 0, 0]
    assert furthest < 2**22


@pytest.mark.parametrize("count", [511, 512, 800])
def test_sums_of_many_of_the_furthest_draws_do_not_run_over(count, monkeypatch):
    monkeypatch.setattr("lppa.node.pairs.keystream", lambda *given: Words([0]))
    expander = PairExpander("laplace", 1.99999, 1)
    (one,) = expander.total([(1, KEY)], 0).tolist()
    assert one * 800 > 2**31
    for sign in (1, -1):
        assert expander.total([(sign, KEY)] * count, 0).tolist() == [sign * count * one]


# --- streams ------------------------------------------------------------------------------------


def blocks(key, t, epoch, count=4096):
    pad = keystream(key, t, epoch).update(bytes(16 * count))
    return {pad[k : k + 16] for k in range(0, len(pad), 16)}


def test_no_pad_is_used_twice():
    """Rounds, epochs and keys have no block of their streams in common, and none repeats."""
    keys = [KEY, pair_key(KEY, KEY)]
    when = [(0, 0), (0, 1), (1, 0), (1, 1), (256, 0), (0, 256), (2**31 - 1, 0), (2**32 - 1, 7)]
    pads = [blocks(key, t, epoch) for key in keys for t, epoch in when]
    assert len(set().union(*pads)) == len(pads) * 4096


def test_the_counter_of_a_round_does_not_run_into_the_next():
    """2^64 blocks lie between two rounds: the counter's last 8 bytes begin at 0."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    first = (5).to_bytes(4, "big") + (9).to_bytes(4, "big") + bytes(8)
    plain = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    assert keystream(KEY, 5, 9).update(bytes(16)) == plain.update(first)


@pytest.mark.parametrize("sizes", [[40], [5, 3, 40, 1], [32, 1], [1] * 50, [0, 4], [70_000, 9]])
def test_both_ways_to_make_a_stream_give_the_same_bits(sizes):
    """GCM is the counter mode from the third block on: whichever is quicker is taken."""
    plain = keystream(KEY, 7, 3).update(bytes(sum(sizes)))
    quick, filled = FromTheStart(KEY, 7, 3), FromTheStart(KEY, 7, 3)
    assert b"".join(quick.update(bytes(size)) for size in sizes) == plain
    found = b""
    for size in sizes:
        memory = bytearray(size + 15)
        assert filled.update_into(bytes(size), memory) == size
        found += memory[:size]
    assert found == plain


@pytest.mark.parametrize("where", [None, range(8, MANY - 1), range(0, 100)])
def test_noise_does_not_depend_on_which_of_them_is_quicker(where, monkeypatch):
    """Of a whole vector, of a part that begins within the stream, and of few words."""
    found = []
    for quicker in (True, False):
        monkeypatch.setattr("lppa.node.pairs.authenticates_quicker", lambda q=quicker: q)
        terms = [(1, KEY), (-1, derive_seed(1, ("other",)))]
        found.append(PairExpander("laplace", 0.025, MANY).total(terms, 4, 2, where))
    assert np.array_equal(*found)


def test_a_key_depends_on_both_seeds_and_on_whose_they_are():
    seeds = [derive_seed(k, ("x",)) for k in range(3)]
    keys = [pair_key(*both) for both in itertools.permutations(seeds, 2)]
    assert len({*keys, *seeds}) == 9
    assert all(len(key) == 32 for key in keys)


def test_rounds_epochs_and_keys_give_unrelated_noise():
    expander = PairExpander("laplace", 1.0, 100_000)
    when = itertools.product((KEY, pair_key(KEY, KEY)), range(2), range(2))
    draws = [expander.total([(1, key)], t, epoch) for key, t, epoch in when]
    correlation = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlation).max() < 5 / math.sqrt(100_000)


@given(
    size=st.integers(1, 3 * CHUNK),
    t=st.integers(0, 2**31 - 1),
    key=st.binary(min_size=32, max_size=32),
)
@settings(max_examples=20, deadline=None)
def test_a_longer_vector_begins_like_a_shorter_one(size, t, key):
    long = PairExpander("laplace", 0.025, 3 * CHUNK).total([(1, key)], t)
    assert np.array_equal(PairExpander("laplace", 0.025, size).total([(1, key)], t), long[:size])


@given(signs=st.lists(st.sampled_from([1, -1]), min_size=1, max_size=12), t=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_a_total_is_the_sum_of_its_terms_and_cancels_to_nothing(signs, t):
    expander = PairExpander("laplace", 0.025, CHUNK + 7)
    terms = [(sign, derive_seed(k, ("test",))) for k, sign in enumerate(signs)]
    whole = expander.total(terms, t)
    assert np.array_equal(whole, sum(s * expander.total([(1, key)], t) for s, key in terms))
    assert not expander.total([*terms, *((-sign, key) for sign, key in terms)], t).any()


@pytest.mark.parametrize("part", [1, 3, 4, 1000, CHUNK + 5])
def test_any_part_of_the_noise_is_made_without_the_rest(part):
    terms = [(1, bytes(32)), (-1, bytes(31) + b"1")]
    size = max(100, 2 * part + 3)
    expander = PairExpander("laplace", 0.1, size)
    parts = [range(first, min(size, first + part)) for first in range(0, size, part)]
    found = np.concatenate([expander.total(terms, 3, 2, where) for where in parts])
    assert np.array_equal(found, expander.total(terms, 3, 2))


def test_no_beta_is_no_noise():
    assert not PairExpander("laplace", 0.0, 100).total([(1, KEY)], 0).any()


# --- graphs -------------------------------------------------------------------------------------


class Place:
    """A node's neighbours in a graph, and what they tell it."""

    def __init__(self, me, edges, sources):
        self.me, self.sources = me, sources
        self.outputs = tuple(sorted(r for s, r in edges if s == me))
        self.inputs = tuple(sorted(s for s, r in edges if r == me))

    def exchange_seeds(self, t, sent):
        told = {j: self.sources[j].seed_of(self.me) for j in self.inputs}
        return {j: (seed, self.sources[j].expander.commitment(seed)) for j, seed in told.items()}


def differences(edges, nodes, distribution="laplace", size=50, dtype=torch.float64, epoch=0):
    """The noise difference of each node, expanded by itself."""
    expander, cpu = Expander(distribution, 0.3, size), torch.device("cpu")
    sources = [NoiseSource(expander, dtype, cpu, i, 6, "edge", epoch) for i in range(nodes)]
    return [SeededDifference(source, Place(source.me, edges, sources)) for source in sources]


PAIRS = list(itertools.permutations(range(6), 2))


@given(
    edges=st.sets(st.sampled_from(PAIRS), min_size=1),
    t=st.integers(0, 1000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    distribution=st.sampled_from(LAWS),
)
@settings(max_examples=60, deadline=None)
def test_on_any_graph_of_one_and_two_way_edges_noise_sums_to_zero_to_the_bit(
    edges, t, dtype, distribution
):
    nodes = differences(edges, 6, distribution, dtype=dtype)
    added = [node(t) for node in nodes if node.neighbours.outputs or node.neighbours.inputs]
    assert torch.equal(sum(added), torch.zeros(50, dtype=dtype))


@given(edges=st.sets(st.sampled_from(PAIRS), min_size=1), t=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_a_graph_has_as_many_draws_as_undirected_edges_and_two_way_ones_count_twice(edges, t):
    """What is known to both ends of an edge is the same with the other sign, and of its law."""
    nodes = differences(edges, 6)
    for node in nodes:
        node(t)
    single = [term for node in nodes for term in node.terms.single]
    pairs = [term for node in nodes for term in node.terms.pairs]
    both = {frozenset(edge) for edge in edges if edge[::-1] in edges}
    assert len(pairs) == 2 * len(both)
    assert len(single) == 2 * (len(edges) - 2 * len(both))
    for terms in (single, pairs):
        assert len(set(terms)) == len(terms), "no seed has the same sign twice"
        assert {(-sign, key) for sign, key in terms} == set(terms), "each has its opposite"


def test_who_has_the_lower_id_adds_what_the_other_takes_away():
    low, high = differences({(0, 1), (1, 0)}, 2, size=1000)
    first = low(3)
    assert torch.equal(first, -high(3))
    expander = PairExpander("laplace", 0.3, 1000)
    key = pair_key(derive_seed(6, ("edge", 0, 1)), derive_seed(6, ("edge", 1, 0)))
    expected = torch.from_numpy(expander.total([(1, key)], 3) * expander.step)
    assert torch.equal(first, expected)


def test_a_round_that_is_done_again_in_another_epoch_has_other_noise():
    edges = {(0, 1), (1, 0)}
    first, again = (differences(edges, 2, size=1000, epoch=epoch)[0](4) for epoch in (0, 1))
    assert float((first == again).double().mean()) < 0.01


def test_the_covariance_is_the_one_that_the_audit_reckons_with():
    """One term for each direction of an edge: 2β² times the Laplacian of the directed edges."""
    edges = {(0, 1), (1, 0), (1, 2), (2, 3), (3, 2), (3, 0), (0, 3), (0, 2)}
    sends = np.zeros((4, 4))
    for sender, receiver in edges:
        sends[sender, receiver] = 1.0
    weights = sends + sends.T
    laplacian = np.diag(weights.sum(axis=1)) - weights
    for distribution in LAWS:
        drawn = [node(1).numpy() for node in differences(edges, 4, distribution, size=200_000)]
        assert np.cov(drawn) / (2 * 0.3**2) == pytest.approx(laplacian, abs=0.06)
        factor = _laplacian_factor(sends > 0)
        assert factor @ factor.T == pytest.approx(laplacian)
