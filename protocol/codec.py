"""Messages to frames and back: a msgpack header and one raw little-endian frame per array.

Arrays that are small together are copied into one frame, one behind the other: the header says how
large each of them is, and a frame costs more than its bytes. Larger ones are not copied on the way
out, and nothing is ever unpickled on the way in. A frame that is not
exactly what its header says raises BadMessage; whether a well-formed message is *expected* (its
sender, round, size) is for the receiver to judge, not decided here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import msgpack
import numpy as np

from lppa.protocol.messages import Message, Together, cut

VERSION = 7
COORDINATOR = -1  # the sender id of the coordinator; nodes count from 0
MAX_HEADER = 1 << 20  # of a plan; the receiver of anything else allows less
MAX_FRAME = 1 << 31
MAX_TEXT = 1 << 16
MAX_DIMENSIONS = 4
MAX_VECTORS = 16
PIECE = 1 << 18  # numbers that are looked at in one go
FEW = 10_000
TOGETHER = 1 << 17  # bytes of arrays that travel in one frame
DTYPES: dict[str, np.dtype[Any]] = {
    "<f4": np.dtype("<f4"),
    "<f8": np.dtype("<f8"),
    "|u1": np.dtype("|u1"),
}

KINDS: dict[str, type] = {kind.__name__.lower(): kind for kind in get_args(Message)}
NAMES = {kind: name for name, kind in KINDS.items()}
FIELDS: dict[type, tuple[Field[Any], ...]] = {kind: fields(kind) for kind in KINDS.values()}


Frame = Any
"""Bytes, an array or a view of either: whatever has its memory in one piece."""


class BadMessage(Exception):
    """A message that must not be used; the text is the reason. Never leaves the receiving loop."""


class WrongRun(BadMessage):
    """A well-formed message of another run."""

    def __init__(self, run: str) -> None:
        super().__init__(f"it belongs to run {run!r}")
        self.run = run


@dataclass(frozen=True)
class Envelope:
    """A decoded message, who its header says sent it, and which of that sender's it is."""

    sender: int
    message: Message
    number: int = 0


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _is_float(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


# How each annotated type of a message field is checked; arrays are checked with their frames.
CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "str": lambda value: isinstance(value, str),
    "dict[str, Any]": lambda value: (
        isinstance(value, dict) and all(isinstance(key, str) for key in value)
    ),
    "tuple[int, ...]": lambda value: isinstance(value, list) and all(map(_is_int, value)),
    "tuple[float, ...]": lambda value: isinstance(value, list) and all(map(_is_float, value)),
    "tuple[str, ...]": lambda value: (
        isinstance(value, list) and all(isinstance(text, str) for text in value)
    ),
}
ARRAY, VECTORS = "np.ndarray", "Vectors"
IN_HEADER = ("epoch", "round")  # of every message, 0 where it has none


class Travels(NamedTuple):
    """How the fields of a kind of message travel: as frames, or in the header if they differ from
    their defaults. Sorted out once, since messages are written all the time."""

    vectors: tuple[str, ...]
    arrays: tuple[str, ...]
    body: tuple[tuple[str, Any], ...]


def _travels(about: tuple[Field[Any], ...]) -> Travels:
    return Travels(
        tuple(field.name for field in about if field.type == VECTORS),
        tuple(field.name for field in about if field.type == ARRAY),
        tuple(
            (field.name, field.default)
            for field in about
            if field.type not in (VECTORS, ARRAY) and field.name not in IN_HEADER
        ),
    )


TRAVELS = {kind: _travels(about) for kind, about in FIELDS.items()}


# What differs from message to message of one kind stands last and has a fixed width, so that all
# before it is made once. Big-endian, as msgpack has it, each behind its name.
DATE = struct.Struct(">6s c I 6s c I")
NUMBER = struct.Struct(">7s c I")
DATE_AND_NUMBER = struct.Struct(">6s c I 6s c I 7s c I")
WIDE = b"\xce"  # says that four bytes of a number follow


@dataclass(frozen=True)
class Letter:
    """A message that is ready for any number of receivers: nothing is missing but its number."""

    head: bytes
    frames: Sequence[Frame]
    size: int  # bytes of its arrays

    def to_frames(self, number: int = 0) -> list[Frame]:
        """The frames for one receiver."""
        return [numbered(self.head, number), *self.frames]


def encode(message: Message, run: str, sender: int, number: int = 0) -> list[Frame]:
    """The frames of a message; its arrays are handed on as they are, not copied.

    `number` counts the messages of a link that must not be lost; others have none.
    """
    return write(message, run, sender).to_frames(number)


