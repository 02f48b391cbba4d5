"""The address book, peers.json, and the key files: who is where, and how to know that it is them.

Written once per experiment by `lppa peers`; secret keys never stand in it. Opening sockets with it
is not done here.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lppa.protocol.errors import WrongUse
from lppa.protocol.files import open_privately, write_atomically

KEY_LENGTH = 40  # a CURVE key in Z85
NO_KEY = ""  # of every process where links are in clear
KEY = rf"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{{}}@%$#]{{{KEY_LENGTH}}}"
COORDINATOR_NAME = "coordinator"
# What links in clear mean, for those who ask for them.
IN_CLEAR = (
    "links are not encrypted: whoever reaches these ports, any user of this machine too, can read "
    "θ, γ and noise, change them, and take part"
)


@dataclass(frozen=True)
class Peer:
    """Where one process listens, and its public key, NO_KEY in a run in clear."""

    endpoint: str
    public_key: str


@dataclass(frozen=True)
class AddressBook:
    """One run's coordinator and nodes; the position in `nodes` is the node's id.

    Either all of them have keys, or none has.
    """

    run: str
    coordinator: Peer
    nodes: tuple[Peer, ...]

    @property
    def encrypted(self) -> bool:
        """Whether links use CURVE: wherever there are keys."""
        return self.coordinator.public_key != NO_KEY

    @property
    def exposed(self) -> bool:
        """Whether others than this user can reach links in clear: any user can use a TCP port."""
        peers = (self.coordinator, *self.nodes)
        return not self.encrypted and any(p.endpoint.startswith("tcp://") for p in peers)

    def node(self, node: int) -> Peer:
        """The entry of one node; an id that is not in the book is wrong use."""
        if not 0 <= node < len(self.nodes):
            raise WrongUse(
                f"there is no node {node} in peers.json: it has 0 to {len(self.nodes) - 1}"
            )
        return self.nodes[node]

    def keys(self) -> dict[str, int]:
        """Whose public key it is, for every key in the book; the coordinator is −1."""
        return {self.coordinator.public_key: -1} | {
            p.public_key: i for i, p in enumerate(self.nodes)
        }


def is_local(endpoint: str) -> bool:
    """Whether an endpoint can be reached from this host only."""
    if endpoint.startswith(("ipc://", "inproc://")):
        return True
    host = host_of(endpoint)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_endpoint(text: str) -> bool:
    """Whether a text is like tcp://HOST:PORT or ipc://PATH."""
    pattern = r"tcp://(\[[0-9a-fA-F:.]+\]|[^\s:/*\[\]]+):\d{1,5}|ipc://\S+"
    return re.fullmatch(pattern, text) is not None


def is_any_port(endpoint: str) -> bool:
    """Whether an endpoint leaves the port to the operating system."""
    return endpoint.startswith("tcp://") and endpoint.endswith(":0")


def host_of(endpoint: str) -> str:
    """The host in a tcp endpoint, without the brackets of IPv6."""
    return endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")


def book_content(book: AddressBook) -> dict[str, Any]:
    """What stands in peers.json; raises WrongUse rather than give out a book that is none."""
    content = {
        "run": book.run,
        "coordinator": asdict(book.coordinator),
        "nodes": [{"id": i, **asdict(peer)} for i, peer in enumerate(book.nodes)],
    }
    make_book(content)
    return content


def write_book(book: AddressBook, path: Path) -> None:
    """Writes peers.json in one step."""
    content = book_content(book)
    write_atomically(path, json.dumps(content, indent=2) + "\n")


