"""Nodes' files come back while they are made: what changed in a folder, and writing it down again.

Nothing here knows how pieces travel. What grows (logs, lines of figures) is sent by its tails, what
is replaced at once (models, checkpoints) as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lppa.protocol.files import OWNER_ALONE, forget_unfinished, make_private

MOST = 1 << 20  # bytes of a piece
LONGEST = 1 << 42  # bytes of a file
COMMON = 3  # checkpoints that all nodes have and that are kept
CHECKPOINTS = "checkpoints"
UNFINISHED = "mirrored"  # as long as what `forget_unfinished` looks for
GROWS = (".log", ".jsonl")
NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
PATH = re.compile(rf"nodes/(\d{{1,6}})/(?:{CHECKPOINTS}/)?{NAME}|attacks/node-(\d{{1,6}})\.log")


@dataclass(frozen=True)
class Piece:
    """Bytes of a file, by its path in the run's directory.

    A file that is sent as a `whole` has so many bytes, and takes its place with its last piece.
    One without is longer now; a piece at 0 begins it anew.
    """

    path: str
    offset: int
    data: bytes
    whole: int | None = None


@dataclass(frozen=True)
class Gone:
    """A checkpoint of a round that will be done again: nobody may go on from it."""

    path: str


Change = Piece | Gone


class BadPiece(Exception):
    """No host sends this; the text says why."""


def owner(path: str) -> int | None:
    """The node whose file this is, None for a path that no node of ours writes to."""
    match = PATH.fullmatch(path)
    return None if match is None else int(match[1] or match[2])


@dataclass(frozen=True)
class Seen:
    """A file as it was when it was sent as a whole."""

    inode: int
    size: int
    changed: int


@dataclass
class Tail:
    """A file that grows, and how much of it was sent; −1 where it has to begin anew.

    It stays open: as long as it is, no other file can pass for it.
    """

    file: IO[bytes]
    sent: int = -1


class Mirror:
    """Looks at the files of some nodes in a run's directory, and tells what is new since."""

    def __init__(self, folder: Path, nodes: Iterable[int]) -> None:
        self.folder = folder
        self.nodes = tuple(nodes)
        self.seen: dict[str, Seen] = {}
        self.tails: dict[str, Tail] = {}

    def close(self) -> None:
        """Lets go of the files."""
        for tail in self.tails.values():
            tail.file.close()
        self.tails = {}

    def know(self) -> None:
        """What is there now is known where it goes to."""
        for _ in self.changes():
            pass

    def changes(self) -> Iterator[Change]:
        """What is new, piece by piece.

        Whole files are those that were there before anything was read: with a checkpoint come all
        lines that were written before it.
        """
        found = self._files()
        yield from self._gone(found)
        for path in found:
            if path.endswith(GROWS):
                yield from self._grown(path)
        for path, now in found.items():
            if not path.endswith(GROWS) and not _same(self.seen.get(path), now):
                yield from self._whole(path)

    def _files(self) -> dict[str, os.stat_result]:
        found: dict[str, os.stat_result] = {}
        folders = ["attacks"]
        for node in self.nodes:
            folders += [f"nodes/{node}", f"nodes/{node}/{CHECKPOINTS}"]
        for folder in folders:
            try:
                entries = sorted(os.scandir(self.folder / folder), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if owner(path) in self.nodes and entry.is_file(follow_symlinks=False):
                    try:
                        found[path] = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
        return found

    def _gone(self, found: Collection[str]) -> Iterator[Gone]:
        """The oldest checkpoints go because they are old, others because they hold no more."""
        for path in [path for path in self.seen if path not in found]:
            del self.seen[path]
            folder, _, name = path.rpartition("/")
            left = [one for one in found if one.rpartition("/")[0] == folder]
            if folder.endswith(CHECKPOINTS) and any(one < f"{folder}/{name}" for one in left):
                yield Gone(path)

    def _grown(self, path: str) -> Iterator[Piece]:
        tail = self._tail(path)
        if tail is None:
            return
        size = os.fstat(tail.file.fileno()).st_size
        anew = tail.sent < 0 or size < tail.sent
        at = 0 if anew else tail.sent
        tail.file.seek(at)
        while at < size or anew:
            data = tail.file.read(MOST)
            yield Piece(path, at, data)
            at, anew = at + len(data), False
            # Noted at once: whoever takes the pieces may stop in between.
            tail.sent = at
            if not data:
                return

    def _tail(self, path: str) -> Tail | None:
        """The file that is called so now; None if nothing was ever said in it."""
        known = self.tails.get(path)
        try:
            now = (self.folder / path).stat(follow_symlinks=False)
            if known is not None and os.path.samestat(now, os.fstat(known.file.fileno())):
                return known
            if known is None and now.st_size == 0:
                return None
            file = os.fdopen(os.open(self.folder / path, os.O_RDONLY | os.O_NOFOLLOW), "rb", 0)
        except OSError:
            return None
        if known is not None:
            known.file.close()
        self.tails[path] = Tail(file)
        return self.tails[path]

    def _whole(self, path: str) -> Iterator[Piece]:
        try:
            file = (self.folder / path).open("rb")
        except FileNotFoundError:
            return
        with file:
            now = os.fstat(file.fileno())
            at = 0
            while at < now.st_size or at == 0:
                data = file.read(min(MOST, now.st_size - at))
                yield Piece(path, at, data, now.st_size)
                at += len(data)
                if not data:
                    break
        self.seen[path] = Seen(now.st_ino, now.st_size, now.st_mtime_ns)


def _same(before: Seen | None, now: os.stat_result) -> bool:
    return before == Seen(now.st_ino, now.st_size, now.st_mtime_ns)


def write_change(run: Path, change: Change, nodes: Collection[int]) -> None:
    """Does in a run's directory what was done elsewhere, for these nodes and no others."""
    if owner(change.path) not in nodes:
        raise BadPiece(f"{change.path[:200]!r} is no file of its nodes")
    target = run / change.path
    for part in (target, *target.parents[: len(Path(change.path).parts) - 1]):
        if part.is_symlink():
            raise BadPiece(f"{part} is a link")
    if isinstance(change, Gone):
        if target.parent.name != CHECKPOINTS:
            raise BadPiece(f"{change.path} is no checkpoint")
        target.unlink(missing_ok=True)
        return
    end = change.offset + len(change.data)
    if len(change.data) > MOST or not 0 <= change.offset <= end <= LONGEST:
        raise BadPiece(f"a piece of {change.path} that is too large")
    make_private(target.parent)
    if change.whole is None:
        _write_at(target, change)
        return
    if end > change.whole:
        raise BadPiece(f"{change.path} is longer than it was said to be")
    unfinished = target.with_name(f".{target.name}.{UNFINISHED}")
    _write_at(unfinished, change, durably=end == change.whole)
    if end == change.whole:
        unfinished.replace(target)


def _write_at(path: Path, piece: Piece, durably: bool = False) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (0 if piece.offset else os.O_TRUNC)
    with os.fdopen(os.open(path, flags, OWNER_ALONE), "wb") as file:
        if os.fstat(file.fileno()).st_size != piece.offset:
            raise BadPiece(f"a piece of {piece.path} does not follow the one before it")
        file.seek(piece.offset)
        file.write(piece.data)
        if durably:
            file.flush()
            os.fsync(file.fileno())


def files_to_begin_with(run: Path, nodes: Collection[int]) -> dict[str, bytes]:
    """What nodes need in order to go on elsewhere: all that is theirs but their results."""
    found = {}
    for node in nodes:
        folder = run / "nodes" / str(node)
        forget_unfinished(folder)
        forget_unfinished(folder / CHECKPOINTS)
        paths = [*folder.glob("*.jsonl"), folder / "node.log", *folder.glob(f"{CHECKPOINTS}/*")]
        for path in [*paths, run / "attacks" / f"node-{node}.log"]:
            name = path.relative_to(run).as_posix()
            if path.is_file() and not path.is_symlink() and owner(name) == node:
                found[name] = path.read_bytes()
    return found


def drop_old_checkpoints(run: Path, nodes: Collection[int], lost: Collection[int] = ()) -> None:
    """Forgets checkpoints that are older than what all these nodes have.

    Nodes forget their own by count; hosts lag differently, and here nothing may go too soon.
    Whoever is `lost` counts until the others have gone on without it, in a later view: before that,
    what it has left is all that everyone can go on from.
    """
    names = {node: _checkpoint_names(run, node) for node in nodes}
    if not names:
        return
    left = [name for node in lost for name in _checkpoint_names(run, node)]
    epoch = max(map(_epoch, left), default="")
    common = sorted(name for name in set.intersection(*names.values()) if _epoch(name) > epoch)
    if len(common) <= COMMON:
        return
    for node, present in names.items():
        for name in present:
            if name < common[-COMMON]:
                (run / "nodes" / str(node) / CHECKPOINTS / name).unlink(missing_ok=True)


def _checkpoint_names(run: Path, node: int) -> set[str]:
    folder = run / "nodes" / str(node) / CHECKPOINTS
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    return {name for name in names if name[0] != "."}


def _epoch(name: str) -> str:
    """The part of a checkpoint's name that says in which view it was made."""
    return name.partition("-")[0]