def write(message: Message, run: str, sender: int) -> Letter:
    """A message as it is sent to one receiver or many."""
    arrays: dict[str, np.ndarray] = {}
    body: dict[str, Any] = {}
    travels = TRAVELS[type(message)]
    for name in travels.vectors:
        arrays |= getattr(message, name)
    for name in travels.arrays:
        arrays[name] = getattr(message, name)
    for name, default in travels.body:
        value = getattr(message, name)
        if value != default:
            body[name] = value
    frames = [np.ascontiguousarray(array) for array in arrays.values()]
    specs = tuple(
        (name, array.dtype.str, array.shape) for name, array in zip(arrays, frames, strict=True)
    )
    for name, dtype, _ in specs:
        if dtype not in DTYPES:
            raise TypeError(f"{name}: {dtype} does not travel")
    kind = NAMES[type(message)]
    first = _opening(kind, run, sender, specs, body) if body else _known(kind, run, sender, specs)
    head = dated(first, getattr(message, "epoch", 0), getattr(message, "round", 0))
    size = sum(array.nbytes for array in frames)
    if len(frames) > 1 and size <= TOGETHER:
        whole = getattr(message, "vectors", None)
        joined = whole.whole if isinstance(whole, Together) else b"".join(a.data for a in frames)
        return Letter(head, [joined], size)
    return Letter(head, frames, size)


def state_opening(run: str, sender: int, dtype: np.dtype[Any], sizes: Mapping[str, int]) -> bytes:
    """How the header of a sender's states begins, in every round in which these vectors travel."""
    kind = dtype.newbyteorder("<").str
    return _known("state", run, sender, tuple((name, kind, (n,)) for name, n in sizes.items()))


def dated(opening: bytes, epoch: int, round: int) -> bytes:
    """A header as far as it is the same for all receivers."""
    return opening + DATE.pack(b"\xa5epoch", WIDE, epoch, b"\xa5round", WIDE, round)


def header_of(opening: bytes, epoch: int, round: int, number: int) -> bytes:
    """A whole header in one go."""
    return opening + DATE_AND_NUMBER.pack(
        b"\xa5epoch", WIDE, epoch, b"\xa5round", WIDE, round, b"\xa6number", WIDE, number
    )


def numbered(head: bytes, number: int) -> bytes:
    """A header that has its date already."""
    return head + NUMBER.pack(b"\xa6number", WIDE, number)


Specs = tuple[tuple[str, str, tuple[int, ...]], ...]


@lru_cache(maxsize=256)
def _known(kind: str, run: str, sender: int, specs: Specs) -> bytes:
    return _opening(kind, run, sender, specs, {})


