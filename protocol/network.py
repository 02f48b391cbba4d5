"""Links over ZeroMQ: greets the neighbours, then moves messages between sockets and mailbox.

What makes a message acceptable is decided in `links`, for all kinds of links alike.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from lppa.protocol.codec import COORDINATOR, BadMessage, Envelope, Frame, decode, encode
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import (
    Exchanged,
    Links,
    Neighbourhood,
    Stopped,
    ViewEnds,
    check_speaker,
)
from lppa.protocol.messages import Greet, Halt, NextView, Refuse, Stop, Welcome
from lppa.protocol.names import name_all
from lppa.protocol.sockets import Arrival, Inbox, Outbox, SendTimeout, Wire, wait_for_any

GREET_EVERY = 1.0  # seconds


class NetworkLinks(Links):
    """Links over ZeroMQ: one inbox, an outbox per out-neighbour, an ear for the coordinator."""

    def __init__(
        self,
        around: Neighbourhood,
        wire: Wire,
        inbox: Inbox,
        coordinator: Outbox,
        endpoints: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(around)
        told = endpoints or {}
        self.run = wire.book.run
        self.led = time.monotonic()
        self.fingerprint = ""
        self.greeted: set[int] = set()
        self.wire = wire
        self.inbox = inbox
        self.coordinator = coordinator
        self.outboxes = {to: wire.outbox(to, around.timeout, told.get(to)) for to in around.outputs}

    def handshake(self, fingerprint: str) -> None:
        """Greets every neighbour and makes sure that all of them follow the same plan."""
        self.fingerprint = fingerprint
        unheard, unwelcome = set(self.around.inputs), set(self.around.outputs)
        began, greeted = time.monotonic(), -GREET_EVERY
        while unheard or unwelcome:
            waited = time.monotonic() - began
            if waited > self.around.timeout and not self._is_led():
                missing = min(unheard | unwelcome)
                raise RunFailed(
                    f"node {self.around.me} waited {self.around.timeout:g} s to be greeted by "
                    f"{name_all(unheard | unwelcome)}",
                    node=missing,
                    round=0,
                )
            if waited - greeted >= GREET_EVERY:
                # Again and again: a neighbour that is still in another epoch does not answer.
                greeted = waited
                greet = encode(Greet(self.around.epoch, fingerprint), self.run, self.around.me)
                for receiver in unwelcome:
                    self.outboxes[receiver].send(greet, wait=False)
            # Not for long at once: that a key was turned down is not heard on these sockets.
            boxes: list[Inbox | Outbox] = [self.inbox, self.coordinator, *self.outboxes.values()]
            wait_for_any(boxes, min(max(0.0, self.around.timeout - waited), 0.5))
            self._heed_coordinator()
            self._take_in()
            unheard -= self.greeted
            for receiver in sorted(unwelcome):
                if self._welcomed_by(receiver, fingerprint):
                    unwelcome.discard(receiver)

    def _take_in(self) -> None:
        """All that has arrived from neighbours."""
        while (arrival := self.inbox.receive()) is not None:
            envelope = self._open(arrival.frames)
            if envelope is None:
                continue
            if not isinstance(envelope.message, Greet):
                self.accept(envelope, arrival.speaker)
            elif self._same_plan(envelope, arrival, envelope.message, self.fingerprint):
                self.greeted.add(envelope.sender)

    def _same_plan(self, envelope: Envelope, arrival: Arrival, greet: Greet, ours: str) -> bool:
        """Answers a neighbour's greeting; two plans in one run are refused by name."""
        try:
            check_speaker(envelope, arrival.speaker)
        except BadMessage as reason:
            self.drop(str(reason), envelope.sender)
            return False
        if greet.epoch != self.around.epoch:
            # One of us will hear of the other's view, and greet again.
            return False
        if envelope.sender not in self.around.inputs:
            refusal = f"node {envelope.sender} is not an in-neighbour of node {self.around.me}"
            self.inbox.reply(arrival.route, encode(Refuse(refusal), self.run, self.around.me))
            self.drop(refusal, envelope.sender)
            return False
        welcome = Welcome(self.around.epoch, ours)
        self.inbox.reply(arrival.route, encode(welcome, self.run, self.around.me))
        self._compare(envelope.sender, greet.fingerprint, ours)
        return True

    def _welcomed_by(self, receiver: int, fingerprint: str) -> bool:
        frames = self.outboxes[receiver].receive()
        if self.outboxes[receiver].refused():
            raise RunFailed(
                f"node {receiver} turned down the key of node {self.around.me}: "
                "do both have the same peers.json?",
                node=receiver,
                round=0,
            )
        envelope = None if frames is None else self._open(frames)
        if envelope is None or envelope.sender != receiver:
            return False
        if isinstance(envelope.message, Refuse):
            raise RunFailed(envelope.message.reason, node=receiver, round=0)
        if not isinstance(envelope.message, Welcome):
            return False
        if envelope.message.epoch != self.around.epoch:
            return False
        self._compare(receiver, envelope.message.fingerprint, fingerprint)
        return True

    def _compare(self, peer: int, theirs: str, ours: str) -> None:
        if theirs != ours:
            raise RunFailed(
                f"node {peer} follows another plan ({theirs[:8]}) than node {self.around.me} "
                f"({ours[:8]}): topology or settings differ",
                node=peer,
                round=0,
            )

    def check_for_stop(self) -> None:
        """Raises Stopped if the coordinator has ended the run; never waits."""
        self._heed_coordinator()

    def _transmit(self, message: Exchanged, receiver: int) -> None:
        try:
            self.outboxes[receiver].send(encode(message, self.run, self.around.me))
        except SendTimeout:
            raise RunFailed(
                f"node {receiver} took nothing from node {self.around.me} for "
                f"{self.around.timeout:g} s",
                node=receiver,
                round=message.round,
            ) from None

    def _gather(self, seconds: float) -> None:
        wait_for_any([self.inbox, self.coordinator], seconds)
        self._heed_coordinator()
        self._take_in()

    def _open(self, frames: Sequence[Frame]) -> Envelope | None:
        try:
            return decode(frames, self.run)
        except BadMessage as reason:
            self.drop(str(reason))
            return None

    def _heed_coordinator(self) -> None:
        while (frames := self.coordinator.receive()) is not None:
            envelope = self._open(frames)
            if envelope is None or envelope.sender != COORDINATOR:
                continue
            self.led = time.monotonic()
            message = envelope.message
            if isinstance(message, Stop):
                raise Stopped(message.reason)
            if isinstance(message, Halt | NextView) and message.epoch > self.around.epoch:
                raise ViewEnds(message.epoch)

    def _is_led(self) -> bool:
        return self.around.waits_on and time.monotonic() - self.led < self.around.timeout

    def close(self) -> None:
        """Lets go of the outboxes: the neighbours of the next view may be others."""
        for outbox in self.outboxes.values():
            self.wire.drop(outbox)
