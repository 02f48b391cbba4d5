"""Bounds what others can make this process hold: watches bytes that have come and were not read.

A message is handed out only when it is whole, so that ZeroMQ keeps as many parts of an unfinished
one as somebody sends. What has come over a connection the kernel counts, what was handed out we
count; a connection with too much between the two is ended. One that was honest is made again, and
sends again what was lost. Knows connections and bytes, and no messages.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

import zmq
from zmq.utils.monitor import recv_monitor_message

EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
LOOK_MS = 20
# As in Linux's struct tcp_info; other systems count elsewhere, and there nothing is bounded.
BYTES_RECEIVED, LENGTH = 128, 136
PER_FRAME = 35  # bytes that a frame has on the wire besides its content, at least
SLACK = 1 << 20  # for handshakes, and heartbeats of a long life
MOST_SILENT = 64  # connections over which no message has come yet


@dataclass
class Connection:
    """An accepted connection: which socket its number stood for, and what had come by then."""

    inode: int
    before: int


class Guard:
    """Watches the connections to one bound socket, in a thread of its own."""

    def __init__(self, bound: zmq.Socket[bytes]) -> None:
        self.each = self.together = SLACK
        self.delivered: Counter[int] = Counter()
        self.connections: dict[int, Connection] = {}
        self.ended = 0
        self._monitor = bound.get_monitor_socket(EVENTS)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="guard", daemon=True)
        self._thread.start()

    def allow(self, each: int, together: int) -> None:
        """How many bytes may wait at most from one connection, and from all of them."""
        self.each, self.together = each + SLACK, together + SLACK

    def note(self, descriptor: int, size: int, frames: int) -> None:
        """A message was read."""
        self.delivered[descriptor] += size + frames * PER_FRAME

    def stop(self) -> None:
        """Ends the thread."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            if self._monitor.poll(LOOK_MS):
                event = recv_monitor_message(self._monitor)
                self._hear(event["event"], int(event["value"]))
            self._look()

    def _hear(self, event: int, descriptor: int) -> None:
        if event != zmq.EVENT_ACCEPTED:
            self.connections.pop(descriptor, None)
            return
        with suppress(OSError):
            inode = os.fstat(descriptor).st_ino
            self.connections[descriptor] = Connection(inode, self.delivered[descriptor])

    def _look(self) -> None:
        waiting = {}
        for descriptor, known in list(self.connections.items()):
            came = received(descriptor, known.inode)
            if came is None:
                self.connections.pop(descriptor, None)
            else:
                waiting[descriptor] = came - (self.delivered[descriptor] - known.before)
        most = sorted(waiting, key=lambda descriptor: waiting[descriptor])
        while most and sum(waiting[d] for d in most) > self.together:
            self.end(most.pop())
        for descriptor in most:
            if waiting[descriptor] > self.each:
                self.end(descriptor)
        silent = [d for d, known in self.connections.items() if self.delivered[d] == known.before]
        for descriptor in silent[:-MOST_SILENT]:
            self.end(descriptor)

    def end(self, descriptor: int) -> None:
        """Ends a connection, if it is still the one that was accepted; ZeroMQ notices by itself."""
        known = self.connections.pop(descriptor, None)
        if known is None:
            return
        self.ended += 1
        with suppress(OSError):
            if os.fstat(descriptor).st_ino == known.inode:
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    connection.shutdown(socket.SHUT_RDWR)


def received(descriptor: int, inode: int) -> int | None:
    """Bytes that have come over a TCP connection; None if the number stands for another one."""
    try:
        if os.fstat(descriptor).st_ino != inode:
            return None
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LENGTH)
    except OSError:
        return None
    if len(info) < LENGTH:
        return 0
    count: int = struct.unpack_from("=Q", info, BYTES_RECEIVED)[0]
    return count
