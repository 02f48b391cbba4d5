"""One way out on which nothing is lost: an outbox, and what its receiver has not taken yet.

`Outgoing` serves a link to a neighbour, `Reports` a node's word to the coordinator. When to keep
and to ask is decided in `delivery`; what neighbours tell each other is not known here.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from lppa.protocol.codec import FROM_COORDINATOR, BadMessage, Frame, Letter, decode, encode, write
from lppa.protocol.delivery import EVERY_BYTES, EVERY_MESSAGES, FIRST_WAIT, Sent
from lppa.protocol.messages import (
    Ask,
    Entered,
    Halted,
    Hello,
    Late,
    Message,
    Progress,
    Taken,
    Who,
)
from lppa.protocol.wire import Outbox, wait_for_any

MOST_REPORTS = 1024  # that are kept for a coordinator that is away; a few kilobytes each

PASSING = (Progress, Halted, Entered, Late)


class Outgoing:
    """A way to one receiver, within one epoch."""

    def __init__(self, outbox: Outbox, run: str, me: int, epoch: int) -> None:
        self.outbox = outbox
        self.run = run
        self.me = me
        self.epoch = epoch
        self.sent: Sent[list[Frame]] = Sent()

    @property
    def settled(self) -> bool:
        """Whether all was taken."""
        return not self.sent.kept

    @property
    def worth_hearing(self) -> bool:
        """Whether enough was sent for the receiver to have answered unasked."""
        sent = self.sent
        return len(sent.kept) >= EVERY_MESSAGES or sent.bytes >= EVERY_BYTES

    def send(self, letter: Letter, wait: bool = True) -> None:
        """Numbers a message, sends it and keeps it; raises SendTimeout like the outbox."""
        frames = letter.to_frames(self.sent.next)
        self.sent.add(frames, letter.size, time.monotonic())
        self.outbox.send(frames, wait)

    def ask(self) -> None:
        """Asks what has come."""
        question = Ask(self.epoch, *self.sent.ask(time.monotonic()))
        self.outbox.send(encode(question, self.run, self.me), wait=False)

    def ask_if_due(self, now: float) -> None:
        """Asks when there has been no answer for a while."""
        if self.sent.kept and now >= self.sent.due:
            self.ask()

    def heed(self, answer: Taken) -> None:
        """Forgets what was taken, and sends again what was lost."""
        if answer.epoch == self.epoch:
            for frames in self.sent.answer(answer.upto, answer.serial, time.monotonic()):
                self.outbox.send(frames, wait=False)


class Reports(Outgoing):
    """What a node tells the coordinator: never waits, and keeps what counts until it was taken.

    A coordinator that came back does not know this node; it asks who we are.
    """

    def __init__(self, outbox: Outbox, run: str, me: int, hello: Hello | None = None) -> None:
        super().__init__(outbox, run, me, epoch=0)
        self.hello = hello
        # The epoch and the round that this node is in.
        self.running: tuple[int, ...] = ()

    def __call__(self, message: Message) -> None:
        """Sends a report."""
        if isinstance(message, PASSING):
            # Said again, or outdone by the next one: not worth keeping.
            self.outbox.send(encode(message, self.run, self.me), wait=False)
            return
        if len(self.sent.kept) >= MOST_REPORTS:
            self.sent.forget_oldest()
        self.send(write(message, self.run, self.me), wait=False)

    def settle(self, seconds: float) -> None:
        """Waits until all was taken, but no longer than that."""
        deadline = time.monotonic() + seconds
        while not self.settled and (left := deadline - time.monotonic()) > 0:
            self.ask_if_due(time.monotonic())
            wait_for_any([self.outbox], min(left, FIRST_WAIT))
            for frames in self.outbox.answers():
                with suppress(BadMessage):
                    self.hear(decode(frames, self.run, FROM_COORDINATOR).message)

    def hear(self, message: Message) -> None:
        """Heeds the coordinator's answers."""
        if isinstance(message, Taken):
            self.heed(message)
        elif isinstance(message, Who) and self.hello is not None:
            hello = replace(self.hello, running=self.running)
            self.outbox.send(encode(hello, self.run, self.me), wait=False)
            if not self.settled:
                self.ask()
