"""Links over ZeroMQ: greets the neighbours, then moves messages between sockets and mailbox.

What makes a message acceptable is decided in `links`, for all kinds of links alike; what is kept
and sent again in `delivery`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from lppa.protocol.codec import (
    ANSWER,
    COORDINATOR,
    FROM_COORDINATOR,
    BadMessage,
    Envelope,
    Frame,
    Letter,
    Limits,
    decode,
    encode,
    write,
)
from lppa.protocol.delivery import EVERY_MESSAGES, Came
from lppa.protocol.errors import RunFailed
from lppa.protocol.fingerprint import edge_fingerprint
from lppa.protocol.foresight import Foresight
from lppa.protocol.links import (
    Exchanged,
    Links,
    Neighbourhood,
    Stopped,
    ViewEnds,
    array_bytes,
    check_speaker,
    largest_message,
)
from lppa.protocol.messages import (
    Ask,
    Entered,
    Greet,
    Halt,
    Message,
    NextView,
    Noise,
    Refuse,
    Seed,
    State,
    Stop,
    Taken,
    Welcome,
)
from lppa.protocol.names import name_all
from lppa.protocol.outgoing import Outgoing, Reports
from lppa.protocol.patience import Patience
from lppa.protocol.wire import Arrival, Inbox, Outbox, SendTimeout, Wire, wait_for_any

log = logging.getLogger("lppa.links")

GREET_EVERY = 1.0
# Each look wakes a process that may share its core with many: not more often than is noticed.
LOOK_EVERY = 0.5  # seconds between two looks at what should be asked
HEED_EVERY = 0.25  # seconds between two looks at what the coordinator says, by one that computes
MOST_AT_ONCE = 64  # messages that are collected before any of them is looked at
SILENT = 6.0  # a neighbour that waits asks more often than that what has come


class NetworkLinks(Links):
    """Links over ZeroMQ: one inbox, a way out to each out-neighbour, an ear for the coordinator."""

    def __init__(
        self,
        around: Neighbourhood,
        wire: Wire,
        inbox: Inbox,
        reports: Reports,
        endpoints: Mapping[int, str] | None = None,
        orphan_timeout: float | None = None,
    ) -> None:
        super().__init__(around)
        told = endpoints or {}
        self.wire = wire
        self.run = wire.book.run
        self.inbox = inbox
        # A node's own reports, which need an answer now and then too.
        self.reports = reports
        # How long the coordinator has been silent. Who computes looks seldom; who was stopped for
        # long must look a second time before it counts as left alone.
        soonest = min(around.timeout, orphan_timeout or math.inf)
        self.led = Patience(math.inf, longest=soonest / 2)
        self.heeded = 0.0
        self.orphan_timeout = orphan_timeout
        self.met = False
        self.outgoing = {
            to: Outgoing(
                wire.outbox(to, around.timeout, told.get(to)), self.run, around.me, around.epoch
            )
            for to in around.outputs
        }
        self.came = {sender: Came() for sender in around.inputs}
        self.routes: dict[int, bytes] = {}
        self.callers: dict[bytes, int] = {}
        self.foresight = Foresight(
            self.run,
            around.epoch,
            self.dtype,
            around.vectors,
            dict.fromkeys(around.inputs, 0),
            lambda t: around.sizes(t, 0),
        )
        self.heard = dict.fromkeys(around.inputs, time.monotonic())
        self.fingerprint = ""
        self.weights: Mapping[tuple[int, int], float] = {}
        self.unheard = set(around.inputs)
        self.look_at = 0.0
        # What a sender may be ahead by, two messages a round, and what is told only now and then.
        self.window = 2 * (around.nodes + 1) + around.parts(0) + EVERY_MESSAGES
        self.limits = Limits(1 << 13, largest_message(around))
        ahead = 2 * (around.nodes + 1) + around.parts(0)
        each = self.window * self.limits.header + ahead * self.limits.arrays
        inbox.allow(each, each * max(1, len(around.inputs)))

    # --- greetings ------------------------------------------------------------------------------

    def handshake(
        self, fingerprint: str, weights: Mapping[tuple[int, int], float] | None = None
    ) -> None:
        """Greets every neighbour and makes sure that all of them follow the same plan.

        `weights` are those of the edges, by sender and receiver: both ends were told the same.
        """
        self.fingerprint, self.weights = fingerprint, weights or {}
        unwelcome = set(self.outgoing)
        patience, greeted = Patience(self.around.timeout), 0.0
        while self.unheard or unwelcome:
            now, left = time.monotonic(), patience.look()
            if left <= 0 and not self._is_led():
                missing = self.unheard | unwelcome
                hints = [self.outgoing[node].outbox.hint() for node in sorted(unwelcome)]
                raise RunFailed(
                    f"node {self.around.me} waited {self.around.timeout:g} s to be greeted by "
                    f"{name_all(missing)}{next(filter(None, hints), '')}",
                    node=min(missing),
                    round=0,
                )
            if now - greeted >= GREET_EVERY:
                # Again and again: a connection may be lost with the greeting on it.
                greeted = now
                for receiver in unwelcome:
                    mine = self._fingerprint(self.around.me, receiver)
                    self._say(receiver, Greet(self.around.epoch, mine))
            boxes = [self.outgoing[receiver].outbox for receiver in unwelcome]
            self._gather(min(max(0.0, left), 0.5), boxes=boxes)
            unwelcome -= {receiver for receiver in unwelcome if self._welcomed_by(receiver)}
        self.met = True
        self.reports(Entered(self.around.epoch))

    def _say(self, receiver: int, message: Message) -> None:
        frames = encode(message, self.run, self.around.me)
        self.outgoing[receiver].outbox.send(frames, wait=False)

    def _greeted(self, envelope: Envelope, greet: Greet, arrival: Arrival) -> None:
        """Answers a neighbour's greeting; two plans in one run are refused by name."""
        try:
            check_speaker(envelope, arrival.speaker)
        except BadMessage as reason:
            self.drop(str(reason), envelope.sender)
            return
        if greet.epoch != self.around.epoch:
            return  # one of us will hear of the other's view, and greet again
        if envelope.sender not in self.around.inputs:
            refusal = f"node {envelope.sender} is not an in-neighbour of node {self.around.me}"
            self._reply(arrival.route, Refuse(refusal))
            self.drop(refusal, envelope.sender)
            return
        if not self.fingerprint:
            return  # not ready yet: it greets again
        mine = self._fingerprint(envelope.sender, self.around.me)
        self._reply(arrival.route, Welcome(self.around.epoch, mine))
        if envelope.sender in self.unheard:
            self._compare(envelope.sender, greet.fingerprint, mine)
            self.unheard.discard(envelope.sender)

    def _welcomed_by(self, receiver: int) -> bool:
        outbox = self.outgoing[receiver].outbox
        frames = outbox.receive()
        if outbox.refused():
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
        mine = self._fingerprint(self.around.me, receiver)
        self._compare(receiver, envelope.message.fingerprint, mine)
        return True

    def _fingerprint(self, sender: int, receiver: int) -> str:
        weight = self.weights.get((sender, receiver))
        return edge_fingerprint(self.fingerprint, sender, receiver, weight)

    def _compare(self, peer: int, theirs: str, mine: str) -> None:
        if theirs != mine:
            raise RunFailed(
                f"node {peer} follows another plan ({theirs[:8]}) than node {self.around.me} "
                f"({mine[:8]}): topology, weights or settings differ",
                node=peer,
                round=0,
            )

    # --- out ------------------------------------------------------------------------------------

    def _transmit(self, message: Exchanged, receivers: Sequence[int]) -> None:
        letter = self._write(message)
        for receiver in receivers:
            self._send(letter, receiver, message.round)

    def _write(self, message: Exchanged) -> Letter:
        letter = write(message, self.run, self.around.me)
        return Letter(letter.head, self.wire.share(letter.frames), letter.size)

    def _send(self, letter: Letter, receiver: int, round: int) -> None:
        way = self.outgoing[receiver]
        if way.worth_hearing:
            self._hear(receiver)
        try:
            if len(way.sent.kept) >= self.window:
                way.ask()
                if not self.wait_until(lambda: len(way.sent.kept) < self.window):
                    raise SendTimeout
            way.send(letter)
        except SendTimeout:
            raise RunFailed(
                f"node {receiver} took nothing from node {self.around.me} for "
                f"{self.around.timeout:g} s",
                node=receiver,
                round=round,
            ) from None

    def settle(self) -> None:
        """Returns when all that was sent has been taken, or the time for that is over."""
        for sender in self.routes:
            self._tell(sender)
        if not self.wait_until(lambda: all(way.settled for way in self.outgoing.values())):
            missing = {to for to, way in self.outgoing.items() if not way.settled}
            log.warning("%s did not say that the last messages have come", name_all(missing))

    def wait_until(self, condition: Callable[[], bool], seconds: float | None = None) -> bool:
        """Goes on listening until something is true; False if that takes longer than allowed."""
        patience = Patience(self.around.timeout if seconds is None else seconds)
        while not condition():
            left = patience.look()
            if left <= 0:
                return False
            unsettled = [way.outbox for way in self.outgoing.values() if not way.settled]
            self._gather(min(left, LOOK_EVERY), boxes=unsettled)
            for receiver, way in self.outgoing.items():
                if not way.settled:
                    self._hear(receiver)
        return True

    def _hear(self, receiver: int) -> None:
        """Heeds what a receiver has answered."""
        way = self.outgoing[receiver]
        for frames in way.outbox.answers():
            envelope = self._open(frames)
            if envelope and envelope.sender == receiver and isinstance(envelope.message, Taken):
                way.heed(envelope.message)

    def _look_after(self, now: float) -> list[int]:
        """Asks where there was no answer for long; returns whose answer is waited for."""
        if now >= self.look_at:
            self.look_at = now + LOOK_EVERY
            self._check_led()
            self.reports.ask_if_due(now)
            for way in self.outgoing.values():
                way.ask_if_due(now)
        return [to for to, way in self.outgoing.items() if way.sent.asked is not None]

    # --- in -------------------------------------------------------------------------------------

    def _gather(self, seconds: float, count: int = 0, boxes: Sequence[Outbox] = ()) -> None:
        now = time.monotonic()
        asked = self._look_after(now)
        ears: list[Inbox | Outbox] = [self.inbox, self.reports.outbox]
        if boxes or asked:
            ears += {*boxes, *(self.outgoing[to].outbox for to in asked)}
        arrivals = self._collect(ears, now + min(seconds, LOOK_EVERY), min(count, MOST_AT_ONCE))
        for receiver in asked:
            self._hear(receiver)
        for arrival in arrivals:
            self._take_in(arrival)

    def _collect(
        self, ears: Sequence[Inbox | Outbox], until: float, count: int
    ) -> Iterable[Arrival]:
        """What arrives, not looked at yet; where somebody waits for several, all at once.

        Who shares a core with many others finds nothing in the caches any more after each wait: so
        as little as possible is done between the first arrival and the last.
        """
        found: list[Arrival] = []
        while True:
            ready = wait_for_any(ears, until - time.monotonic())
            if self.reports.outbox in ready:
                self._heed_coordinator()
            else:
                self.heeded = time.monotonic()
            if self.inbox not in ready:
                return found
            if count <= 1:
                return self.inbox.arrivals()
            # Who was late finds all of them here, and need not ask again and again.
            while len(found) < count and (arrival := self.inbox.receive()) is not None:
                found.append(arrival)
            if len(found) >= count or len(ready) > 1:
                return found

    def _foreseen(self, arrival: Arrival) -> bool:
        """Takes an arrival in if it is the next state of who has spoken on that connection."""
        sender = self.callers.get(arrival.route)
        if sender is None or arrival.speaker not in (None, sender):
            return False
        came = self.came[sender]
        state = self.foresight.read(sender, came.next, arrival.frames)
        if state is None:
            return False
        if self.accept_foreseen(sender, state):
            self.heard[sender] = time.monotonic()
            self.foresight.saw(sender, state.round)
            if came.take(array_bytes(state)):
                self._tell(sender)
        else:
            self.inbox.offended(arrival)
        return True

    def _take_in(self, arrival: Arrival) -> None:
        if self._foreseen(arrival):
            return
        envelope = self._open(arrival.frames, self.limits)
        if envelope is None:
            self.inbox.offended(arrival)
            return
        message, sender = envelope.message, envelope.sender
        if isinstance(message, Greet):
            self._greeted(envelope, message, arrival)
            return
        came = self.came.get(sender)
        known = came is not None and arrival.speaker in (None, sender)
        epoch = getattr(message, "epoch", self.around.epoch)
        if came is None or not known or epoch != self.around.epoch:
            self.accept(envelope, arrival.speaker)
            # What is left of an epoch that is over comes from honest neighbours too.
            if epoch == self.around.epoch:
                self.inbox.offended(arrival)
            return
        if isinstance(message, Ask):
            self._note(sender, arrival.route)
            came.asked(message.first)
            self._tell(sender, message.serial)
        elif isinstance(message, (Noise, Seed, State)) and not came.expects(envelope.number):
            # A second copy, or what follows something that was lost: its sender will ask, on the
            # connection that it has then. Without keys anybody could have sent this, to be answered
            # in its place.
            self.heard[sender] = time.monotonic()
            if envelope.number > came.next + self.window:
                self.drop("a number far ahead", sender)
                self.inbox.offended(arrival)
        elif self.accept(envelope, arrival.speaker):
            self._note(sender, arrival.route)
            if isinstance(message, State):
                self.foresight.saw(sender, message.round)
            if came.take(array_bytes(message)):
                self._tell(sender)
        else:
            self.inbox.offended(arrival)

    def _note(self, sender: int, route: bytes) -> None:
        if self.routes.get(sender) != route:
            self.callers.pop(self.routes.get(sender, b""), None)
            self.callers[route] = sender
            self.routes[sender] = route
        self.heard[sender] = time.monotonic()

    def _tell(self, sender: int, serial: int = 0) -> None:
        """Tells a neighbour how far its messages have come."""
        upto = self.came[sender].told()
        self._reply(self.routes[sender], Taken(self.around.epoch, upto, serial))

    def _reply(self, route: bytes, message: Message) -> None:
        self.inbox.reply(route, encode(message, self.run, self.around.me))

    def _news_of(self, sender: int) -> str:
        silence = time.monotonic() - self.heard[sender]
        if silence < min(SILENT, self.around.timeout):
            return ""
        return f"; it, or the link between them, was silent for {silence:.0f} s"

    def _open(self, frames: Sequence[Frame], limits: Limits = ANSWER) -> Envelope | None:
        try:
            return decode(frames, self.run, limits)
        except BadMessage as reason:
            self.drop(str(reason))
            return None

    # --- the coordinator ------------------------------------------------------------------------

    def check_for_stop(self) -> None:
        """Raises Stopped if the coordinator has ended the run; never waits."""
        now = time.monotonic()
        if now - self.heeded > HEED_EVERY:
            self._heed_coordinator()
            self._check_led()

    def _heed_coordinator(self) -> None:
        self.heeded = time.monotonic()
        for frames in self.reports.outbox.answers():
            envelope = self._open(frames, FROM_COORDINATOR)
            if envelope is None or envelope.sender != COORDINATOR:
                continue
            self.led.renew()
            message = envelope.message
            if isinstance(message, Stop):
                raise Stopped(message.reason)
            if isinstance(message, Halt | NextView) and message.epoch > self.around.epoch:
                raise ViewEnds(message.epoch)
            if isinstance(message, NextView) and message.epoch == self.around.epoch and self.met:
                # It has not heard that we are in it.
                self.reports(Entered(self.around.epoch))
            self.reports.hear(message)

    def _check_led(self) -> None:
        """A node that was told to does not go on for ever without a coordinator."""
        self.led.look()
        if self.orphan_timeout is not None and self.led.waited > self.orphan_timeout:
            raise RunFailed(f"the coordinator has said nothing for {self.led.waited:.0f} s")

    def _is_led(self) -> bool:
        self.led.look()
        return self.around.waits_on and self.led.waited < self.around.timeout

    def close(self) -> None:
        """Lets go of the ways out: the neighbours of the next view may be others."""
        for way in self.outgoing.values():
            way.outbox.close()
