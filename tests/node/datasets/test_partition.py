import hashlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lppa.node.datasets.partition import label_counts, parse_partition, split
from lppa.protocol.errors import WrongUse

unhurried = settings(deadline=None, max_examples=80)

alphas = st.floats(1e-3, 1e3)
seeds = st.integers(0, 2**64)


@st.composite
def labelled(draw):
    """Labels of a training set: some classes, of any sizes, in any order."""
    names = draw(st.lists(st.integers(0, 300), min_size=1, max_size=8, unique=True))
    sizes = draw(st.lists(st.integers(1, 60), min_size=len(names), max_size=len(names)))
    labels = np.repeat(names, sizes).astype(np.uint16)
    return np.random.default_rng(draw(st.integers(0, 99))).permutation(labels)


@st.composite
def specs(draw):
    kind = draw(st.sampled_from(["iid", "quantity", "dirichlet", "benchmark"]))
    return kind if kind == "iid" else f"{kind}:{draw(alphas)}"


def assert_true_partition(parts, labels, clients):
    assert len(parts) == clients
    assert all(len(part) > 0 for part in parts)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))


@unhurried
@given(labelled(), specs(), st.integers(1, 40), seeds)
def test_every_sample_goes_to_exactly_one_client_and_no_client_is_empty(labels, spec, n, seed):
    assume(n <= len(labels))
    assert_true_partition(split(spec, labels, n, seed), labels, n)


@unhurried
@given(labelled(), st.integers(1, 40), seeds)
def test_iid_parts_differ_by_one_sample_at_most(labels, n, seed):
    assume(n <= len(labels))
    sizes = [len(part) for part in split("iid", labels, n, seed)]
    assert max(sizes) - min(sizes) <= 1


@unhurried
@given(labelled(), st.integers(1, 30), st.integers(1, 8), seeds)
def test_with_classes_each_client_holds_k_labels_and_holders_share_equally(labels, n, k, seed):
    sizes = np.unique(labels, return_counts=True)[1]
    possible = k <= len(sizes) <= n * k <= np.minimum(sizes, n).sum()
    if not possible:
        with pytest.raises(WrongUse, match=f"classes:{k}|cannot share"):
            split(f"classes:{k}", labels, n, seed)
        return
    parts = split(f"classes:{k}", labels, n, seed)
    assert_true_partition(parts, labels, n)
    counts = label_counts(parts, labels)[1]
    assert ((counts > 0).sum(1) == k).all()
    for column in counts.T:
        held = column[column > 0]
        assert held.max() - held.min() <= 1


def test_with_classes_and_enough_samples_every_label_has_as_many_holders_as_any_other():
    labels = np.repeat(np.arange(10), 100)
    counts = label_counts(split("classes:3", labels, 10, 0), labels)[1]
    assert ((counts > 0).sum(0) == 3).all()


@unhurried
@given(labelled(), st.integers(1, 12), seeds)
def test_label_counts_count_what_the_clients_have(labels, n, seed):
    assume(n <= len(labels))
    parts = split("dirichlet:0.5", labels, n, seed)
    names, counts = label_counts(parts, labels)
    for part, row in zip(parts, counts, strict=True):
        assert [int((labels[part] == name).sum()) for name in names] == row.tolist()
    assert counts.sum(0).tolist() == [int((labels == name).sum()) for name in names]


@unhurried
@given(st.sampled_from(["iid", "quantity:0.3", "benchmark:0.1", "classes:2"]), seeds)
def test_the_same_seed_gives_the_same_split_and_another_one_another(spec, seed):
    labels = np.arange(3000) % 10
    first, again = split(spec, labels, 7, seed), split(spec, labels.astype(np.uint8), 7, seed)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    other = split(spec, labels, 7, seed + 1)
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


PRINT_SPLIT = """
import hashlib, sys
import numpy as np
from lppa.node.datasets.partition import split
labels = np.arange(5000) ** 2 % 7
for spec in sys.argv[1:]:
    parts = split(spec, labels, 6, 2**63 + 5)
    print(hashlib.sha256(b"|".join(p.astype("<i8").tobytes() for p in parts)).hexdigest())
"""


