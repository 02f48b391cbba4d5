"""What it costs a round that nothing is lost: acknowledgements, checkpoints and heartbeats.

Part of `lppa bench`. The same clients do the same rounds with and without each, in turns. What is
done besides the round is also timed by itself: that tells a per cent on a machine that is busy.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lppa.bench.learner import random_learner
from lppa.bench.rounds import TIMEOUT, VARIANTS, Scene, round_loop
from lppa.coordinator.bootstrap import TICK, Roster
from lppa.coordinator.watch import PULSE_EVERY
from lppa.node.checkpoint import Checkpoint, keeping, save
from lppa.node.record import Record
from lppa.node.state import ClientState
from lppa.node.stopwatch import Stopwatch
from lppa.node.training import PROGRESS_EVERY
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.links import Exchanged, Neighbourhood
from lppa.protocol.messages import Progress, Pulse
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import Reports
from lppa.protocol.sockets import Wire
from lppa.protocol.wire import wait_for_any

EVERY = 10  # rounds between checkpoints
IDLE, BEATING, OVER = range(3)


@dataclass(frozen=True)
class Care:
    """What is done in a round so that nothing is lost."""

    acknowledges: bool = False
    keeps: bool = False
    beats: bool = False


CARES = {
    "none": Care(),
    "acknowledgements": Care(acknowledges=True),
    "checkpoints": Care(keeps=True),
    "heartbeats": Care(beats=True),
    "all": Care(True, True, True),
}
Turn = dict[str, tuple[float, float, dict[str, float]]]
"""By the name of a care: when a turn began and ended, and the seconds that each care took."""


class TimedLinks(NetworkLinks):
    """Links whose acknowledgements are timed, and can be left away."""

    care = Care()
    clock = Stopwatch()

    def _transmit(self, message: Exchanged, receivers: Sequence[int]) -> None:
        if self.care.acknowledges:
            super()._transmit(message, receivers)
            return
        letter = self._write(message)
        for receiver in receivers:
            way = self.outgoing[receiver]
            way.outbox.send(letter.to_frames(way.sent.next))
            way.sent.next += 1

    def _tell(self, sender: int, serial: int = 0) -> None:
        if not self.care.acknowledges:
            self.came[sender].told()
            return
        with self.clock("acknowledgements"):
            super()._tell(sender, serial)

    def _hear(self, receiver: int) -> None:
        with self.clock("acknowledgements"):
            super()._hear(receiver)

    def _look_after(self, now: float) -> list[int]:
        if not self.care.acknowledges:
            return []
        with self.clock("acknowledgements"):
            return super()._look_after(now)

    def _heed_coordinator(self) -> None:
        if self.care.beats:
            with self.clock("heartbeats"):
                super()._heed_coordinator()


def careful_partner(
    book: AddressBook,
    me: int,
    secret: str | None,
    barrier: Any,
    signal: Any,
    folder: Path,
    rounds: int,
    repeats: int,
) -> list[Turn]:
    """One client: how long each turn took with each care."""
    torch.set_num_threads(1)
    nodes = len(book.nodes)
    others = tuple(i for i in range(nodes) if i != me)
    learner, wire = random_learner(me, Scene().model, Scene().batch), Wire(book, me, secret)
    record = Record(folder)
    try:
        sizes = {"theta": learner.size, "gamma": learner.size}
        around = Neighbourhood(
            me, nodes, others, others, "float32", learner.size, TIMEOUT, vectors=lambda t: sizes
        )
        reports = Reports(wire.outbox(COORDINATOR, TIMEOUT), book.run, me)
        links = TimedLinks(around, wire, wire.inbox(), reports)
        links.handshake("bench")
        turns = []
        for number in range(repeats + 1):
            turn: Turn = {}
            # In another order each time, the same for all: what comes after what has a say.
            for name in random.Random(number).sample(list(CARES), len(CARES)):
                links.care, links.clock = CARES[name], Stopwatch()
                if me == 0:
                    signal.value = BEATING if links.care.beats else IDLE
                loop = round_loop(VARIANTS["ours"], learner, links, rounds)
                barrier.wait()
                began = time.perf_counter()
                for state in careful(loop, links):
                    if links.care.keeps and state.t % EVERY == 0:
                        with links.clock("checkpoints"):
                            keep(state, links, record, learner.weights(state.theta, state.steps))
                turn[name] = (began, time.perf_counter(), dict(links.clock.seconds))
                # What was sent has come, on all links, before anybody goes on.
                barrier.wait()
                if links.care.acknowledges:
                    links.settle()
                barrier.wait()
            turns.append(turn)
        barrier.wait()
        return turns[1:]
    finally:
        signal.value = OVER
        record.close()
        wire.close(1.0)


def careful(loop: Iterator[ClientState], links: TimedLinks) -> Iterator[ClientState]:
    """The rounds, with reports of progress as in a run."""
    reported = 0.0
    for state in loop:
        if links.care.beats and time.monotonic() - reported > PROGRESS_EVERY:
            reported = time.monotonic()
            with links.clock("heartbeats"):
                links.reports(Progress(state.t))
        yield state


def keep(
    state: ClientState, links: TimedLinks, record: Record, weights: dict[str, torch.Tensor]
) -> None:
    """What a client writes down in a run."""
    checkpoint = Checkpoint(state, "bench", links.clock.split(), dict(links.sent))
    keep = keeping(links.around.nodes, EVERY, links.around.size)
    save(record.folder / "checkpoints", checkpoint, keep)
    record.tensors("model.pt", weights)


def pulse(book: AddressBook, secret: str | None, signal: Any) -> None:
    """The coordinator, as far as its heartbeats go."""
    wire = Wire(book, COORDINATOR, secret)
    try:
        inbox, pulsed = wire.inbox(), 0.0
        routes: set[bytes] = set()
        roster = Roster(inbox, book.run, len(book.nodes))
        while signal.value != OVER:
            wait_for_any([inbox], TICK)
            routes |= {arrival.route for arrival in inbox.arrivals()}
            if signal.value == BEATING and time.monotonic() - pulsed > PULSE_EVERY:
                pulsed = time.monotonic()
                for route in routes:
                    roster.answer(route, Pulse(0))
    finally:
        wire.close(0.0)
