"""What passes through the pipe to a host, as bytes: frames with their length before them.

Down go one parcel and then orders, up comes news. Who reads and writes them is not known here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import IO, Any

import msgpack

from lppa.engines.host import Death
from lppa.engines.mirror import MOST, Gone, Piece

# Before it there may be what a shell says to whoever comes in.
GREETING = b"lppa host 1\n"
LONGEST_GREETING = 1 << 16
LENGTH = struct.Struct(">I")
MOST_NEWS = MOST + 4096
LONGEST_WORDS = 2000


class BadFrame(Exception):
    """The other end is not what it should be; the text says why."""


@dataclass(frozen=True)
class Started:
    """All nodes of the host have been started."""


@dataclass(frozen=True)
class Refused:
    """The host cannot do it, and why."""

    why: str


@dataclass(frozen=True)
class Ended:
    """No node is left on the host, and all files have been sent."""


@dataclass(frozen=True)
class End:
    """An order: end the nodes that do not end by themselves within some seconds."""

    patience: float


@dataclass(frozen=True)
class Here:
    """An order to do nothing: whoever gives orders is still there."""


Word = Started | Refused | Ended | Death | Piece | Gone | End | Here
WORDS: dict[str, tuple[type[Any], tuple[tuple[type, ...], ...]]] = {
    "started": (Started, ()),
    "refused": (Refused, ((str,),)),
    "ended": (Ended, ()),
    "death": (Death, ((int,), (str,))),
    "piece": (Piece, ((str,), (int,), (bytes,), (int, type(None)))),
    "gone": (Gone, ((str,),)),
    "end": (End, ((float,),)),
    "here": (Here, ()),
}
NAMES = {kind: name for name, (kind, _) in WORDS.items()}


def to_bytes(word: Word) -> bytes:
    """A word without its frame."""
    packed: bytes = msgpack.packb([NAMES[type(word)], *astuple(word)])
    return packed


def from_bytes(raw: bytes) -> Word:
    """What `to_bytes` made; raises BadFrame for anything else."""
    try:
        name, *values = msgpack.unpackb(raw)
        kind, types = WORDS[name]
    except (ValueError, TypeError, KeyError, msgpack.UnpackException):
        raise BadFrame("a word that is none") from None
    if len(values) != len(types) or any(
        type(value) not in allowed for value, allowed in zip(values, types, strict=True)
    ):
        raise BadFrame(f"the word {name} with other things in it")
    word: Word = kind(*values)
    return word


def write_frame(file: IO[bytes], raw: bytes) -> None:
    """One frame, on its way at once."""
    file.write(LENGTH.pack(len(raw)))
    file.write(raw)
    file.flush()


def read_frame(file: IO[bytes], most: int) -> bytes | None:
    """The next frame, None at the end; one that is cut off is the end too."""
    head = file.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    if length > most:
        raise BadFrame(f"a frame of {length:,} bytes")
    raw = file.read(length)
    return raw if len(raw) == length else None


def read_words(file: IO[bytes], most: int = MOST_NEWS) -> Iterator[Word]:
    """Word after word, to the end."""
    while (raw := read_frame(file, most)) is not None:
        yield from_bytes(raw)


def skip_to_greeting(file: IO[bytes]) -> bool:
    """Reads until a host speaks; False if none ever does."""
    said = b""
    while not said.endswith(GREETING):
        byte = file.read(1)
        if not byte:
            return False
        said += byte
        if len(said) > LONGEST_GREETING:
            raise BadFrame("there is much talk and no host")
    return True
