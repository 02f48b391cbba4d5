"""What a process talks through, by shape: an inbox of its own, and outboxes to others.

Nothing here knows what carries frames: `sockets` does it over ZeroMQ, and `transports` says which
endpoint is carried by what. What frames mean is not known here either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from lppa.protocol.book import AddressBook
from lppa.protocol.codec import Frame

FAREWELL = 2.0  # seconds for last words to the coordinator


class SendTimeout(Exception):
    """The receiver's queue stayed full for the whole time allowed."""


class Arrival(NamedTuple):
    """Frames from the inbox: the connection to answer on, and who the key says is speaking.

    `speaker` is None where links are not encrypted: then only the header tells. `connection` is the
    number of its socket, −1 where connections are not watched.
    """

    route: bytes
    frames: list[Frame]
    speaker: int | None
    connection: int = -1


class Box(Protocol):
    """Something that can be waited for."""

    def wait_with(self, others: Sequence[Box], seconds: float) -> list[Box]:
        """Those of the others from which something can be received; none when the time is over."""


class Inbox(Box, Protocol):
    """Where all others write to; `endpoint` is where they find it."""

    endpoint: str

    def allow(self, each: int, together: int) -> None:
        """How many bytes may come and not be read yet, from one connection and from all."""

    def receive(self) -> Arrival | None:
        """What has arrived, None where nothing has; never waits."""

    def arrivals(self) -> Iterator[Arrival]:
        """What has arrived, but no more at once than leaves time for other things."""

    def offended(self, arrival: Arrival) -> None:
        """Counts a message that no honest peer sends; who sends many may be let in no more."""

    def reply(self, route: bytes, frames: Sequence[Frame]) -> bool:
        """Answers on the connection that a message came by; False if that is gone."""


class Outbox(Box, Protocol):
    """A way to one receiver, which need not be there yet."""

    receiver: int

    def send(self, frames: Sequence[Frame], wait: bool = True) -> bool:
        """Queues a message; its arrays must not change any more. False if it was not taken."""

    def receive(self) -> list[Frame] | None:
        """An answer that has come back, None where there is none; never waits."""

    def answers(self) -> Iterator[list[Frame]]:
        """What has come back, but no more at once than leaves time for other things."""

    def refused(self) -> bool:
        """Whether the receiver does not accept our key, as far as is known by now."""

    def is_held(self) -> bool:
        """Whether some process has the other end of the connection, though it may say nothing."""

    def close(self) -> None:
        """Lets it go; what it was given may still arrive within FAREWELL seconds."""

    def hint(self) -> str:
        """What may be wrong with a receiver that does not answer; empty where nothing is known."""


class Wire(Protocol):
    """All that one process talks through. `me` is a node's id, or COORDINATOR."""

    book: AddressBook
    me: int
    instance: str

    def inbox(self) -> Inbox:
        """Binds this process's own endpoint."""

    def outbox(self, receiver: int, send_timeout: float, endpoint: str | None = None) -> Outbox:
        """A way to a node, or to the coordinator; `endpoint` is where it said that it listens."""

    def share(self, frames: Sequence[Frame]) -> list[Frame]:
        """The same frames, made ready once to be sent to several receivers."""

    def close(self, linger: float) -> None:
        """Closes everything, giving messages that are still on their way `linger` seconds."""


def wait_for_any(boxes: Sequence[Box], seconds: float) -> list[Box]:
    """The boxes from which something can be received; none when the time is over."""
    return boxes[0].wait_with(boxes, seconds)
