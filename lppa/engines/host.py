"""A host's part of a run: its nodes as processes, in a private folder, and what becomes of them.

Knows no transport: `serving` has a host at the end of a pipe, other engines call it by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from lppa.engines.interface import endpoint, own_address
from lppa.engines.mirror import Change, Mirror
from lppa.engines.parcel import Parcel
from lppa.protocol.book import AddressBook, host_of
from lppa.protocol.files import make_private, open_privately
from lppa.running.launch import Given, LocalNodes, stop_fork_server
from lppa.running.launcher import GRACE
from lppa.running.limits import check_open_files, check_temporary_folder
from lppa.running.private import private_folder


@dataclass(frozen=True)
class Death:
    """A node whose process has ended badly, and how."""

    node: int
    how: str


News = Death | Change


class Host:
    """The nodes of a parcel. Call `start`, `news` now and then, `end`, the last `news`, `close`."""

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self.opened = ExitStack()
        self.nodes: LocalNodes | None = None
        self.mirror: Mirror | None = None
        self.dead: set[int] = set()

    def start(self) -> None:
        """Starts the nodes; returns when all have been forked. Raises WrongUse where it cannot."""
        parcel = self.parcel
        check_temporary_folder()
        check_open_files(len(parcel.book.nodes), parcel.book.encrypted)
        book = self._book()
        private = self.opened.enter_context(private_folder())
        folder = private / "run"
        for path, data in parcel.files.items():
            make_private((folder / path).parent)
            with open_privately(folder / path, "xb") as file:
                file.write(data)
        self.mirror = Mirror(folder, parcel.nodes)
        self.mirror.know()
        given = Given(
            folder,
            parcel.timeout,
            parcel.attackers,
            self._code(private),
            parcel.chaos,
            parcel.resume,
        )
        keys = [parcel.keys[node] for node in parcel.nodes]
        self.nodes = LocalNodes(book, keys, given, parcel.nodes, parcel.place)
        self.nodes.start()

    def _book(self) -> AddressBook:
        """The book with where this host's nodes listen: any free port of its own address."""
        parcel = self.parcel
        towards = host_of(parcel.book.coordinator.endpoint)
        where = endpoint(own_address(parcel.interface, towards))
        nodes = [
            replace(peer, endpoint=where) if node in parcel.keys else peer
            for node, peer in enumerate(parcel.book.nodes)
        ]
        return replace(parcel.book, nodes=tuple(nodes))

    def _code(self, private: Path) -> Path | None:
        if self.parcel.code is None:
            return None
        path = private / "code"
        with open_privately(path, "xb") as file:
            file.write(self.parcel.code)
        return path

    def news(self) -> Iterator[News]:
        """What has happened since: every death once, and files piece by piece."""
        deaths = {} if self.nodes is None else self.nodes.deaths()
        if self.mirror is not None:
            yield from self.mirror.changes()
        for node, how in deaths.items():
            if node not in self.dead:
                self.dead.add(node)
                yield Death(node, how)

    def end(self, patience: float = GRACE) -> None:
        """Waits for all nodes to end, then makes them. What they left is still news."""
        if self.nodes is not None:
            self.nodes.end(patience)

    def close(self) -> None:
        """Leaves nothing on this machine."""
        stop_fork_server()
        if self.mirror is not None:
            self.mirror.close()
        self.opened.close()