def test_another_process_makes_the_same_split():
    specs = ["iid", "quantity:0.5", "dirichlet:0.1", "benchmark:0.1", "classes:2"]
    run = subprocess.run(
        [sys.executable, "-c", PRINT_SPLIT, *specs],
        env={"PYTHONHASHSEED": "77", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    labels = np.arange(5000) ** 2 % 7
    here = []
    for spec in specs:
        parts = split(spec, labels, 6, 2**63 + 5)
        bits = b"|".join(part.astype("<i8").tobytes() for part in parts)
        here.append(hashlib.sha256(bits).hexdigest())
    assert run.stdout.split() == here


def test_a_small_alpha_skews_labels_and_sizes_and_a_large_one_does_not():
    labels = np.repeat(np.arange(10), 1000)

    def spread(spec):
        counts = label_counts(split(spec, labels, 5, 1), labels)[1]
        return counts.max(0).mean(), counts.sum(1).max()

    assert spread("dirichlet:0.05")[0] > 700 > 300 > spread("dirichlet:1000")[0]
    assert spread("quantity:0.2")[1] > 4000 > 2200 > spread("quantity:1000")[1]


def test_the_split_of_the_benchmark_gives_nobody_more_who_has_its_share():
    labels = np.repeat(np.arange(10), 1000)
    for seed in range(20):
        counts = label_counts(split("benchmark:0.1", labels, 5, seed), labels)[1]
        before = np.cumsum(counts, axis=1) - counts
        assert not counts[before >= len(labels) / 5].any()
        # Else a client could have nearly everything.
        assert counts.sum(1).max() < len(labels) / 5 + 1000
    assert max(map(len, split("dirichlet:0.1", labels, 5, 3))) > len(labels) / 5 + 1000


def test_quantity_skew_leaves_the_label_mix_as_it_is():
    labels = np.tile([0, 1], 50_000)
    counts = label_counts(split("quantity:0.5", labels, 4, 3), labels)[1]
    assert np.allclose(counts[:, 0] / counts.sum(1), 0.5, atol=0.1)


def test_dirichlet_splits_give_ten_samples_to_each_client_where_that_can_be_drawn():
    labels = np.tile([0, 1], 15_000)
    for seed in range(30):
        assert min(map(len, split("dirichlet:0.1", labels, 5, seed))) >= 10
        assert min(map(len, split("quantity:0.5", labels, 5, seed))) >= 10


@pytest.mark.parametrize("alpha", [5e-324, 1e-300, 1e300, 1.7e308])
def test_extreme_alphas_still_give_a_partition(alpha):
    labels = np.arange(200) % 3
    for kind in ("quantity", "dirichlet", "benchmark"):
        assert_true_partition(split(f"{kind}:{alpha}", labels, 9, 0), labels, 9)


def test_as_many_clients_as_samples_get_one_each():
    for spec in ("iid", "quantity:0.1", "dirichlet:0.1", "classes:1"):
        parts = split(spec, np.arange(30) % 3, 30, 0)
        assert [len(part) for part in parts] == [1] * 30


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "unknown partition"),
        ("shards", "unknown partition"),
        ("IID", "unknown partition"),
        ("iid:2", "takes no number"),
        ("quantity", "ALPHA must be"),
        ("quantity:", "ALPHA must be"),
        ("dirichlet:0", "ALPHA must be"),
        ("dirichlet:-1", "ALPHA must be"),
        ("dirichlet:nan", "ALPHA must be"),
        ("dirichlet:inf", "ALPHA must be"),
        ("dirichlet:a lot", "ALPHA must be"),
        ("classes", "K must be"),
        ("classes:0", "K must be"),
        ("classes:-2", "K must be"),
        ("classes:1.5", "K must be"),
        ("classes:²", "K must be"),
    ],
)
def test_a_wrong_spec_is_refused_before_any_data_is_needed(spec, reason):
    with pytest.raises(WrongUse, match=reason) as error:
        parse_partition(spec)
    assert repr(spec) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_right_spec_is_parsed():
    assert parse_partition("iid").kind == "iid"
    assert parse_partition("dirichlet:0.1").value == 0.1
    assert parse_partition("classes:2").value == 2


@pytest.mark.parametrize(
    ("spec", "clients", "seed", "reason"),
    [
        ("iid", 101, 0, "101 clients cannot share 100 samples"),
        ("iid", 0, 0, "at least 1"),
        ("iid", 2, -1, "seed -1"),
        ("classes:11", 20, 0, "only 10 labels"),
        ("classes:1", 5, 0, "5 of 10 labels to nobody; use at least 2 labels per client, or 10"),
    ],
)
def test_what_cannot_be_split_is_refused_with_the_reason(spec, clients, seed, reason):
    with pytest.raises(WrongUse, match=reason):
        split(spec, np.arange(100) % 10, clients, seed)


def test_a_label_rarer_than_its_holders_is_held_by_fewer():
    labels = np.array([0] * 50 + [1] * 50 + [2])
    counts = label_counts(split("classes:2", labels, 6, 0), labels)[1]
    assert counts[:, 2].sum() == 1
    with pytest.raises(WrongUse, match="too few samples"):
        split("classes:3", labels, 6, 0)


def test_the_paper_splits_can_all_be_had():
    ten, two = np.arange(60_000) % 10, np.arange(30_000) % 2
    for labels, spec in ((ten, "classes:2"), (two, "classes:1"), (ten, "dirichlet:0.1")):
        assert_true_partition(split(spec, labels, 5, 0), labels, 5)
