"""Measures the links against bare ZeroMQ: the same frames from one process to another.

Part of `lppa bench`. Both ways are timed in turns in the same two processes, so that a busy machine
slows both alike. A pipe beside them keeps the sender a few messages ahead and no more, as the
rounds do in a run.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np
import zmq

from lppa.protocol.book import AddressBook
from lppa.protocol.codec import COORDINATOR, encode
from lppa.protocol.links import Neighbourhood
from lppa.protocol.messages import State
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import Reports
from lppa.protocol.sockets import Wire, keys_of

AHEAD = 4
TIMEOUT = 60.0


def exchange_sender(
    book: AddressBook,
    secret: str | None,
    address: str,
    credit: Connection,
    size: int,
    messages: int,
    repeats: int,
) -> None:
    """Node 0: sends (θ, γ) over bare sockets and over our links in turns."""
    vector = np.random.default_rng(0).standard_normal(size, dtype=np.float32)
    context, wire, links = _open(book, 0, secret, size, messages)
    try:
        socket = context.socket(zmq.DEALER)
        _encrypt(socket, secret, book.node(1).public_key)
        socket.connect(address)
        vectors = {"theta": vector, "gamma": vector}
        frames = encode(State(0, 0, vectors), book.run, 0)
        for turn in range(repeats + 1):
            for i in range(messages):
                if i >= AHEAD:
                    credit.recv_bytes()
                socket.send_multipart(frames, copy=False)
            _settle(credit, messages)
            for i in range(messages):
                if i >= AHEAD:
                    credit.recv_bytes()
                links.send(State(0, turn * messages + i, vectors), 1)
            _settle(credit, messages)
    finally:
        context.destroy(linger=1000)
        wire.close(1.0)


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
        bare, ours, began = [], [], 0.0
        for turn in range(repeats + 1):
            for i in range(messages):
                # Polling first moves more than waiting in the receive: the faster of the two.
                socket.poll(round(TIMEOUT * 1000))
                socket.recv_multipart(zmq.NOBLOCK, copy=False)
                began = time.perf_counter() if i == 0 else began
                credit.send_bytes(b"+")
            bare.append(time.perf_counter() - began)
            for i in range(messages):
                links.receive(State, turn * messages + i, 0)
                began = time.perf_counter() if i == 0 else began
                credit.send_bytes(b"+")
            ours.append(time.perf_counter() - began)
    finally:
        context.destroy(linger=1000)
        wire.close(1.0)
    # The first turn of each warms up. Megabytes per second, and the ratio of the two.
    moved = (messages - 1) * 2 * size * 4 / 1e6
    ours_speed, bare_speed = moved / median(ours[1:]), moved / median(bare[1:])
    return {
        "ratio": ours_speed / bare_speed,
        "ours_mb_s": ours_speed,
        "raw_mb_s": bare_speed,
        "parameters": size,
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
    inputs, outputs = ((), (1,)) if me == 0 else ((0,), ())
    wire = Wire(book, me, secret)
    sizes = {"theta": size, "gamma": size}
    around = Neighbourhood(
        me, messages, inputs, outputs, "float32", size, TIMEOUT, vectors=lambda t: sizes
    )
    reports = Reports(wire.outbox(COORDINATOR, TIMEOUT), book.run, me)
    links = NetworkLinks(around, wire, wire.inbox(), reports)
    links.handshake("bench")
    return zmq.Context(), wire, links
