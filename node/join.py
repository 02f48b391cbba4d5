"""How a node finds its place: it says hello to the coordinator until it is handed its plan.

And how it finds its next place, when the graph changes.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Sequence

from lppa.protocol.codec import COORDINATOR, FROM_COORDINATOR, BadMessage, Frame, decode, encode
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.links import Stopped
from lppa.protocol.messages import (
    Halt,
    Halted,
    Hello,
    Message,
    NextView,
    Plan,
    Refuse,
    Stop,
    Waiting,
)
from lppa.protocol.names import name_all
from lppa.protocol.outgoing import Reports
from lppa.protocol.patience import Patience
from lppa.protocol.settings import NOISE_EXCHANGES
from lppa.protocol.wire import Outbox, Wire, wait_for_any

log = logging.getLogger("lppa.join")

HELLO_EVERY, SELDOM = 1.0, 4.0  # seconds: of a few nodes, and of a thousand at once
MANY = 100  # nodes from which on a coordinator that hears all of them has much to do


def introduce(wire: Wire, endpoint: str = "", checkpoints: Sequence[tuple[int, int]] = ()) -> Hello:
    """Who this process is; `endpoint` is where it listens, if not where peers.json says.

    `checkpoints` are the epochs and rounds that it could go on from.
    """
    return Hello(
        wire.instance,
        socket.gethostname(),
        os.getpid(),
        NOISE_EXCHANGES,
        endpoint,
        tuple(epoch for epoch, _ in checkpoints),
        tuple(round for _, round in checkpoints),
    )


def join(wire: Wire, coordinator: Outbox, timeout: float, hello: Hello) -> Plan:
    """Waits for the plan; gives up when the coordinator has been silent for `timeout` seconds."""
    where = wire.book.coordinator.endpoint
    patience = Patience(timeout)
    every = min(SELDOM, max(HELLO_EVERY, len(wire.book.nodes) / MANY))
    missing: tuple[int, ...] = ()
    greeted, halted = 0.0, 0
    log.info("looking for the coordinator at %s", where)
    while True:
        now = time.monotonic()
        if patience.look() <= 0:
            state = f" (it was waiting for {name_all(set(missing))})" if missing else ""
            raise RunFailed(
                f"no coordinator answered at {where} for {timeout:g} s{state}; "
                f"start it with `lppa-coordinator --peers` and this same peers.json"
                f"{coordinator.hint()}"
            )
        if now - greeted >= every:
            coordinator.send(encode(hello, wire.book.run, wire.me), wait=False)
            greeted = now
        wait_for_any([coordinator], min(HELLO_EVERY, timeout))
        if coordinator.refused():
            raise WrongUse(
                f"the coordinator at {where} and this node do not accept each other's keys: "
                "both need the same peers.json, and this node its own key file"
            )
        frames = coordinator.receive()
        message = None if frames is None else _answer(frames, wire.book.run, where)
        if message is None:
            continue
        patience.renew()
        if isinstance(message, Halt):
            # A plan that may be on its way is of a view that is over.
            halted = max(halted, message.epoch)
            coordinator.send(encode(Halted(halted, -1), wire.book.run, wire.me), wait=False)
        if isinstance(message, Plan) and message.view.get("epoch", 0) >= halted:
            return message
        if isinstance(message, Refuse):
            raise WrongUse(f"the coordinator refuses node {wire.me}: {message.reason}")
        if isinstance(message, Stop):
            raise Stopped(message.reason)
        if isinstance(message, Waiting) and message.missing != missing:
            missing = message.missing
            log.info("waiting for %s", name_all(set(missing)))


def await_view(wire: Wire, reports: Reports, epoch: int, done: int, timeout: float) -> NextView:
    """Waits for the graph of an epoch, or of a later one if that changes again meanwhile.

    `done` is the last round that this node has done, −1 if it has no model yet.
    """
    run, where = wire.book.run, wire.book.coordinator.endpoint
    said, patience = 0.0, Patience(timeout)
    while True:
        now = time.monotonic()
        if patience.look() <= 0:
            raise RunFailed(f"the coordinator did not say how to go on for {timeout:g} s")
        if now - said >= HELLO_EVERY:
            reports(Halted(epoch, done))
            said = now
        wait_for_any([reports.outbox], HELLO_EVERY)
        for frames in reports.outbox.answers():
            message = _answer(frames, run, where)
            if message is None:
                continue
            patience.renew()
            reports.hear(message)
            if isinstance(message, Stop):
                raise Stopped(message.reason)
            if isinstance(message, Halt | NextView) and message.epoch > epoch:
                epoch, said = message.epoch, 0.0
            if isinstance(message, NextView) and message.epoch == epoch:
                return message


def _answer(frames: list[Frame], run: str, where: str) -> Message | None:
    """The coordinator's message, None if it is not one."""
    try:
        envelope = decode(frames, run, FROM_COORDINATOR)
    except BadMessage as reason:
        log.warning("dropped a message from %s: %s", where, reason)
        return None
    return envelope.message if envelope.sender == COORDINATOR else None
