"""Files that are there whole or not at all, and files and folders for their owner's eyes alone.

What stands in them is the caller's matter.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

OWNER_ALONE = 0o600
EVERYBODY = 0o644


def write_atomically(
    path: Path, content: str | bytes, private: bool = False, durably: bool = False
) -> None:
    """Writes a file so that it is there whole or not at all; `durably` also after a power cut."""
    raw = content.encode() if isinstance(content, str) else content
    with writing(path, private, durably) as file:
        file.write(raw)


@contextmanager
def writing(
    path: Path, private: bool = False, durably: bool = False, spare: Path | None = None
) -> Iterator[IO[bytes]]:
    """A file to write to piece by piece, which has its name when all of it is there.

    What is no file (a device, a pipe, /dev/stdout) is written into, and never replaced by one. The
    room of a `spare` file beside it, which is gone then, takes a third of the time of new room.
    """
    if _is_no_file(path):
        with os.fdopen(_open_at_once(path), "wb") as file:
            yield file
        return
    descriptor, temporary = _unnamed(path) if spare is None else _reused(spare, path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if spare is not None:
                file.truncate()
            if not private:  # it is made for its owner alone
                os.fchmod(descriptor, EVERYBODY)
            if durably:
                file.flush()
                os.fsync(descriptor)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_no_file(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    folder = path.parent.resolve()
    # /dev/stdout and /dev/fd/63 are names of whatever was opened, which may well be a file.
    opened = folder == Path("/dev") or folder.is_relative_to("/proc")
    return opened or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _open_at_once(path: Path) -> int:
    """Opens what is there; a pipe that nobody reads from is an error, and not waited for."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def _unnamed(path: Path) -> tuple[int, str]:
    """A file for its owner alone beside the one that it will be; makes the folder if need be."""
    try:
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")


def _reused(spare: Path, path: Path) -> tuple[int, str]:
    """A file that nobody needs any more, under a name that says so."""
    temporary = f"{path.parent}/.{path.name}.{secrets.token_hex(4)}"
    try:
        spare.replace(temporary)
        return os.open(temporary, os.O_WRONLY), temporary
    except FileNotFoundError:
        return _unnamed(path)


def forget_unfinished(folder: Path) -> None:
    """Deletes what `write_atomically` was writing in a folder when it was killed."""
    for path in folder.glob(".*.????????"):
        path.unlink(missing_ok=True)


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


def keep_lines(path: Path, wanted: Callable[[int, str], bool]) -> None:
    """Keeps some lines of a file, by their number and text; a torn last line goes.

    So does a line that makes no sense to `wanted`, such as what a power cut leaves.
    """
    if not path.exists():
        return

    def makes_sense(number: int, line: str) -> bool:
        try:
            return wanted(number, line)
        except (ValueError, LookupError, TypeError, RecursionError):
            return False

    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    kept = [line for number, line in enumerate(whole) if makes_sense(number, line)]
    if kept != lines:
        private = path.stat().st_mode & 0o077 == 0
        write_atomically(path, "".join(kept), private)
