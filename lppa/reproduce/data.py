"""Small copies of data sets, for sizes that do not use the whole of them.

Knows the node's loaders by name only.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically
from lppa.protocol.settings import QUADRATICS
from lppa.reproduce.sizes import Rows

ORDER = 20  # the seed of the rows that a copy takes: any number, but always the same


def hidden_folder(folder: Path) -> Path:
    """A folder that keeps itself out of version control."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        write_atomically(ignore, "*\n")
    return folder


def dataset_path(folder: Path, dataset: str, rows: Rows) -> str:
    """What `--dataset` is told: a name, or the file of a small copy, made if it is not there."""
    if rows is None:
        return dataset
    path = hidden_folder(folder).resolve() / f"{dataset.replace(':', '')}-{rows[0]}-{rows[1]}.npz"
    if not path.exists():
        write_atomically(path, small_copy(load(dataset), rows))
    return str(path)


def load(dataset: str, data_dir: str | None = None) -> Any:
    """The data set as the nodes would see it; None where there is none, as for a quadratic."""
    if dataset in QUADRATICS:
        return None
    # Imported late: most cells need no copy, and it takes a while.
    from lppa.node.datasets import load_dataset

    return load_dataset(dataset, data_dir)


def small_copy(whole: Any, rows: tuple[int, int]) -> bytes:
    """A .npz with so many rows for training and testing, taken at random, the same every time."""
    if not hasattr(whole.train, "x"):
        raise WrongUse(
            f"{whole.name} has sparse rows and no small copy: leave it out of --datasets"
        )
    arrays = {}
    for part, count in zip(("train", "test"), rows, strict=True):
        samples = getattr(whole, part)
        order = np.random.Generator(np.random.PCG64(ORDER)).permutation(len(samples))[:count]
        x = np.asarray(samples.x)[order]
        arrays[f"x_{part}"] = (x / samples.scale).astype(np.float32)
        arrays[f"y_{part}"] = np.asarray(samples.y)[order]
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()
