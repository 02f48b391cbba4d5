"""Splits a training set over clients: seeded, every sample exactly once, no client empty.

    iid              equal parts
    quantity:ALPHA   sizes ~ Dirichlet(ALPHA), labels as they come
    dirichlet:ALPHA  each label is shared out over the clients by a draw of its own from
                     Dirichlet(ALPHA): the paper's p_k ~ Dir(0.1)
    benchmark:ALPHA  the same, but that a client that has its share of all rows already gets no
                     more: as the benchmark does that the paper takes its splits from
    classes:K        each client holds K labels, a label's samples are shared equally by those
                     that hold it: the paper's #C = K

The Dirichlet splits are drawn again, a hundred times at most, while a client has fewer than
ten samples, as in that benchmark (Li et al., 2022); where that does not help, a client that is
still empty is given one sample of the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lppa.node.datasets.samples import is_classes
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import PARTITIONS

BY_LABEL = ("dirichlet", "benchmark", "classes")
ENOUGH_SAMPLES = 10
MOST_DRAWS = 100


@dataclass(frozen=True)
class Partition:
    """A parsed spec: which way to split, and its number (0 for iid)."""

    kind: str
    value: float


def parse_partition(spec: str) -> Partition:
    """What a spec such as `dirichlet:0.1` says; needs no data."""
    kind, colon, text = spec.partition(":")
    if kind not in SPLITTERS:
        raise WrongUse(f"unknown partition {spec!r}: use {PARTITIONS}")
    if kind == "iid":
        if colon:
            raise WrongUse(f"partition {spec!r}: iid takes no number")
        return Partition(kind, 0)
    if kind == "classes":
        if not (text.isascii() and text.isdigit() and int(text) >= 1):
            raise WrongUse(f"partition {spec!r}: K must be a whole number of at least 1")
        return Partition(kind, int(text))
    try:
        alpha = float(text)
    except ValueError:
        alpha = math.nan
    if not 0 < alpha < math.inf:
        raise WrongUse(f"partition {spec!r}: ALPHA must be a number above 0")
    return Partition(kind, alpha)


def split(spec: str, labels: np.ndarray, clients: int, seed: int) -> list[np.ndarray]:
    """For each client its row numbers, in ascending order.

    Depends on the arguments and nothing else: every process that calls it gets the same split.
    """
    partition = parse_partition(spec)
    labels = np.asarray(labels)
    if partition.kind in BY_LABEL and not is_classes(labels):
        raise WrongUse(
            f"--partition {spec} shares out classes, and the targets here are numbers "
            "(regression): use iid or quantity:ALPHA"
        )
    if clients < 1:
        raise WrongUse(f"{clients} clients: there must be at least 1")
    if clients > len(labels):
        raise WrongUse(
            f"{clients} clients cannot share {len(labels)} samples: each needs at least one"
        )
    if seed < 0:
        raise WrongUse(f"seed {seed}: must be 0 or more")
    rng = np.random.Generator(np.random.PCG64(seed))
    parts = SPLITTERS[partition.kind](partition.value, labels, clients, rng)
    return [np.sort(part) for part in parts]


def label_counts(parts: Sequence[np.ndarray], labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The labels that occur, and how many samples of each every client has ([client, label])."""
    names, codes = np.unique(labels, return_inverse=True)
    counts = [np.bincount(codes[part], minlength=len(names)) for part in parts]
    return names, np.stack(counts)


