"""A host's part of a run as Ray's actor: the `Host` of the base, asked and answered in seals.

Lives where Ray puts it; who asks is `ray_cluster`. Knows nothing of Ray but that it is called.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import metadata

import msgpack

from lppa.engines.frames import LONGEST_WORDS, Refused, Started, Word, from_bytes, to_bytes
from lppa.engines.host import Host
from lppa.engines.mirror import Piece
from lppa.engines.parcel import unpack
from lppa.engines.sealed import Half, Sealing
from lppa.protocol.errors import LppaError
from lppa.running.private import private_folder

BUNDLE = 8 << 20  # bytes of news at once, and one piece more


class Bundle:
    """News that is told at once."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.length = 0

    def take(self, news: Iterator[Word]) -> bool:
        """Takes what there is room for; whether that is all."""
        while self.length < BUNDLE:
            word = next(news, None)
            if word is None:
                return True
            self.words.append(word)
            self.length += len(word.data) if isinstance(word, Piece) else 0
        return False


class RayHost:
    """One host, or one GPU of it. Call `meet`, `start`, `news` now and then, `end`, `close`."""

    def __init__(self, with_gpus: bool) -> None:
        if not with_gpus:
            # Ray leaves all of them in sight, those of others too.
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self.half = Half()
        self.sealing: Sealing | None = None
        self.host: Host | None = None
        self.opened = ExitStack()
        self.left: Iterator[Word] = iter(())  # of the news that did not fit

    def meet(self, public: bytes) -> tuple[bytes, str]:
        """What is needed to seal anything for this host, and the version of lppa here."""
        self.sealing = self.half.answering(public)
        return self.half.public, metadata.version("lppa")

    def start(self, sealed: bytes) -> bytes:
        """Starts the nodes of a parcel; the answer is `Started` or `Refused`."""
        assert self.sealing is not None, "they have met"
        # All that is ever put into files here: Ray ends this process without asking it.
        tempfile.tempdir = str(self.opened.enter_context(private_folder()))
        try:
            self.host = Host(unpack(self.sealing.open(sealed)))
            self.host.start()
        except LppaError as error:
            return self._answer([Refused(str(error)[:LONGEST_WORDS])])
        return self._answer([Started()])

    def news(self) -> bytes:
        """What has happened since it was asked last; nothing if nothing has."""
        assert self.host is not None, "it has started"
        bundle = Bundle()
        # A file whose first pieces have gone is sent to its end before anything else is looked at.
        if bundle.take(self.left):
            self.left = self.host.news()
            bundle.take(self.left)
        return self._answer(bundle.words)

    def end(self, patience: float) -> None:
        """Returns when no node is left; what they made is still news."""
        if self.host is not None:
            self.host.end(patience)

    def close(self) -> None:
        """Leaves nothing on this machine."""
        if self.host is not None:
            self.host.close()
        self.opened.close()

    def _answer(self, words: list[Word]) -> bytes:
        assert self.sealing is not None, "they have met"
        return self.sealing.seal(msgpack.packb([to_bytes(word) for word in words]))


def read_answer(sealing: Sealing, sealed: bytes) -> list[Word]:
    """The words of an answer."""
    return [from_bytes(raw) for raw in msgpack.unpackb(sealing.open(sealed))]
