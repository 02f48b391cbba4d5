"""How a node finds its place: it says hello to the coordinator until it is handed its plan."""

from __future__ import annotations

import logging
import os
import socket
import time

from lppa.protocol.codec import COORDINATOR, FROM_COORDINATOR, BadMessage, Frame, decode, encode
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.links import Stopped
from lppa.protocol.messages import Hello, Message, Plan, Refuse, Stop, Waiting
from lppa.protocol.names import name_all
from lppa.protocol.settings import NOISE_EXCHANGES
from lppa.protocol.sockets import Outbox, Wire, wait_for_any

log = logging.getLogger("lppa.join")

HELLO_EVERY = 1.0


def introduce(wire: Wire, endpoint: str = "") -> Hello:
    """Who this process is; `endpoint` is where it listens, if not where peers.json says."""
    return Hello(wire.instance, socket.gethostname(), os.getpid(), NOISE_EXCHANGES, endpoint)


def join(wire: Wire, coordinator: Outbox, timeout: float, hello: Hello) -> Plan:
    """Waits for the plan; gives up when the coordinator has been silent for `timeout` seconds."""
    where = wire.book.coordinator.endpoint
    heard = time.monotonic()
    missing: tuple[int, ...] = ()
    greeted = 0.0
    log.info("looking for the coordinator at %s", where)
    while True:
        now = time.monotonic()
        if now - heard > timeout:
            state = f" (it was waiting for {name_all(set(missing))})" if missing else ""
            raise RunFailed(
                f"no coordinator answered at {where} for {timeout:g} s{state}; "
                f"start it with `lppa-coordinator --peers` and this same peers.json"
                f"{coordinator.hint()}"
            )
        if now - greeted >= HELLO_EVERY:
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
        heard = time.monotonic()
        if isinstance(message, Plan):
            return message
        if isinstance(message, Refuse):
            raise WrongUse(f"the coordinator refuses node {wire.me}: {message.reason}")
        if isinstance(message, Stop):
            raise Stopped(message.reason)
        if isinstance(message, Waiting) and message.missing != missing:
            missing = message.missing
            log.info("waiting for %s", name_all(set(missing)))


def _answer(frames: list[Frame], run: str, where: str) -> Message | None:
    """The coordinator's message, None if it is not one."""
    try:
        envelope = decode(frames, run, FROM_COORDINATOR)
    except BadMessage as reason:
        log.warning("dropped a message from %s: %s", where, reason)
        return None
    return envelope.message if envelope.sender == COORDINATOR else None
