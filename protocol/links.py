"""A node's links to its neighbours, as the round loop sees them: send, receive, nothing else.

`NetworkLinks` speaks over sockets, `LocalLinks` over queues in one process; both check every
message in the same way before it is used. The mathematics is not here.
"""

from __future__ import annotations

import logging
import queue
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lppa.protocol.codec import COORDINATOR, BadMessage, Envelope, all_finite, decode, encode
from lppa.protocol.errors import LppaError, RunFailed
from lppa.protocol.mailbox import Mailbox
from lppa.protocol.messages import Greet, Message, Model, Noise, Refuse, State, Stop, Welcome
from lppa.protocol.sockets import Inbox, Outbox, SendTimeout, Wire, describe, wait_for_any

log = logging.getLogger("lppa.links")

MOST_REASONS = 32  # that are told apart; a stranger could think of endlessly many


class Stopped(LppaError):
    """The coordinator has ended the run."""


@dataclass(frozen=True)
class Neighbourhood:
    """Who a node talks to, and what an honest message looks like."""

    me: int
    nodes: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: str
    size: int
    timeout: float
    latency: float = 0.0


class Links:
    """What both kinds share: the checks, the mailbox and the deadline."""

    def __init__(self, around: Neighbourhood) -> None:
        self.around = around
        self.round = 0
        self.sent: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.mailbox = Mailbox(random_delay(around.latency))
        # Hears every message that passes, as ("in" or "out", peer, message); for attackers.
        self.tap: Callable[[str, int, Message], None] | None = None

    def send(self, message: Noise | State | Model, receiver: int) -> None:
        """Sends to one out-neighbour. The arrays must not be changed afterwards."""
        self.sent["noise" if isinstance(message, Noise) else "state"] += array_bytes(message)
        if self.tap is not None:
            self.tap("out", receiver, message)
        self._transmit(message, receiver)

    def receive(self, kind: type, round: int, sender: int) -> Any:
        """The message of that kind and round from one in-neighbour; waits until the deadline."""
        self.round = max(self.round, round)
        deadline = time.monotonic() + self.around.timeout
        while (message := self.mailbox.take(kind, round, sender)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise RunFailed(
                    f"node {self.around.me} waited {self.around.timeout:g} s for the "
                    f"{kind.__name__.lower()} of round {round} from node {sender}",
                    node=sender,
                    round=round,
                )
            due = self.mailbox.next_due()
            self._gather(left if due is None else min(left, due))
        return message

    def accept(self, envelope: Envelope, speaker: int | None) -> None:
        """Puts a message into the mailbox, or drops it with a reason."""
        try:
            self._check(envelope, speaker)
        except BadMessage as reason:
            self.drop(str(reason), envelope.sender)
        else:
            if self.tap is not None:
                self.tap("in", envelope.sender, envelope.message)
            self.mailbox.put(envelope.sender, envelope.message)

    def drop(self, reason: str, sender: int | None = None) -> None:
        """Counts and logs a message that is not used."""
        if reason not in self.dropped and len(self.dropped) >= MOST_REASONS:
            reason = "other reasons"
        self.dropped[reason] += 1
        # Somebody who sends nothing but nonsense must not fill the disk with it.
        if self.dropped[reason] <= 10 or self.dropped[reason] % 1000 == 0:
            whom = "an unknown sender" if sender is None else describe(sender)
            count = self.dropped[reason]
            log.warning("dropped a message from %s: %s (%d so far)", whom, reason, count)

    def _check(self, envelope: Envelope, speaker: int | None) -> None:
        message, around = envelope.message, self.around
        check_speaker(envelope, speaker)
        if envelope.sender not in around.inputs:
            raise BadMessage("its sender is not an in-neighbour")
        if not isinstance(message, (Noise, State, Model)):
            raise BadMessage(f"a {type(message).__name__.lower()} is not expected here")
        if not self.round <= message.round <= self.round + around.nodes:
            raise BadMessage(f"round {message.round} while this node is in round {self.round}")
        if self.mailbox.has_had(envelope.sender, message):
            raise BadMessage(f"a second {type(message).__name__.lower()} for one round")
        for name, array in arrays_of(message):
            if array.dtype.name != around.dtype or array.shape != (around.size,):
                raise BadMessage(
                    f"{name} is {array.dtype.name}{list(array.shape)}, "
                    f"not {around.dtype}[{around.size}]"
                )
            if not all_finite(array):
                raise BadMessage(f"{name} has values that are not finite")

    def _transmit(self, message: Message, receiver: int) -> None:
        raise NotImplementedError

    def _gather(self, seconds: float) -> None:
        """Takes in what arrives within the time; may return early."""
        raise NotImplementedError


class NetworkLinks(Links):
    """Links over ZeroMQ: one inbox, an outbox per out-neighbour, an ear for the coordinator."""

    def __init__(
        self, around: Neighbourhood, wire: Wire, inbox: Inbox, coordinator: Outbox
    ) -> None:
        super().__init__(around)
        self.run = wire.book.run
        self.inbox = inbox
        self.coordinator = coordinator
        self.outboxes = {to: wire.outbox(to, around.timeout) for to in around.outputs}

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
            boxes = [self.inbox, self.coordinator, *self.outboxes.values()]
            wait_for_any(boxes, min(left, 0.5))
            self._heed_coordinator()
            while (arrival := self.inbox.receive()) is not None:
                envelope = self._open(arrival.frames)
                if envelope is None:
                    continue
                if not isinstance(envelope.message, Greet):
                    self.accept(envelope, arrival.speaker)
                elif self._same_plan(envelope, arrival.speaker, fingerprint, arrival.route):
                    unheard.discard(envelope.sender)
            for receiver in sorted(unwelcome):
                if self._welcomed_by(receiver, fingerprint):
                    unwelcome.discard(receiver)

    def _same_plan(
        self, envelope: Envelope, speaker: int | None, fingerprint: str, route: bytes
    ) -> bool:
        """Answers a neighbour's greeting; two plans in one run are refused by name."""
        try:
            check_speaker(envelope, speaker)
        except BadMessage as reason:
            self.drop(str(reason), envelope.sender)
            return False
        if envelope.sender not in self.around.inputs:
            reason = f"node {envelope.sender} is not an in-neighbour of node {self.around.me}"
            self.inbox.reply(route, encode(Refuse(reason), self.run, self.around.me))
            self.drop(reason, envelope.sender)
            return False
        self.inbox.reply(route, encode(Welcome(fingerprint), self.run, self.around.me))
        self._compare(envelope.sender, envelope.message.fingerprint, fingerprint)
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

    def _transmit(self, message: Message, receiver: int) -> None:
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

    def _open(self, frames: Sequence[Any]) -> Envelope | None:
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


class LocalLinks(Links):
    """Links between threads of one process, with no network: for tests and comparisons."""

    def __init__(
        self, around: Neighbourhood, queues: Sequence[queue.SimpleQueue[Envelope]]
    ) -> None:
        super().__init__(around)
        self.queues = queues

    def check_for_stop(self) -> None:
        """Nobody can end a run in one process from outside."""

    def _transmit(self, message: Message, receiver: int) -> None:
        self.queues[receiver].put(Envelope(self.around.me, message))

    def _gather(self, seconds: float) -> None:
        try:
            self.accept(self.queues[self.around.me].get(timeout=seconds), None)
        except queue.Empty:
            return


def check_speaker(envelope: Envelope, speaker: int | None) -> None:
    """On encrypted links the key says who is speaking; the header must say the same."""
    if speaker is not None and speaker != envelope.sender:
        raise BadMessage(f"its key is that of {describe(speaker)}")


def arrays_of(message: Message) -> list[tuple[str, np.ndarray]]:
    """The arrays of a message with their names."""
    values = [(about.name, getattr(message, about.name)) for about in fields(message)]
    return [(name, value) for name, value in values if isinstance(value, np.ndarray)]


def array_bytes(message: Message) -> int:
    """How much of a message is arrays."""
    return sum(array.nbytes for _, array in arrays_of(message))


def random_delay(latency: float) -> Callable[[], float] | None:
    """Draws a delay in seconds of up to `latency` milliseconds; None for no delay at all."""
    if latency <= 0:
        return None
    # Not seeded on purpose: results must not depend on when messages arrive.
    return lambda: random.SystemRandom().uniform(0.0, latency / 1000)


def name_all(nodes: set[int]) -> str:
    """Nodes in words: `node 3`, or `nodes 1, 3`."""
    listed = ", ".join(map(str, sorted(nodes)))
    return f"node {listed}" if len(nodes) == 1 else f"nodes {listed}"
