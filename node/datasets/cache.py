"""Prepared arrays on disk: parsed once per machine, then memory-mapped by every process.

An entry is a folder of .npy files and facts.json, below the user's cache folder:

    prepared/v<format>/<data set>-<place of its sources>/<state of its sources>/

It appears whole or not at all (written aside, then renamed), under a lock that dies with the
process that holds it: of five nodes that start together one prepares and four wait. Whatever can
go wrong with the cache costs time, never a run: without it, arrays are prepared in memory.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lppa.node.datasets.files import cache_folder

log = logging.getLogger(__name__)

# Counts up whenever a loader prepares other arrays from the same sources.
FORMAT = 2


@dataclass(frozen=True)
class Prepared:
    """Named arrays, and the few facts about them that are not arrays (JSON values)."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """Where the arrays of one data set, from one place, in one state, are or will be."""

    name: str
    place: str
    state: str

    @property
    def folder(self) -> Path:
        """The folder of the entry; its siblings are outdated states of the same sources."""
        return _root() / f"{self.name}-{self.place}" / self.state

    @property
    def lock(self) -> Path:
        """The file whose lock protects all states of these sources."""
        return _root() / f"{self.name}-{self.place}.lock"


def entry_for(name: str, where: Path, sources: Sequence[Path], what: str = "") -> Entry:
    """The entry of the data set `name` in the folder or file `where`, as its files are now.

    `what` tells data sets apart that are made of the same files.
    """
    state = []
    # Resolved, so that a relative path and an absolute one lead to the same entry.
    for source in sorted(path.resolve() for path in sources):
        stat = source.stat()
        state.append((str(source), stat.st_size, stat.st_mtime_ns))
    return Entry(name.replace(":", "-"), _digest(f"{where.resolve()}{what}"), _digest(repr(state)))


def open_prepared(entry: Entry) -> Prepared | None:
    """The arrays of an entry, memory-mapped and shared; None where they are not prepared."""
    try:
        facts = json.loads((entry.folder / "facts.json").read_text())
        names = facts.pop("arrays")
        arrays = {
            # As plain arrays: indexing a np.memmap costs a Python call per batch.
            name: np.asarray(np.load(entry.folder / f"{name}.npy", mmap_mode="r"))
            for name in names
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Prepared(arrays, facts)


def load_or_prepare(entry: Entry, prepare: Callable[[], Prepared]) -> Prepared:
    """The arrays of an entry, prepared first by whichever process comes first."""
    found = open_prepared(entry)
    if found is not None:
        return found
    with only_one(entry):
        found = open_prepared(entry)
        if found is not None:
            return found
        prepared = prepare()
        try:
            _write(entry.folder, prepared)
        except OSError as error:
            log.warning("prepared data cannot be kept in %s: %s", entry.folder.parent, error)
            return prepared
    return open_prepared(entry) or prepared


@contextmanager
def only_one(entry: Entry) -> Iterator[None]:
    """Lets one process at a time through; where nothing can be locked, lets all through."""
    try:
        entry.lock.parent.mkdir(parents=True, exist_ok=True)
        file = entry.lock.open("w")
    except OSError:
        yield
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("waiting for another process that prepares %s", entry.name)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            # Some network file systems have no locks. Writing stays atomic without them.
            log.debug("%s cannot be locked", entry.lock)
        yield


def _write(folder: Path, prepared: Prepared) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # mkdtemp makes it readable by its owner alone: a user's own data may be private.
    aside = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        for name, array in prepared.arrays.items():
            with (aside / f"{name}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
        facts = {**prepared.facts, "arrays": list(prepared.arrays)}
        (aside / "facts.json").write_text(json.dumps(facts))
        # Outdated states, and what a process that was killed here left behind. A process that
        # has them mapped keeps its pages.
        for old in folder.parent.iterdir():
            if old != aside:
                shutil.rmtree(old, ignore_errors=True)
        aside.rename(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _root() -> Path:
    return cache_folder() / "prepared" / f"v{FORMAT}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
