"""Feeds spoiled messages, logs and address books to their readers; finds what a stranger would.

Usage: python scripts/fuzz.py [--count 1000000] [--seed 1] [--kept runs/fuzz.jsonl]
Everything is made from something valid by a few random changes. A reader may refuse it, in its own
words and in little time, or take it; whatever it takes must be of the types that it promises, and
mean the same after it is written and read again. Goes on where it stopped, in chunks; what is found
is printed with the bytes that show it. Sockets are not in it: see the tests of floods.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from resumable import measure_missing
from spoiling import Frames, Rng, change_bytes, change_message, change_value

from lppa.coordinator.metrics import check_metrics
from lppa.node.log import LogWriter, read_log
from lppa.protocol import codec
from lppa.protocol.book import AddressBook, Peer, book_content, read_book
from lppa.protocol.codec import BadMessage, decode, encode
from lppa.protocol.errors import LppaError, RunFailed, WrongUse
from lppa.protocol.foresight import Foresight
from lppa.protocol.messages import Message, Metrics, Plan, State
from lppa.protocol.settings import make_settings
from lppa.protocol.view import Place, View, read_view

RUN = "run-1"
CHUNK = 10_000
SLOW = 2.0  # seconds for one item: far more than any needs, far less than people wait


class Fault(Exception):
    """A reader did what it must not; the text says what."""


# -- something valid of each kind


def value_for(annotation: str, rng: Rng) -> Any:
    """A value of a message field's type."""
    makers: dict[str, Callable[[], Any]] = {
        "int": lambda: rng.randrange(100),
        "str": lambda: rng.choice(["", "abc", "f" * 64, "tcp://127.0.0.1:5001", "θ"]),
        "bool": lambda: rng.random() < 0.5,
        "float": rng.random,
        "bytes": lambda: rng.randbytes(8),
        "dict[str, Any]": lambda: {"a": 1, "b": [1.5, None], "c": {"d": "e"}},
        "tuple[int, ...]": lambda: tuple(range(rng.randrange(4))),
        "tuple[float, ...]": lambda: tuple(rng.random() for _ in range(rng.randrange(4))),
        "tuple[str, ...]": lambda: ("tensor", "seed"),
        codec.ARRAY: lambda: np.arange(rng.choice([0, 1, 5]), dtype=rng.choice(["<f4", "|u1"])),
        codec.VECTORS: lambda: {name: np.ones(3, "<f4") for name in ("theta", "gamma")},
    }
    return makers[annotation]()


def valid_messages(rng: Rng) -> Iterator[Message]:
    """One message of every kind there is, and those whose contents are looked into further."""
    for kind in codec.KINDS.values():
        # In the order of the fields, so that the same seed gives the same message.
        yield kind(**{about.name: value_for(str(about.type), rng) for about in fields(kind)})
    told = {"rule": "lppa", "beta": 0.5, "rounds": 3}
    yield Plan("run", 2, told, 7, view().content(), "f" * 64, "g" * 64)
    figures = {"gamma_norm": 1.0, "gradient_norm": 2.0, "accuracy": None, "loss": 0.5}
    totals = {"seconds": {"compute": 1.0, "exchange": 1.0, "eval": 0.5}, "bytes": {"state": 5}}
    yield Metrics(3, {**figures, **totals}, np.ones(256), np.zeros(256))


def view() -> View:
    """A view of two nodes."""
    places = {i: Place((1 - i,), (0.5,), 0.5, (1 - i,), (0.5,)) for i in (0, 1)}
    return View(0, 0, (0, 1), places, {0: "ipc:///tmp/a", 1: "tcp://127.0.0.1:5001"})


@lru_cache(maxsize=1)
def seeds_of_messages() -> tuple[Frames, ...]:
    """The frames of valid messages: what mutations begin with."""
    rng = Rng(0)
    return tuple(
        [memoryview(frame).tobytes() for frame in encode(message, RUN, rng.randrange(3))]
        for _ in range(3)
        for message in valid_messages(rng)
    )


@lru_cache(maxsize=1)
def states_foreseen() -> tuple[tuple[Foresight, int], ...]:
    """Who awaits just the states that mutations begin with, and whose they are."""
    found = []
    for frames in seeds_of_messages():
        envelope = decode(frames, RUN)
        if isinstance(envelope.message, State):
            epoch, round = envelope.message.epoch, envelope.message.round
            sizes = {name: array.size for name, array in envelope.message.vectors.items()}
            awaited = {envelope.sender: round}
            sight = Foresight(RUN, epoch, np.dtype("<f4"), lambda t, sizes=sizes: sizes, awaited)
            found.append((sight, envelope.sender))
    return tuple(found)


