"""What the two ends of a link remember so that nothing is lost and nothing is used twice.

`Sent` numbers messages and keeps each until it was taken; `Came` lets every number through once, in
order. Neither knows sockets or clocks. What they need of a connection is that it keeps the order;
that it breaks, loses what was on its way and comes back is what they are for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")

# A receiver says what it has taken after so many messages or bytes: small rounds pay one answer
# in sixteen, large ones an answer of a hundred bytes for four megabytes.
EVERY_MESSAGES = 16
EVERY_BYTES = 1 << 22
FIRST_WAIT, LONGEST_WAIT = 1.0, 5.0  # seconds of silence after which a sender asks


@dataclass
class Sent(Generic[Item]):
    """The sender's end: what is not known to have come, with its size."""

    next: int = 0
    kept: deque[tuple[int, int, Item]] = field(default_factory=deque)
    bytes: int = 0
    serial: int = 0  # of the last question
    asked: int | None = None  # how far it went, until it is answered
    due: float = 0.0  # when to ask (again)
    wait: float = FIRST_WAIT

    @property
    def first(self) -> int:
        """The least number that may still be sent (again)."""
        return self.kept[0][0] if self.kept else self.next

    def add(self, item: Item, size: int, now: float) -> None:
        """Keeps a message under the number `next`."""
        if not self.kept:
            self._calm(now)
        self.kept.append((self.next, size, item))
        self.bytes += size
        self.next += 1

    def forget_oldest(self) -> None:
        """Gives up a message; the receiver learns by the next question that it never comes."""
        _, size, _ = self.kept.popleft()
        self.bytes -= size

    def ask(self, now: float) -> tuple[int, int]:
        """The serial number and `first` of a question that is put now."""
        self.serial += 1
        self.asked = self.next
        self.due = now + self.wait
        self.wait = min(2 * self.wait, LONGEST_WAIT)
        return self.serial, self.first

    def answer(self, upto: int, serial: int, now: float) -> list[Item]:
        """Forgets what was taken; returns what has to be sent again, in order.

        The answer to the last question came after all that was sent before it, so that what it
        does not name was lost. Anything else may have crossed messages that are still on their way.
        """
        if upto > self.next:
            return []  # nonsense, or meant for somebody who had this link before
        if self.first < upto:
            self._calm(now)
        while self.kept and self.kept[0][0] < upto:
            self.forget_oldest()
        if self.asked is None or serial != self.serial:
            return []
        lost, self.asked = upto < self.asked, None
        return [item for _, _, item in self.kept] if lost else []

    def _calm(self, now: float) -> None:
        self.wait = FIRST_WAIT
        self.due = now + self.wait


@dataclass
class Came:
    """The receiver's end: all that is numbered below `next` has come."""

    next: int = 0
    messages: int = 0  # since the sender was last told
    bytes: int = 0

    def expects(self, number: int) -> bool:
        """Whether it is the next message: neither a second copy, nor one after a gap."""
        return number == self.next

    def take(self, size: int) -> bool:
        """Counts the next message as taken; True when the sender should be told."""
        self.next += 1
        self.messages += 1
        self.bytes += size
        return self.messages >= EVERY_MESSAGES or self.bytes >= EVERY_BYTES

    def asked(self, first: int) -> None:
        """What is numbered below `first` is not waited for any more."""
        self.next = max(self.next, first)

    def told(self) -> int:
        """How far messages have come; the sender is told so now."""
        self.messages = self.bytes = 0
        return self.next
