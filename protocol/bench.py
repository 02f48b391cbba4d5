"""Measures the links against bare ZeroMQ: the same frames, both ways between two processes.

Part of `lppa bench`. Both are timed in turns in the same two processes, so that a busy machine
slows both alike.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np
import zmq

from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR, encode
from lppa.protocol.links import Neighbourhood, NetworkLinks
from lppa.protocol.messages import State
from lppa.protocol.sockets import Wire

ROUNDS = 20
TIMEOUT = 60.0


def exchange_partner(
    book: AddressBook, me: int, secret: str, raw: tuple[str, str], size: int, repeats: int
) -> dict[str, float]:
    """One of two processes: seconds per round over our links and over raw sockets.

    `raw` has the addresses of the two bare sockets, this process's own first.
    """
    wire = Wire(book, me, secret)
    context = zmq.Context()
    try:
        around = Neighbourhood(me, 2, (1 - me,), (1 - me,), "float32", size, TIMEOUT)
        links = NetworkLinks(around, wire, wire.inbox(), wire.outbox(COORDINATOR, TIMEOUT))
        inbox, outbox = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        inbox.bind(raw[0])
        outbox.connect(raw[1])
        vector = np.random.default_rng(me).standard_normal(size, dtype=np.float32)
        links.handshake("bench")
        frames = encode(State(0, vector, vector), book.run, me)
        ours, bare = [], []
        for turn in range(repeats + 1):
            began = time.perf_counter()
            for _ in range(ROUNDS):
                outbox.send_multipart(frames, copy=False)
                inbox.poll(TIMEOUT * 1000)
                inbox.recv_multipart(copy=False)
            bare.append(time.perf_counter() - began)
            began = time.perf_counter()
            for t in range(turn * ROUNDS, (turn + 1) * ROUNDS):
                links.send(State(t, vector, vector), 1 - me)
                links.receive(State, t, 1 - me)
            ours.append(time.perf_counter() - began)
        # The first turn of each warms up.
        return {"ours": median(ours[1:]) / ROUNDS, "raw": median(bare[1:]) / ROUNDS}
    finally:
        context.destroy(linger=1000)
        wire.close(1.0)


def throughput(result: dict[str, float], size: int) -> dict[str, Any]:
    """Megabytes per second both ways, and the ratio."""
    moved = 2 * 2 * size * 4 / 1e6
    ours, raw = moved / result["ours"], moved / result["raw"]
    return {"ratio": ours / raw, "ours_mb_s": ours, "raw_mb_s": raw, "parameters": size}
