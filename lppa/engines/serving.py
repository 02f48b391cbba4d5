"""A host at the end of a pipe: takes a parcel, tells news, and ends when it is told or left alone.

What a host is stands in `host`; the other end of the pipe is `piped`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from lppa.engines.frames import (
    GREETING,
    LONGEST_WORDS,
    BadFrame,
    End,
    Ended,
    Refused,
    Started,
    Word,
    read_frame,
    read_words,
    to_bytes,
    write_frame,
)
from lppa.engines.host import Host
from lppa.engines.parcel import MOST, Parcel, unpack
from lppa.protocol.errors import LppaError, WrongUse
from lppa.protocol.patience import Patience
from lppa.running.signals import uninterrupted

NEWS_EVERY = 0.25  # seconds
SILENCE = 60.0  # seconds without an order after which nobody is there any more


class Orders:
    """Hears what the other end wants; `patience` is there once the nodes are to end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.patience = 0.0
        self.over = threading.Event()
        self.heard = threading.Event()
        # By its looks: what came while this host got no processor has not been read yet.
        self.silence = Patience(SILENCE)
        threading.Thread(target=self._listen, args=(file,), daemon=True, name="orders").start()

    def _listen(self, file: IO[bytes]) -> None:
        try:
            for word in read_words(file):
                self.heard.set()
                if isinstance(word, End):
                    self.patience = word.patience
                    break
        except (BadFrame, OSError, ValueError):
            pass
        # At the end of the pipe too: nobody is there who could want the nodes.
        self.over.set()

    def wait(self, seconds: float) -> bool:
        """Whether it is over, after at most so long."""
        over = self.over.wait(seconds)
        if self.heard.is_set():
            self.heard.clear()
            self.silence.renew()
        return over or self.silence.look() <= 0


class Served(Protocol):
    """What takes its nodes from a parcel: a `Host`, or something that stands for many."""

    def start(self) -> None:
        """Starts the nodes."""

    def news(self) -> Iterator[Word]:
        """What has happened since; after `end` all that there is."""

    def end(self, patience: float) -> None:
        """Returns when no node is left."""

    def close(self) -> None:
        """Leaves nothing behind."""


Make = Callable[[Parcel], Served]


def serve(orders: IO[bytes], news: IO[bytes], make: Make = Host) -> None:
    """A host from its parcel to its end; nothing of it is left afterwards."""
    news.write(GREETING)
    news.flush()
    try:
        raw = read_frame(orders, MOST)
    except BadFrame:
        raw = None
    if raw is None:
        raise WrongUse("no parcel came: hosts are started by `lppa run --engine`, not by people")
    serve_parcel(unpack(raw), Orders(orders), news, make)


def serve_parcel(parcel: Parcel, orders: Orders, news: IO[bytes], make: Make = Host) -> None:
    """The same once the parcel is there."""

    def tell(word: Word) -> None:
        write_frame(news, to_bytes(word))

    host = make(parcel)
    try:
        try:
            host.start()
        except LppaError as error:
            tell(Refused(str(error)[:LONGEST_WORDS]))
            raise
        tell(Started())
        while not orders.wait(NEWS_EVERY):
            for word in host.news():
                tell(word)
    except BrokenPipeError:
        # Nobody hears any more: end at once.
        orders.patience = 0.0
    finally:
        with uninterrupted():
            host.end(orders.patience)
            try:
                for word in host.news():
                    tell(word)
                tell(Ended())
            except OSError:
                pass
            host.close()


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output for this process alone.

    What children or libraries print goes to standard error, and they have nothing to read.
    """
    orders, news = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(orders, "rb"), os.fdopen(news, "wb")
