"""What a host is sent in order to run its nodes: one value that is bytes on the way, never pickled.

It holds the secret keys of that host's nodes and of no others. How it gets there is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgpack

from lppa.engines.mirror import files_to_begin_with, owner
from lppa.protocol.book import AddressBook, Peer, book_content, make_book
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import LONGEST_WAIT
from lppa.protocol.sockets import new_keys
from lppa.running.chaos import ENDS, Chaos, Trouble

MOST = 1 << 31  # bytes
SOMEWHERE = "tcp://unknown:0"  # nodes tell the coordinator where they listen, and it tells others


@dataclass(frozen=True)
class Parcel:
    """What the nodes of one host are started with.

    `keys` are the secret keys by node, and so say which nodes these are. `code` is what the run
    brings itself, `interface` where nodes listen, `files` what they go on from, by path in the
    run's directory. `place` is how many nodes of other parcels come before them on their host.
    """

    book: AddressBook
    keys: Mapping[int, str] = field(repr=False)
    timeout: float
    attackers: tuple[int, ...] = ()
    chaos: Chaos = ()
    resume: bool = False
    code: bytes | None = field(default=None, repr=False)
    interface: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    place: int = 0

    @property
    def nodes(self) -> tuple[int, ...]:
        """The host's nodes, in the order of their ids."""
        return tuple(sorted(self.keys))

    def to(self, coordinator: str) -> Parcel:
        """The same for a coordinator that listens there."""
        peer = replace(self.book.coordinator, endpoint=coordinator)
        return replace(self, book=replace(self.book, coordinator=peer))

    def pack(self) -> bytes:
        """As bytes."""
        content = {
            "book": book_content(self.book),
            "keys": sorted(self.keys.items()),
            "timeout": float(self.timeout),
            "attackers": list(self.attackers),
            "chaos": [list(astuple(trouble)) for trouble in self.chaos],
            "resume": self.resume,
            "code": self.code,
            "interface": self.interface,
            "files": dict(self.files),
            "place": self.place,
        }
        length = sum(map(len, self.files.values())) + len(self.code or b"")
        if length > MOST // 2:
            raise WrongUse(
                f"a host would have to be sent {length:,} bytes to begin with, and {MOST // 2:,} "
                "are the most: take more hosts"
            )
        packed: bytes = msgpack.packb(content)
        return packed


def unpack(raw: bytes) -> Parcel:
    """What `pack` made; raises WrongUse for anything else."""
    try:
        content = msgpack.unpackb(raw)
        return _parcel(content)
    except (KeyError, TypeError, ValueError, msgpack.UnpackException) as error:
        raise WrongUse(f"what came is no parcel of lppa ({error!r})") from None


def _parcel(content: Any) -> Parcel:
    book = make_book(content["book"])
    keys = {_int(node): _is(str, key) for node, key in content["keys"]}
    for node in keys:
        book.node(node)
    if not keys:
        raise ValueError("a host without nodes")
    timeout = _is(float, content["timeout"])
    if not 0 < timeout <= LONGEST_WAIT:
        raise ValueError("no time to wait")
    files = {_is(str, path): _is(bytes, data) for path, data in _is(dict, content["files"]).items()}
    if any(owner(path) not in keys for path in files):
        raise ValueError("files of other nodes")
    code, interface = content["code"], content["interface"]
    return Parcel(
        book,
        keys,
        timeout,
        tuple(_int(node) for node in content["attackers"]),
        tuple(_trouble(one) for one in content["chaos"]),
        _is(bool, content["resume"]),
        None if code is None else _is(bytes, code),
        None if interface is None else _is(str, interface),
        files,
        _int(content["place"]),
    )


def _trouble(content: Sequence[Any]) -> Trouble:
    kind, node, round, seconds = content
    if kind not in ENDS or not math.isfinite(seconds):
        raise ValueError("no such trouble")
    return Trouble(kind, _int(node), _int(round), float(seconds))


def _int(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a number that is none")
    return value


def _is(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"a {type(value).__name__} in the place of a {kind.__name__}")
    return value


@dataclass(frozen=True)
class Order:
    """A run whose nodes are to be placed: what parcels are made of.

    `keys` are the secret keys of all nodes. `folder` is the run's directory on this machine, where
    all files come back to.
    """

    book: AddressBook
    keys: Sequence[str] = field(repr=False)
    folder: Path
    timeout: float
    attackers: tuple[int, ...] = ()
    chaos: Chaos = ()
    resume: bool = False
    code: bytes | None = field(default=None, repr=False)

    def parcel(self, nodes: Sequence[int], interface: str | None = None, place: int = 0) -> Parcel:
        """For the host of these nodes, with nothing of others that is secret."""
        return Parcel(
            self.book,
            {node: self.keys[node] for node in nodes},
            self.timeout,
            tuple(node for node in self.attackers if node in nodes),
            tuple(trouble for trouble in self.chaos if trouble.node in nodes),
            self.resume,
            self.code,
            interface,
            files_to_begin_with(self.folder, nodes) if self.resume else {},
            place,
        )


def placed_book(run: str, nodes: int, coordinator: str) -> tuple[AddressBook, list[str]]:
    """An address book of nodes that say themselves where they are, and the secret keys.

    The coordinator's comes last.
    """
    keys = [new_keys() for _ in range(nodes + 1)]
    places = [SOMEWHERE] * nodes + [coordinator]
    peers = [Peer(place, key.public) for place, key in zip(places, keys, strict=True)]
    return AddressBook(run, peers[-1], tuple(peers[:-1])), [key.secret for key in keys]