def _opening(kind: str, run: str, sender: int, specs: Specs, body: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(
        {
            "version": VERSION,
            "run": run,
            "kind": kind,
            "sender": sender,
            "tensors": specs,
            "body": body,
        }
    )
    # The first byte counts the fields: three more follow.
    return bytes([packed[0] + 3]) + packed[1:]


@dataclass(frozen=True)
class Limits:
    """How large a message may be where it arrives, before anything of it is looked at."""

    header: int = MAX_HEADER
    arrays: int = MAX_VECTORS * MAX_FRAME


ANY = Limits()
FROM_COORDINATOR = Limits(arrays=0)
FROM_NODE = Limits(1 << 16, 1 << 14)  # what a node tells the coordinator
ANSWER = Limits(1 << 13, 0)  # of a neighbour


def decode(frames: Sequence[Frame], run: str, limits: Limits = ANY) -> Envelope:
    """The message in the frames, its arrays in place; raises BadMessage if anything is off."""
    if len(frames) > 1 + MAX_VECTORS:
        raise BadMessage(f"more than {MAX_VECTORS} arrays")
    sizes = [memoryview(frame).nbytes for frame in frames]
    if sum(sizes[1:]) > limits.arrays:
        raise BadMessage(f"arrays of {sum(sizes[1:])} bytes")
    if sizes and sizes[0] > limits.header:
        raise BadMessage(f"header of {sizes[0]} bytes")
    header = _header(frames)
    if header["version"] != VERSION:
        raise BadMessage(f"it speaks protocol version {header['version']}, this is {VERSION}")
    if header["kind"] not in KINDS:
        raise BadMessage(f"unknown kind {header['kind'][:40]!r}")
    if header["run"] != run:
        raise WrongRun(header["run"][:80])
    kind = KINDS[header["kind"]]
    arrays = _arrays(header["tensors"], frames[1:])
    values = _body(kind, header, arrays)
    return Envelope(header["sender"], kind(**values), header["number"])


NATURAL = ("number", *IN_HEADER)
HEADER = {"version": int, "run": str, "kind": str, "sender": int, **dict.fromkeys(NATURAL, int)}


def _header(frames: Sequence[Frame]) -> dict[str, Any]:
    if not frames:
        raise BadMessage("no header")
    try:
        header = msgpack.unpackb(memoryview(frames[0]), strict_map_key=True, max_str_len=MAX_TEXT)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise BadMessage(f"unreadable header ({type(error).__name__})") from None
    if not isinstance(header, dict) or set(header) != {*HEADER, "tensors", "body"}:
        raise BadMessage("header with other fields than ours")
    for name, kind in HEADER.items():
        if type(header[name]) is not kind:
            raise BadMessage(f"header field {name} is not {kind.__name__}")
    if not -1 <= header["sender"] < 1 << 31:
        raise BadMessage("sender out of range")
    if not all(0 <= header[name] < 1 << 31 for name in NATURAL):
        raise BadMessage("number, epoch or round out of range")
    if not isinstance(header["tensors"], list) or not isinstance(header["body"], dict):
        raise BadMessage("header with wrong types")
    return header


def _arrays(specs: list[Any], frames: Sequence[Frame]) -> dict[str, np.ndarray]:
    if len(specs) > MAX_VECTORS:
        raise BadMessage(f"more than {MAX_VECTORS} arrays")
    sizes = [_bytes_of(spec) for spec in specs]
    if len(frames) == 1 < len(specs):
        together = memoryview(frames[0]).cast("B")
        if len(together) != sum(sizes):
            raise BadMessage(f"arrays of {len(together)} bytes in all, not {sum(sizes)}")
        frames = cut(together, sizes)
    if len(specs) != len(frames):
        raise BadMessage(f"{len(frames)} frames for {len(specs)} arrays")
    arrays = {}
    for (name, dtype, shape), expected, frame in zip(specs, sizes, frames, strict=True):
        raw = memoryview(frame)
        if raw.nbytes != expected:
            raise BadMessage(f"array {name[:40]!r} has {raw.nbytes} bytes, not {expected}")
        arrays[name] = plain_array(raw, DTYPES[dtype]).reshape(shape)
    if len(arrays) != len(specs):
        raise BadMessage("two arrays with one name")
    return arrays


def _bytes_of(spec: Any) -> int:
    """How many bytes an array has that is described like that."""
    if not isinstance(spec, list) or len(spec) != 3 or not isinstance(spec[0], str):
        raise BadMessage("unreadable array description")
    name, dtype, shape = spec
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise BadMessage("an array of a type that does not travel")
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_DIMENSIONS
        or not all(_is_int(n) and 0 <= n <= MAX_FRAME for n in shape)
        or math.prod(max(1, n) for n in shape) > MAX_FRAME
    ):
        raise BadMessage(f"array {name[:40]!r} with an impossible shape")
    return math.prod(shape) * DTYPES[dtype].itemsize


def plain_array(frame: Frame, dtype: np.dtype[Any]) -> np.ndarray:
    """The numbers in a frame, in place; none where it does not hold a whole number of them."""
    try:
        array = np.frombuffer(frame, dtype)
    except ValueError:  # a part of a number at its end
        return np.zeros(0, dtype)
    # ZeroMQ may place a small frame at any byte; arithmetic wants numbers on their boundary.
    return array if array.flags.aligned else array.copy()


def _body(kind: type, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The constructor's arguments, each checked against the message's annotation."""
    body: dict[str, Any] = header["body"]
    values: dict[str, Any] = {}
    for about in FIELDS[kind]:
        if about.type == ARRAY:
            if about.name not in arrays:
                raise BadMessage(f"{header['kind']} without {about.name}")
            values[about.name] = arrays[about.name]
        elif about.type == VECTORS:
            values[about.name] = dict(arrays)
            if not 0 < len(arrays) <= MAX_VECTORS:
                raise BadMessage(f"{header['kind']} with {len(arrays)} vectors")
        elif about.name in IN_HEADER:
            values[about.name] = header[about.name]
        elif about.name not in body and about.default is not MISSING:
            values[about.name] = about.default
        else:
            if about.name not in body or not CHECKS[str(about.type)](body[about.name]):
                raise BadMessage(f"{header['kind']} without a proper {about.name}")
            value = body[about.name]
            values[about.name] = tuple(value) if isinstance(value, list) else value
    taken = set(values) - set(IN_HEADER)
    if any(about.type == VECTORS for about in FIELDS[kind]):
        taken |= set(arrays)
    if not {*body, *arrays} <= taken:
        raise BadMessage(f"{header['kind']} with more than it should have")
    return values


def all_finite(array: np.ndarray) -> bool:
    """Whether no value is NaN or infinite."""
    if array.dtype.kind != "f":
        return True
    flat = array.reshape(-1)
    # A sum of squares is finite only if all of them are. More numbers than that BLAS would share
    # out to threads, and processors have other nodes' work to do.
    if flat.size <= FEW and math.isfinite(np.vdot(flat, flat)):
        return True
    # In pieces: what is made on the way stays small, whatever the array is.
    return all(
        np.isfinite(flat[first : first + PIECE]).all() for first in range(0, flat.size, PIECE)
    )