def read_book(path: Path, insecure: bool = False) -> AddressBook:
    """Reads and checks peers.json; one with TCP in clear is taken only if that was asked for."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WrongUse(f"{path} does not exist; `lppa peers N --out DIR` makes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"{path} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise WrongUse(f"{path} is not JSON that can be read: {error}") from None
    try:
        book = make_book(content)
    except WrongUse as error:
        raise WrongUse(f"{path}: {error}") from None
    if book.exposed and not insecure:
        raise WrongUse(
            f"{path} has TCP endpoints and no keys: make one with keys by `lppa peers`, or say "
            f"--insecure, which means that {IN_CLEAR}"
        )
    return book


def make_book(content: Any) -> AddressBook:
    """The book that `book_content` gave out; raises WrongUse for anything else."""
    if not isinstance(content, dict):
        raise WrongUse("it must be an object with run, coordinator and nodes")
    run, nodes = content.get("run"), content.get("nodes")
    if not isinstance(run, str) or not run or len(run) > 80:
        raise WrongUse("`run` must be a text of 1 to 80 characters")
    if not isinstance(nodes, list) or len(nodes) < 2:
        raise WrongUse("`nodes` must be a list of at least 2 nodes")
    by_id: dict[int, Peer] = {}
    for entry in nodes:
        node = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(node, int) or isinstance(node, bool):
            raise WrongUse("every node needs a whole number as its `id`")
        if node in by_id:
            raise WrongUse(f"node {node} is there twice")
        by_id[node] = _peer(entry, f"node {node}")
    if set(by_id) != set(range(len(by_id))):
        raise WrongUse(f"node ids must be 0 to {len(by_id) - 1}, each once")
    book = AddressBook(
        run,
        _peer(content.get("coordinator"), COORDINATOR_NAME),
        tuple(by_id[i] for i in sorted(by_id)),
    )
    _check_distinct(book)
    if len({peer.public_key == NO_KEY for peer in (book.coordinator, *book.nodes)}) > 1:
        raise WrongUse("some have a public_key and some have none: all need one")
    return book


def _peer(entry: Any, name: str) -> Peer:
    if not isinstance(entry, dict):
        raise WrongUse(f"{name} has no entry")
    endpoint, key = entry.get("endpoint"), entry.get("public_key", NO_KEY)
    if not isinstance(endpoint, str) or not is_endpoint(endpoint):
        raise WrongUse(f"{name}: endpoint {endpoint!r} is not like tcp://HOST:PORT or ipc://PATH")
    if endpoint.startswith("tcp://"):
        # Port 0 is any that is free: a node says hello with the one that it got. The coordinator
        # must be found without having said anything.
        lowest = 1 if name == COORDINATOR_NAME else 0
        if not lowest <= int(endpoint.rpartition(":")[2]) <= 65535:
            raise WrongUse(f"{name}: endpoint {endpoint!r} has no such port")
    if not isinstance(key, str) or (key != NO_KEY and not re.fullmatch(KEY, key)):
        raise WrongUse(f"{name}: public_key must be a CURVE key of {KEY_LENGTH} characters")
    return Peer(endpoint, key)


def _check_distinct(book: AddressBook) -> None:
    """No two processes may share an address or a key."""
    seen: dict[str, str] = {}
    named = [(COORDINATOR_NAME, book.coordinator)]
    named += [(f"node {i}", peer) for i, peer in enumerate(book.nodes)]
    for name, peer in named:
        for what in (peer.endpoint, peer.public_key):
            if what == NO_KEY or (what == peer.endpoint and is_any_port(what)):
                continue
            if what in seen:
                raise WrongUse(f"{seen[what]} and {name} have the same address or key: {what}")
            seen[what] = name


def key_file(folder: Path, node: int) -> Path:
    """Where `lppa peers` puts a secret key; node −1 is the coordinator."""
    return folder / "keys" / (f"{COORDINATOR_NAME}.key" if node < 0 else f"node-{node}.key")


def write_key(path: Path, secret: str) -> None:
    """Writes a secret key that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with open_privately(path, "x") as file:
        file.write(secret + "\n")


def read_key(path: Path) -> str:
    """Reads a secret key; refuses one that others could have read."""
    try:
        mode = path.stat().st_mode
        secret = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a key"
        raise WrongUse(
            f"secret key {path} cannot be read ({reason}); links are encrypted, "
            "so the key file that `lppa peers` wrote is needed (--key FILE)"
        ) from None
    if mode & 0o077:
        raise WrongUse(f"secret key {path} can be read by others; run: chmod 600 {path}")
    if not re.fullmatch(KEY, secret):
        raise WrongUse(f"{path} holds no CURVE key of {KEY_LENGTH} characters")
    return secret