# -- what readers must hold


def check_foreseen(frames: Frames) -> None:
    """What is known by its header before it comes must be what reading it in full gives."""
    for sight, sender in states_foreseen():
        state = sight.read(sender, 0, frames)
        if state is not None:
            envelope = decode(frames, RUN)
            if envelope.sender != sender or meaning(envelope.message) != meaning(state):
                raise Fault("it was foreseen as something else than it is")


def check_message(frames: Frames) -> str:
    """Decodes; whatever is taken has the promised types and survives being sent on."""
    check_foreseen(frames)
    try:
        envelope = decode(frames, RUN)
    except BadMessage:
        return "refused"
    message = envelope.message
    if type(message) not in codec.NAMES:
        raise Fault(f"a {type(message).__name__} came out")
    for about in fields(message):
        check_type(about.name, str(about.type), getattr(message, about.name))
    again = decode(encode(message, RUN, envelope.sender), RUN)
    if meaning(again.message) != meaning(message) or again.sender != envelope.sender:
        raise Fault("it means something else after it was sent on")
    check_contents(message)
    return "taken"


def check_contents(message: Message) -> None:
    """What looks into a message further refuses in its own words as well."""
    try:
        if isinstance(message, Plan):
            make_settings(message.settings)
            read_view(message.view)
        elif isinstance(message, Metrics):
            check_metrics(message)
    except (WrongUse, RunFailed, BadMessage):
        return


SHAPES: dict[str, Callable[[Any], bool]] = {
    "int": lambda v: type(v) is int and -(1 << 63) < v < 1 << 63,
    "str": lambda v: type(v) is str and len(v) <= codec.MAX_TEXT,
    "bool": lambda v: type(v) is bool,
    "float": lambda v: type(v) is float,
    "bytes": lambda v: type(v) is bytes,
    "dict[str, Any]": lambda v: type(v) is dict and all(type(key) is str for key in v),
    "tuple[int, ...]": lambda v: type(v) is tuple and all(type(x) is int for x in v),
    "tuple[float, ...]": lambda v: type(v) is tuple and all(type(x) is float for x in v),
    "tuple[str, ...]": lambda v: type(v) is tuple and all(type(x) is str for x in v),
    codec.ARRAY: lambda v: is_array(v),
    codec.VECTORS: lambda v: 0 < len(v) <= codec.MAX_VECTORS and all(map(is_array, v.values())),
}


def is_array(value: Any) -> bool:
    """An array of one of our types, that numpy can work on where it is."""
    return isinstance(value, np.ndarray) and value.dtype.str in codec.DTYPES and value.flags.aligned


def check_type(name: str, annotation: str, value: Any) -> None:
    """Said again, apart from the codec: what each annotation promises."""
    if not SHAPES[annotation](value):
        raise Fault(f"{name} is not {annotation}: {str(value)[:80]!r}")


def meaning(message: Message) -> list[bytes]:
    """Everything in a message as bytes: NaN is then the same as itself."""
    return [memoryview(frame).tobytes() for frame in encode(message, RUN, 0)]


def fuzz_message(rng: Rng, folder: Path) -> tuple[str, bytes]:
    """One message with one to three changes."""
    known = seeds_of_messages()
    frames = rng.choice(known)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        frames = change_message(frames, known, rng)
    return guarded(lambda: check_message(frames)), b"|".join(frames)


@lru_cache(maxsize=1)
def valid_log() -> bytes:
    """A log as a node writes it."""
    rng = Rng(0)
    with tempfile.TemporaryDirectory() as folder:
        writer = LogWriter(Path(folder) / "log", RUN, 0, Plan("n", 2, {}, 1, {}, "f", "g"))
        for message in valid_messages(rng):
            writer(rng.choice(["in", "out"]), 1, message)
        writer.close()
        return (Path(folder) / "log").read_bytes()


