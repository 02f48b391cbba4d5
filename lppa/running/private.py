"""The private folder that a local run's sockets are in; also those that killed runs have left.

A run that is killed cannot take its folder away. Whoever makes the next one does: a folder whose
lock nobody holds belongs to nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lppa.running.signals import uninterrupted

PREFIX = "lppa-"
LOCK = "lock"


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that this user alone can read; gone afterwards."""
    sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = _lock(folder)
    try:
        yield folder
    finally:
        with uninterrupted():
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def sweep(where: Path) -> None:
    """Takes away the folders of runs that are no more."""
    for lock in where.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError):
            if lock.stat().st_uid == os.getuid() and _is_free(lock):
                shutil.rmtree(lock.parent, ignore_errors=True)


def _lock(folder: Path) -> int:
    """Held as long as this process lives; it gets its name only then, so that nobody is sooner."""
    unnamed = folder / f"{LOCK}.new"
    held = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    unnamed.rename(folder / LOCK)
    return held


def _is_free(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
