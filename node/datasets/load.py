"""A data set by its name: finds its files, has them prepared once, and hands out its rows.

The ways to split rows over clients are `partition`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lppa.node.datasets.cache import (
    Entry,
    Prepared,
    entry_for,
    load_or_prepare,
    only_one,
    open_prepared,
)
from lppa.node.datasets.catalogue import CATALOGUE, Source
from lppa.node.datasets.csv_tables import prepare_csv
from lppa.node.datasets.fetch import fetch
from lppa.node.datasets.files import FoundFile, data_folder
from lppa.node.datasets.npz import prepare_npz
from lppa.node.datasets.samples import Dataset, Samples, SparseSamples
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Description:
    """What a model needs to know of a data set: the shape of one input, the number of classes.

    No classes means regression.
    """

    shape: tuple[int, ...]
    classes: int


def chosen_dataset(settings: Settings) -> Dataset:
    """The data set that the settings name."""
    return load_dataset(
        settings.dataset,
        settings.data_dir,
        normalize=settings.normalize,
        target=settings.target,
        task=settings.task,
    )


def load_dataset(
    name: str,
    data_dir: str | Path | None = None,
    *,
    normalize: bool = False,
    target: str | None = None,
    task: str = "auto",
) -> Dataset:
    """The data set called `name`, or the user's own in the file `name`, a .npz or a .csv.

    Of a .csv `target` is the column that is to be predicted, and `task` what it is.

    Raw files are looked for below `data_dir` (default: $LPPA_DATA, else a folder of this user)
    and downloaded if they are not there. `normalize` shifts and scales images, and columns of
    own tables, to the training part's mean 0 and deviation 1; the named tables are prepared that
    way already. Sparse rows keep their zeros: rcv1's, of length 1, are scaled so that the values
    that are there have a mean square of 1.
    """
    if is_own(name):
        return _dataset(name, _prepared_own(Path(name).expanduser(), target, task), None, normalize)
    source = source_of(name)
    folder = data_folder(data_dir)
    found = find_files(source, folder)
    if not source.usable(found):
        fetch_files(source, folder)
        found = find_files(source, folder)
    prepared = load_or_prepare(cache_entry(source, folder, found), lambda: source.prepare(found))
    return _dataset(name, prepared, source, normalize)


def is_prepared(settings: Settings) -> bool:
    """Whether the arrays of one of our data sets are on disk: opening them costs nothing."""
    source, folder = source_of(settings.dataset), data_folder(settings.data_dir)
    found = find_files(source, folder)
    return source.usable(found) and open_prepared(cache_entry(source, folder, found)) is not None


def describe(
    name: str, data_dir: str | Path | None = None, *, target: str | None = None, task: str = "auto"
) -> Description:
    """Shape and classes, without reading anything where the name alone tells them."""
    if is_own(name):
        dataset = load_dataset(name, data_dir, target=target, task=task)
        return Description(dataset.shape, dataset.classes)
    source = source_of(name)
    return Description(source.shape, source.classes)


def is_own(name: str) -> bool:
    """Whether a data set's name is the path of a user's own file."""
    return name.endswith((".npz", ".csv"))


def source_of(name: str) -> Source:
    """The entry of the catalogue, in the form that the name asks for."""
    base, colon, wanted = name.partition(":")
    source = CATALOGUE.get(base)
    if source is None or (colon and wanted not in source.forms):
        forms = [f"{one}:{form}" for one, about in CATALOGUE.items() for form in about.forms]
        raise WrongUse(
            f"unknown data set {name!r}: use one of {', '.join([*CATALOGUE, *forms])}, or the path "
            "of a .npz or a .csv file"
        )
    if not colon:
        return source
    form = source.forms[wanted]
    return replace(source, name=name, task=form.task, shape=form.shape, prepare=form.prepare)


def find_files(source: Source, folder: Path) -> dict[str, FoundFile]:
    """Those of the source's files that are below the folder, by name."""
    places = {file: file.find(folder) for file in source.files}
    return {file.name: FoundFile(file, path) for file, path in places.items() if path}


def fetch_files(source: Source, folder: Path) -> list[Path]:
    """Downloads what is missing, one process at a time; returns what is new."""
    with only_one(cache_entry(source, folder, {})):
        return fetch(source.files, folder)


def cache_entry(source: Source, folder: Path, found: Mapping[str, FoundFile]) -> Entry:
    """Where the prepared arrays of these files are kept."""
    # Embedded data is the same whatever the data folder is.
    where = folder if source.files else Path("/")
    return entry_for(source.name, where, [file.path for file in found.values()])


def _prepared_own(path: Path, target: str | None, task: str) -> Prepared:
    if not path.is_file():
        raise WrongUse(f"{path}: no such file")
    if path.suffix == ".csv":
        entry = entry_for("csv", path, [path], repr((target, task)))
        return load_or_prepare(entry, lambda: prepare_csv(path, target, task))
    return load_or_prepare(entry_for("npz", path, [path]), lambda: prepare_npz(path))


def _dataset(name: str, prepared: Prepared, source: Source | None, normalize: bool) -> Dataset:
    facts = prepared.facts
    train, test = (_samples(prepared, part, source, normalize) for part in ("train", "test"))
    if source is None:
        for warning in facts.get("warnings", ()):
            log.warning("%s: %s", name, warning)
        names = tuple(facts.get("names", ()))
        return Dataset(name, train, test, tuple(facts["shape"]), facts["classes"], names)
    rows = (len(train), len(test))
    if rows != source.rows:
        log.warning(
            "%s: %s and %s rows for training and testing, not the published %s and %s%s",
            name,
            *(f"{count:,}" for count in (*rows, *source.rows)),
            f": {facts['note']}" if "note" in facts else "",
        )
    return Dataset(name, train, test, source.shape, source.classes)


def _samples(
    prepared: Prepared, part: str, source: Source | None, normalize: bool
) -> Samples | SparseSamples:
    arrays = prepared.arrays
    y: np.ndarray = arrays[f"y_{part}"]
    if source is not None and f"indptr_{part}" in arrays:
        data, indices, indptr = (arrays[f"{name}_{part}"] for name in ("data", "indices", "indptr"))
        scale = _sparse_scale(arrays["data_train"]) if normalize else 1.0
        return SparseSamples(data, indices, indptr, y, source.shape[0], scale)
    mean, std = (arrays.get(name) if normalize else None for name in ("mean", "std"))
    facts = prepared.facts
    of_targets = (facts.get("y_mean", 0.0), facts.get("y_std", 1.0))
    return Samples(arrays[f"x_{part}"], y, facts.get("scale", 1.0), mean, std, *of_targets)


def _sparse_scale(values: np.ndarray) -> float:
    """What to multiply with so that the values have a mean square of 1."""
    size = float(np.sqrt(np.mean(np.square(values, dtype=np.float64)))) if len(values) else 0.0
    return 1.0 / size if size else 1.0
