"""Files that are there whole or not at all, and files and folders for their owner's eyes alone.

What stands in them is the caller's matter.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, Any

OWNER_ALONE = 0o600
EVERYBODY = 0o644


def write_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Writes a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
        Path(temporary).chmod(OWNER_ALONE if private else EVERYBODY)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def open_privately(path: Path, mode: str) -> IO[Any]:
    """Opens a file to write to; if it is a new one, only its owner can read it."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, OWNER_ALONE)

    return open(path, mode, encoding=None if "b" in mode else "utf-8", opener=opener)


def make_private(folder: Path) -> None:
    """Makes a folder, and what is missing above it, that only their owner can enter.

    A folder that is there stays as it is: it may hold more than ours.
    """
    if not folder.parent.exists():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
