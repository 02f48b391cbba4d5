"""Ways to spoil what is valid: values of the wrong kind, bits, cuts and splices.

Who reads it then is not known here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import msgpack

from lppa.protocol import codec

Frames = list[bytes]
Rng = random.Random


def nested(rng: Rng) -> Any:
    """Lists or maps in each other, up to as deep as msgpack packs."""
    inner: Any = 1
    for _ in range(rng.choice([3, 40, 400])):
        inner = [inner] if rng.random() < 0.5 else {"a": inner}
    return inner


DEEP = "as deep as can be"  # stands for more nesting than msgpack itself packs


def strange(rng: Rng) -> Any:
    """A value that hardly anybody expects."""
    return rng.choice(
        [
            None, True, False, 0, -1, 1, 1 << 31, (1 << 31) - 1, 1 << 63, (1 << 64) - 1, -(1 << 63),
            0.0, -0.0, 1e308, math.nan, math.inf, "", "x" * 70_000, "\x00", "../../etc/passwd",
            "9" * 400, b"", b"\xff" * 9, [], {}, [[]], [{}], {"": 1}, {b"a": 1},
            [1 << 31, 1 << 31], [0, 1 << 31], [-1], ["<f4"], "|O8", "<f8", "theta",
            msgpack.ExtType(5, b"abc"), msgpack.Timestamp(1, 2), nested(rng), DEEP,
            rng.choice(list(codec.KINDS)),
        ]
    )  # fmt: skip


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) below a value."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places_in(value[key])


def change_value(content: Any, rng: Rng) -> None:
    """Replaces, removes, doubles or adds one value somewhere."""
    container, key = rng.choice(list(places_in(content)) or [({"": 0}, "")])
    way = rng.random()
    if way < 0.6:
        container[key] = strange(rng)
    elif way < 0.75:
        del container[key]
    elif isinstance(container, list):
        container.append(container[key])
    else:
        container[rng.choice(["extra", "θ", ""])] = container[key]


def flip_bits(raw: bytes, rng: Rng) -> bytes:
    """A few bits turned over."""
    spoiled = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if spoiled:
            spoiled[rng.randrange(len(spoiled))] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def cut(raw: bytes, rng: Rng) -> bytes:
    """The beginning only."""
    return raw[: rng.randrange(len(raw) + 1)]


def splice(raw: bytes, other: bytes, rng: Rng) -> bytes:
    """The beginning of one and the end of another."""
    return cut(raw, rng) + other[rng.randrange(len(other) + 1) :]


# First bytes of msgpack values: those that announce much, those that are never used.
TYPES = bytes([0xC0, 0xC1, 0xC3, 0xC6, 0xC9, 0xCF, 0xCB, 0xD3, 0xDB, 0xDD, 0xDF, 0x80, 0x90, 0xD6])


def swap_type(raw: bytes, rng: Rng) -> bytes:
    """One byte becomes the beginning of another type, perhaps of four billion of it."""
    spoiled, place = bytearray(raw), rng.randrange(len(raw) + 1)
    spoiled[place : place + 1] = bytes([rng.choice(TYPES)]) + rng.choice([b"", b"\xff" * 4])
    return bytes(spoiled)


def change_bytes(raw: bytes, other: bytes, rng: Rng) -> bytes:
    """One of the changes that know nothing of the format."""
    way = rng.randrange(5)
    if way == 0:
        return cut(raw, rng)
    if way == 1:
        return splice(raw, other, rng)
    return swap_type(raw, rng) if way == 2 else flip_bits(raw, rng)


def change_message(frames: Frames, others: tuple[Frames, ...], rng: Rng) -> Frames:
    """One change to a message: in its header, its bytes, or the frames that it has."""
    frames, other, way = list(frames), rng.choice(others), rng.random()
    if way < 0.5:
        try:
            header = msgpack.unpackb(frames[0], strict_map_key=False)
            change_value(header, rng)
            deep = b"\x91" * rng.choice([300, 600, 1100]) + b"\x01"
            frames[0] = msgpack.packb(header).replace(msgpack.packb(DEEP), deep)
        except (ValueError, TypeError, AttributeError, KeyError, msgpack.UnpackException):
            frames[0] = flip_bits(frames[0], rng)  # it was no header any more
    elif way < 0.85:
        place = 0 if rng.random() < 0.8 else rng.randrange(len(frames))
        frames[place] = change_bytes(frames[place], rng.choice(other), rng)
    elif way < 0.9:
        frames = [other[0], *frames[1:]]
    elif way < 0.95:
        frames.append(rng.choice(other))
    else:
        del frames[rng.randrange(len(frames))]
    return frames or [b""]
