"""A coordinator that is none of ours: it hands out whatever plans a test has made."""

from __future__ import annotations

from processes import eventually

from lppa.coordinator.bootstrap import Roster
from lppa.protocol.book import key_file, read_book, read_key
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.sockets import Wire
from lppa.protocol.wire import wait_for_any


def pretend(peers, plans, nodes):
    """A coordinator that waits for two nodes and sends each a plan; then the nodes' ends."""
    book = read_book(peers)
    wire = Wire(book, COORDINATOR, read_key(key_file(peers.parent, COORDINATOR)))
    try:
        roster = Roster(wire.inbox(), book.run, 2)

        def all_there():
            wait_for_any([roster.inbox], 0.05)
            while (arrival := roster.inbox.receive()) is not None:
                roster.open(arrival)
            return not roster.missing

        eventually(all_there, what="both nodes have said hello")
        for node, plan in enumerate(plans):
            roster.send(node, plan)
        return [process.end() for process in nodes]
    finally:
        wire.close(0)
