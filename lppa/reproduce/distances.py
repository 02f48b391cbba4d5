"""How far guesses that need no message are from the rows of a data set: ‖x̂ − x‖₂, the plain length.

What an attack gets has to be read beside these. Measured on the data itself; no network, no attack.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

ROWS = 2000
CHUNK = 200
SEED = 20  # of the rows and of the random starts: any number, but always the same

Range = tuple[float, float, float]
"""Mean, least and most over rows."""
Distances = dict[str, dict[str, Range]]
"""By guess, and before that by what the rows are: as networks are given them, or raw."""


def distances(data: Any, dataset: str, data_dir: str | None = None) -> Distances:
    """Of a random start, of the mean row and of zeros; `data` is as networks are given it."""
    mean = np.concatenate([*dense_rows(data.test)]).mean(0)
    given = ranges(dense_rows(data.train), mean)
    raw = raw_rows(dataset, data_dir)
    return {"given": given} if raw is None else {"given": given, "raw": ranges(raw)}


def ranges(parts: Iterator[np.ndarray], mean: np.ndarray | None = None) -> dict[str, Range]:
    """Over all rows; a start is drawn from N(0, 1) for each."""
    draw = np.random.Generator(np.random.PCG64(SEED))
    found: dict[str, list[np.ndarray]] = {}
    for rows in parts:
        guesses = {"start": draw.standard_normal(rows.shape), "zeros": np.zeros_like(rows)}
        if mean is not None:
            guesses["mean"] = np.broadcast_to(mean, rows.shape)
        for name, guess in guesses.items():
            found.setdefault(name, []).append(np.linalg.norm(guess - rows, axis=1))
    lengths = {name: np.concatenate(some) for name, some in found.items()}
    return {
        name: (float(some.mean()), float(some.min()), float(some.max()))
        for name, some in lengths.items()
    }


def dense_rows(samples: Any) -> Iterator[np.ndarray]:
    """Some rows, flat and as float64, a few at a time: sparse ones are wide."""
    import torch

    order = np.random.Generator(np.random.PCG64(SEED)).permutation(len(samples))[:ROWS]
    for first in range(0, len(order), CHUNK):
        x, _ = samples.take(np.sort(order[first : first + CHUNK]), torch.float64)
        dense = x if x.layout == torch.strided else x.to_dense()
        yield dense.flatten(1).numpy()


def raw_rows(dataset: str, data_dir: str | None) -> Iterator[np.ndarray] | None:
    """The rows as their file has them, where that is not what networks are given: Covtype's."""
    from lppa.node.datasets.catalogue import CATALOGUE
    from lppa.node.datasets.files import data_folder
    from lppa.node.datasets.load import find_files
    from lppa.node.datasets.tables import parse_covtype

    name = dataset.partition(":")[0]
    if name != "covtype":
        return None
    found = find_files(CATALOGUE[name], data_folder(data_dir))
    table = found["covtype.data"].parse(parse_covtype)[:, :-1]
    parts = range(0, len(table), 100 * CHUNK)
    return (table[first : first + 100 * CHUNK].astype(np.float64) for first in parts)
