"""Which endpoints are carried by what. A registry: another transport is one line here."""

from __future__ import annotations

from collections.abc import Callable

from lppa.protocol import sockets
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.wire import Wire

TRANSPORTS: dict[str, Callable[[AddressBook, int, str | None], Wire]] = {
    "tcp": sockets.Wire,
    "ipc": sockets.Wire,
}


def open_wire(book: AddressBook, me: int, secret: str | None) -> Wire:
    """What a process talks through: its own endpoint says which."""
    peer = book.coordinator if me == COORDINATOR else book.node(me)
    return TRANSPORTS[peer.endpoint.partition(":")[0]](book, me, secret)
