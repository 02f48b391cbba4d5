"""Measures the links against bare ZeroMQ: the same frames from one process to another.

Part of `lppa bench`. Both ways are timed in turns in the same two processes, so that a busy machine
slows both alike. A pipe beside them keeps the sender a few messages ahead and no more, as the
rounds do in a run. Our links take a large model in parts, each a copy, as in a run; bare sockets
have each vector in one frame, uncopied.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np
import torch

from lppa.node.memory import keep_for_later, keep_nothing
from lppa.node.robust import sum_is_finite
from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR, encode
from lppa.protocol.links import WHOLE, Neighbourhood, part_of
from lppa.protocol.messages import State
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import Reports
from lppa.protocol.sockets import Wire, keys_of
from lppa.protocol.zeromq import zmq

AHEAD = 4
TIMEOUT = 300.0
WAYS = ("raw", "ours")


def exchange_sender(
    book: AddressBook,
    secret: str | None,
    address: str,
    credit: Connection,
    size: int,
    messages: int,
    repeats: int,
) -> dict[str, list[float]]:
    """Node 0: sends (θ, γ) over bare sockets and over our links in turns; its processor time."""
    vector = np.random.default_rng(0).standard_normal(size, dtype=np.float32)
    context, wire, links = _open(book, 0, secret, size, messages)
    try:
        socket = context.socket(zmq.DEALER)
        _encrypt(socket, secret, book.node(1).public_key)
        socket.connect(address)
        vectors = {"theta": vector, "gamma": vector}
        frames = encode(State(0, 0, vectors), book.run, 0)
        used: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(repeats + 1):
            before = time.process_time()
            for i in range(messages):
                if i >= AHEAD:
                    credit.recv_bytes()
                socket.send_multipart(frames, copy=False)
            _settle(credit, messages)
            between = time.process_time()
            for i in range(messages):
                if i >= AHEAD:
                    credit.recv_bytes()
                _send_ours(links, turn * messages + i, vectors)
            _settle(credit, messages)
            used["raw"].append(between - before)
            used["ours"].append(time.process_time() - between)
        return used
    finally:
        context.destroy(linger=1000)
        wire.close(1.0)


def _send_ours(links: NetworkLinks, round: int, vectors: dict[str, np.ndarray]) -> None:
    around = links.around
    if not around.in_parts:
        links.send(State(0, round, vectors), 1)
        return
    for part in range(around.parts(round)):
        where = around.span(part)
        cut = {name: v[where.start : where.stop].copy() for name, v in vectors.items()}
        links.send(State(0, round, cut, part), 1)


def exchange_receiver(
    book: AddressBook,
    secret: str | None,
    address: str,
    credit: Connection,
    size: int,
    messages: int,
    repeats: int,
) -> dict[str, Any]:
    """Node 1: receives, and times from the first arrival to the last."""
    context, wire, links = _open(book, 1, secret, size, messages)
    try:
        socket = context.socket(zmq.ROUTER)
        _encrypt(socket, secret)
        socket.bind(address)
        spent: dict[str, list[float]] = {way: [] for way in WAYS}
        used: dict[str, list[float]] = {way: [] for way in WAYS}
        parts, began = links.around.parts(0), 0.0
        for turn in range(repeats + 1):
            before = time.process_time()
            for i in range(messages):
                # Polling first moves more than waiting in the receive: the faster of the two.
                socket.poll(round(TIMEOUT * 1000))
                socket.recv_multipart(zmq.NOBLOCK, copy=False)
                began = time.perf_counter() if i == 0 else began
                credit.send_bytes(b"+")
            spent["raw"].append(time.perf_counter() - began)
            between = time.process_time()
            for i in range(messages):
                for part in range(parts):
                    links.receive(State, turn * messages + i, 0, part)
                began = time.perf_counter() if i == 0 else began
                credit.send_bytes(b"+")
            spent["ours"].append(time.perf_counter() - began)
            used["raw"].append(between - before)
            used["ours"].append(time.process_time() - between)
    finally:
        context.destroy(linger=1000)
        wire.close(1.0)
    return {"seconds": spent, "used": used}


def exchanged(
    sender: dict[str, list[float]], receiver: dict[str, Any], size: int, messages: int
) -> dict[str, float]:
    """Megabytes per second by the clock, milliseconds of both processors for each megabyte.

    Ratios are of turns that follow each other; the first turn warms up.
    """
    moved = 2 * size * 4 / 1e6
    seconds, heard = receiver["seconds"], receiver["used"]
    used = {way: [a + b for a, b in zip(sender[way], heard[way], strict=True)][1:] for way in WAYS}
    raw, ours = (seconds[way][1:] for way in WAYS)
    return {
        "ratio": median(a / b for a, b in zip(raw, ours, strict=True)),
        "cpu_ratio": median(a / b for a, b in zip(used["raw"], used["ours"], strict=True)),
        **{f"{way}_mb_s": (messages - 1) * moved / median(seconds[way][1:]) for way in WAYS},
        **{f"{way}_cpu_ms_mb": 1000 * median(used[way]) / messages / moved for way in WAYS},
    }


def _encrypt(socket: zmq.Socket[bytes], secret: str | None, server: str | None = None) -> None:
    """The keys of a bare socket: of a client with its server's, or of a server."""
    if secret is None:
        return
    keys = keys_of(secret)
    socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
    if server is None:
        socket.curve_server = True
    else:
        socket.curve_serverkey = server.encode()


def _settle(credit: Connection, messages: int) -> None:
    """Waits until all that was sent has been received."""
    for _ in range(min(AHEAD, messages)):
        credit.recv_bytes()


def _open(
    book: AddressBook, me: int, secret: str | None, size: int, messages: int
) -> tuple[zmq.Context[zmq.Socket[bytes]], Wire, NetworkLinks]:
    """Bare ZeroMQ and our links, side by side, with the one edge from node 0 to node 1."""
    # As a node does, for both.
    torch.set_num_threads(1)
    (keep_nothing if size > WHOLE else keep_for_later)()
    inputs, outputs = ((), (1,)) if me == 0 else ((0,), ())
    wire = Wire(book, me, secret)
    sizes = {"theta": size, "gamma": size}
    around = Neighbourhood(
        me,
        messages,
        inputs,
        outputs,
        "float32",
        size,
        TIMEOUT,
        vectors=lambda t: sizes,
        part=part_of(size),
    )
    reports = Reports(wire.outbox(COORDINATOR, TIMEOUT), book.run, me)
    links = NetworkLinks(around, wire, wire.inbox(), reports)
    links.is_finite = sum_is_finite
    links.handshake("bench")
    return zmq.Context(), wire, links