def fuzz_log(rng: Rng, folder: Path) -> tuple[str, bytes]:
    """A recorded log with a few bytes changed."""
    raw = change_bytes(valid_log(), valid_log(), rng)
    if rng.random() < 0.2:
        raw += rng.choice([bytes(4), b"\xff" * 4, b"\x01\0\0\0" + bytes(8), raw])
    path = folder / "log"
    path.write_bytes(raw)

    def read() -> str:
        for entry in read_log(path):
            if entry.direction not in ("in", "out") or type(entry.peer) is not int:
                raise Fault(f"an entry from nowhere: {entry.direction!r}, {entry.peer!r}")
            check_type("message", "bool", type(entry.message) in codec.NAMES)
        return "taken"

    return guarded(read), raw


@lru_cache(maxsize=1)
def valid_book() -> str:
    """A peers.json."""
    peers = [Peer(f"tcp://127.0.0.1:{5000 + i}", chr(97 + i) * 40) for i in range(3)]
    return json.dumps(book_content(AddressBook(RUN, peers[0], tuple(peers[1:]))))


def fuzz_book(rng: Rng, folder: Path) -> tuple[str, bytes]:
    """A peers.json with a value or some bytes changed."""
    raw = valid_book().encode()
    if rng.random() < 0.7:
        content = json.loads(raw)
        change_value(content, rng)
        raw = json.dumps(content, default=str, skipkeys=True).encode()
    else:
        raw = change_bytes(raw, raw, rng)
    path = folder / "peers.json"
    path.write_bytes(raw)

    def read() -> str:
        book = read_book(path)
        path.write_text(json.dumps(book_content(book)))
        if read_book(path) != book:
            raise Fault("it is another book after it was written")
        return "taken"

    return guarded(read), raw


def guarded(read: Callable[[], str]) -> str:
    """Runs a reader: refused, taken, or what it did wrong."""
    began = time.process_time()
    try:
        outcome = read()
    except (BadMessage, LppaError):
        outcome = "refused"
    except Fault as fault:
        outcome = f"fault: {fault}"
    except Exception as error:
        outcome = f"fault: {type(error).__name__}: {str(error)[:200]}"
    seconds = time.process_time() - began
    return outcome if seconds < SLOW else f"fault: it took {seconds:.1f} s"


TARGETS: dict[str, Callable[[Rng, Path], tuple[str, bytes]]] = {
    "message": fuzz_message,
    "log": fuzz_log,
    "book": fuzz_book,
}


def fuzz(seed: str, count: int, target: str = "message") -> dict[str, Any]:
    """So many items of one sort: how often each outcome was, the slowest, and what went wrong."""
    rng, outcomes, faults, slowest = Rng(f"{target}/{seed}"), Counter[str](), [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            began = time.process_time()
            outcome, raw = TARGETS[target](rng, Path(folder))
            slowest = max(slowest, time.process_time() - began)
            outcomes[outcome.partition(":")[0]] += 1
            if outcome.startswith("fault") and len(faults) < 20:
                faults.append({"what": outcome, "bytes": raw[:4096].hex()})
    return {"count": count, **outcomes, "slowest": slowest, "faults": faults}


@click.command(help=__doc__)
@click.option("--count", default=1_000_000, show_default=True, help="Messages.")
@click.option("--seed", default=1, show_default=True)
@click.option("--kept", default="runs/fuzz.jsonl", show_default=True, type=Path)
def main(count: int, seed: int, kept: Path) -> None:
    """Fuzzes so many messages, and logs and books besides, and says what was found."""
    parts = [f"message/{seed}/{part}" for part in range(math.ceil(count / CHUNK))]
    # Files take a hundred times as long, and have far fewer ways to be wrong.
    parts += [f"{target}/{seed}/{part}" for target in ("log", "book") for part in range(2)]

    def measure(name: str) -> dict[str, Any]:
        target, _, rest = name.partition("/")
        return fuzz(rest, min(CHUNK, count), target)

    rows = measure_missing(kept, parts, measure)
    rows = [row for row in rows if row["name"] in parts]
    for target in TARGETS:
        of_it = [row for row in rows if row["name"].startswith(target)]
        total = {k: sum(r.get(k, 0) for r in of_it) for k in ("count", "refused", "taken", "fault")}
        slowest = max(row["slowest"] for row in of_it)
        figures = ", ".join(f"{number:,} {name}" for name, number in total.items())
        click.echo(f"{target}: {figures}, slowest {slowest * 1000:.1f} ms")
    found = {fault["what"]: fault["bytes"] for row in rows for fault in row["faults"]}
    for what, raw in found.items():
        click.echo(f"{what}\n    {raw}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
