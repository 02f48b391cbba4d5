"""What an attacker keeps: every message that it sent or lawfully received, in the order of events.

Append-only, in the wire's own format, so that one log serves all attacks. A record is a count of
frames, then each frame with its length before it. Nothing is judged here, and nothing is learned.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgpack

from lppa.protocol.codec import BadMessage, decode, encode
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import make_private, open_privately
from lppa.protocol.messages import Message, Noise, Plan, Seed

COUNT, LENGTH = struct.Struct("<I"), struct.Struct("<Q")


def log_path(run: Path, node: int) -> Path:
    """Where an attacker's log stands in a run's directory."""
    return run / "attacks" / f"node-{node}.log"


@dataclass(frozen=True)
class Entry:
    """One message, whether it came `in` or went `out`, and the peer at the other end."""

    direction: str
    peer: int
    message: Message


class LogWriter:
    """Writes a log while a node runs; call it with each message as it passes.

    Without a plan it goes on with a log that has one.
    """

    def __init__(self, path: Path, run: str, me: int, plan: Plan | None = None) -> None:
        make_private(path.parent)
        self.file = open_privately(path, "ab" if plan is None else "xb")
        self.run = run
        self.me = me
        self._last: Message | None = None
        if plan is not None:
            self("in", -1, plan)

    def __call__(self, direction: str, peer: int, message: Message) -> None:
        # The same state goes to every out-neighbour; one copy is enough. Noise differs for each.
        if direction == "out" and message is self._last and not isinstance(message, Noise | Seed):
            return
        self._last = message if direction == "out" else self._last
        sender = self.me if direction == "out" else peer
        frames = encode(message, self.run, sender)
        about = msgpack.packb({"direction": direction, "peer": peer, "run": self.run})
        self.file.write(COUNT.pack(len(frames) + 1))
        for frame in (about, *frames):
            view = memoryview(frame).cast("B")
            self.file.write(LENGTH.pack(view.nbytes))
            self.file.write(view)
        # A node that is killed leaves all that it has heard by then.
        self.file.flush()

    def close(self) -> None:
        """Ends the log."""
        self.file.close()


def keep_before(path: Path, round: int) -> None:
    """Drops what belongs to a later round than a run goes on from: it will pass again."""
    whole, place, kept = memoryview(path.read_bytes()), 0, []
    for entry, after in _entries(whole, path, "delete it, and it begins anew from here"):
        if isinstance(entry.message, Plan) or getattr(entry.message, "round", 0) < round:
            kept.append(whole[place:after])
        place = after
    fresh = path.with_suffix(".new")
    with open_privately(fresh, "wb") as file:
        file.writelines(kept)
    fresh.replace(path)


def read_log(path: Path) -> Iterator[Entry]:
    """The entries of a log, its arrays read-only and in place; stops where a writer was killed."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise WrongUse(f"attack log {path} cannot be read: {error.strerror}") from None
    with file:
        if path.stat().st_size == 0:
            return
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    for entry, _ in _entries(whole, path, "record it again"):
        yield entry


def _entries(whole: memoryview, path: Path, advice: str) -> Iterator[tuple[Entry, int]]:
    """What a log holds, and where each record ends."""
    place = 0
    while (record := _record(whole, place)) is not None:
        frames, place = record
        try:
            entry = _entry(frames)
        except BadMessage as reason:
            raise WrongUse(
                f"attack log {path} is damaged before byte {place} ({reason}): {advice}"
            ) from None
        yield entry, place


def _entry(frames: list[memoryview]) -> Entry:
    """What a record holds; raises BadMessage if that is not what a writer leaves."""
    try:
        about = msgpack.unpackb(frames[0])
        direction, peer, run = (about[name] for name in ("direction", "peer", "run"))
    except (IndexError, KeyError, TypeError, ValueError, msgpack.UnpackException):
        raise BadMessage("a record that says nothing about itself") from None
    if direction not in ("in", "out") or type(peer) is not int or not isinstance(run, str):
        raise BadMessage("a record that says nonsense about itself")
    return Entry(direction, peer, decode(frames[1:], run).message)


def _record(whole: memoryview, place: int) -> tuple[list[memoryview], int] | None:
    """The frames of the record at a place and where the next begins; None if it is not whole."""
    if place + COUNT.size > len(whole):
        return None
    (count,) = COUNT.unpack_from(whole, place)
    place += COUNT.size
    frames = []
    for _ in range(count):
        if place + LENGTH.size > len(whole):
            return None
        (length,) = LENGTH.unpack_from(whole, place)
        place += LENGTH.size
        if place + length > len(whole):
            return None
        frames.append(whole[place : place + length])
        place += length
    return frames, place