def _iid(_: float, labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    return np.array_split(rng.permutation(len(labels)), clients)


def _quantity(
    alpha: float, labels: np.ndarray, clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
    return _deal([np.arange(len(labels))], _draw(np.array([len(labels)]), alpha, clients, rng), rng)


def _dirichlet(
    alpha: float, labels: np.ndarray, clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
    groups = _by_label(labels)
    sizes = np.array([len(group) for group in groups])
    return _deal(groups, _draw(sizes, alpha, clients, rng), rng)


def _benchmark(
    alpha: float, labels: np.ndarray, clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
    groups = _by_label(labels)
    sizes = np.array([len(group) for group in groups])
    return _deal(groups, _draw(sizes, alpha, clients, rng, len(labels) / clients), rng)


def _classes(
    k: float, labels: np.ndarray, clients: int, rng: np.random.Generator
) -> list[np.ndarray]:
    groups = _by_label(labels)
    holds = _holders(int(k), np.array([len(group) for group in groups]), clients, rng)
    counts = np.zeros(holds.shape, np.int64)
    for label, group in enumerate(groups):
        holders = np.flatnonzero(holds[label])
        # The first ones get one more: a random order keeps that from favouring low numbers.
        shares = [len(part) for part in np.array_split(group, len(holders))]
        counts[label, rng.permutation(holders)] = shares
    return _deal(groups, counts, rng)


def _holders(k: int, sizes: np.ndarray, clients: int, rng: np.random.Generator) -> np.ndarray:
    """Which client holds which label ([label, client]): k each, no label without a client."""
    labels = len(sizes)
    if k > labels:
        raise WrongUse(f"classes:{k}: there are only {labels} labels")
    if clients * k < labels:
        raise WrongUse(
            f"classes:{k}: {clients} clients with {k} labels each leave {labels - clients * k} of "
            f"{labels} labels to nobody; use at least {-(-labels // clients)} labels per client, "
            f"or {-(-labels // k)} clients"
        )
    # A label can be held by as many clients as it has samples.
    most = np.minimum(sizes, clients)
    if most.sum() < clients * k:
        raise WrongUse(
            f"classes:{k}: the labels have too few samples (the rarest {sizes.min()}) for "
            f"{clients} clients to hold {k} labels each"
        )
    # First how many hold each label, as even as can be ...
    degree = np.ones(labels, np.int64)
    for _ in range(clients * k - labels):
        free = np.where(degree < most, degree, np.iinfo(np.int64).max)
        degree[_random_argmin(free, rng)] += 1
    # ... then who: taking the labels with most places left never leads into a dead end.
    holds = np.zeros((labels, clients), bool)
    for client in range(clients):
        order = np.lexsort((rng.random(labels), -degree))
        holds[order[:k], client] = True
        degree[order[:k]] -= 1
    return holds


def _random_argmin(values: np.ndarray, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(values == values.min())))


def _draw(
    sizes: np.ndarray,
    alpha: float,
    clients: int,
    rng: np.random.Generator,
    enough: float = math.inf,
) -> np.ndarray:
    """How many samples of each group every client gets ([group, client]), no client empty.

    Who has `enough` of the groups before gets nothing of the next.
    """
    for _ in range(MOST_DRAWS):
        counts = np.zeros((len(sizes), clients), np.int64)
        for row, size in zip(counts, sizes, strict=True):
            row[:] = _shares(size, alpha, rng, counts.sum(0) < enough)
        if counts.sum(0).min() >= ENOUGH_SAMPLES:
            return counts
    for empty in np.flatnonzero(counts.sum(0) == 0):
        largest = counts.sum(0).argmax()
        group = counts[:, largest].argmax()
        counts[group, largest] -= 1
        counts[group, empty] += 1
    return counts


def _shares(size: int, alpha: float, rng: np.random.Generator, takes: np.ndarray) -> np.ndarray:
    """How many of so many samples each client gets; those that take none get none."""
    shares = rng.dirichlet(np.full(len(takes), alpha)) * takes
    if not shares.any():
        # Near the largest float the draw overflows; its limit is known. And those who take some
        # may all have drawn nothing.
        shares = takes / takes.sum()
    elif not takes.all():
        shares /= shares.sum()
    edges = np.rint(np.cumsum(shares) * size).astype(np.int64)
    edges[-1] = size
    return np.diff(edges, prepend=0)


def _deal(
    groups: Sequence[np.ndarray], counts: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Shuffles each group and cuts it by the counts of its row."""
    cut = [
        np.split(rng.permutation(group), np.cumsum(row)[:-1])
        for group, row in zip(groups, counts, strict=True)
    ]
    return [np.concatenate(parts) for parts in zip(*cut, strict=True)]


def _by_label(labels: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


Splitter = Callable[[float, np.ndarray, int, np.random.Generator], list[np.ndarray]]

SPLITTERS: dict[str, Splitter] = {
    "iid": _iid,
    "quantity": _quantity,
    "dirichlet": _dirichlet,
    "benchmark": _benchmark,
    "classes": _classes,
}
