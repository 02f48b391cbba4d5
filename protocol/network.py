"""Links over ZeroMQ: greets the neighbours, then moves messages between sockets and mailbox.

What makes a message acceptable is decided in `links`, for all kinds of links alike.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from lppa.protocol.codec import COORDINATOR, BadMessage, Envelope, Frame, decode, encode
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import Exchanged, Links, Neighbourhood, Stopped, check_speaker
from lppa.protocol.messages import Greet, Refuse, Stop, Welcome
from lppa.protocol.names import name_all
from lppa.protocol.sockets import Arrival, Inbox, Outbox, SendTimeout, Wire, wait_for_any


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
        self.inbox = inbox
        self.coordinator = coordinator
        self.outboxes = {to: wire.outbox(to, around.timeout, told.get(to)) for to in around.outputs}

    def handshake(self, fingerprint: str) -> None:
        """Greets every neighbour and makes sure that all of them follow the same plan."""
        for outbox in self.outboxes.values():
            outbox.send(encode(Greet(fingerprint), self.run, self.around.me))
        unheard, unwelcome = set(self.around.inputs), set(self.around.outputs)
        deadline = time.monotonic() + self.around.timeout
        while unheard or unwelcome:
            left = deadline - time.monotonic()
            if left <= 0:
                missing = min(unheard | unwelcome)
                raise RunFailed(
                    f"node {self.around.me} waited {self.around.timeout:g} s to be greeted by "
                    f"{name_all(unheard | unwelcome)}",
                    node=missing,
                    round=0,
                )
            # Not for long at once: that a key was turned down is not heard on these sockets.
            boxes: list[Inbox | Outbox] = [self.inbox, self.coordinator, *self.outboxes.values()]
            wait_for_any(boxes, min(left, 0.5))
            self._heed_coordinator()
            while (arrival := self.inbox.receive()) is not None:
                envelope = self._open(arrival.frames)
                if envelope is None:
                    continue
                if not isinstance(envelope.message, Greet):
                    self.accept(envelope, arrival.speaker)
                elif self._same_plan(envelope, arrival, envelope.message.fingerprint, fingerprint):
                    unheard.discard(envelope.sender)
            for receiver in sorted(unwelcome):
                if self._welcomed_by(receiver, fingerprint):
                    unwelcome.discard(receiver)

    def _same_plan(self, envelope: Envelope, arrival: Arrival, theirs: str, ours: str) -> bool:
        """Answers a neighbour's greeting; two plans in one run are refused by name."""
        try:
            check_speaker(envelope, arrival.speaker)
        except BadMessage as reason:
            self.drop(str(reason), envelope.sender)
            return False
        if envelope.sender not in self.around.inputs:
            refusal = f"node {envelope.sender} is not an in-neighbour of node {self.around.me}"
            self.inbox.reply(arrival.route, encode(Refuse(refusal), self.run, self.around.me))
            self.drop(refusal, envelope.sender)
            return False
        self.inbox.reply(arrival.route, encode(Welcome(ours), self.run, self.around.me))
        self._compare(envelope.sender, theirs, ours)
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
        while (arrival := self.inbox.receive()) is not None:
            envelope = self._open(arrival.frames)
            if envelope is not None:
                self.accept(envelope, arrival.speaker)

    def _open(self, frames: Sequence[Frame]) -> Envelope | None:
        try:
            return decode(frames, self.run)
        except BadMessage as reason:
            self.drop(str(reason))
            return None

    def _heed_coordinator(self) -> None:
        while (frames := self.coordinator.receive()) is not None:
            envelope = self._open(frames)
            if envelope and envelope.sender == COORDINATOR and isinstance(envelope.message, Stop):
                raise Stopped(envelope.message.reason)
