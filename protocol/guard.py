"""Bounds what others can make this process hold: watches bytes that have come and were not read.

A message is handed out only when it is whole, so that ZeroMQ keeps as many parts of an unfinished
one as somebody sends. What has come over a connection the kernel counts, what was handed out we
count; a connection with too much between the two is ended, whoever has made it. One that was honest
is made again, and sends again what was lost. Knows connections and bytes, and no messages.
"""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from lppa.protocol.zeromq import recv_monitor_message, zmq

ENDS = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_MONITOR_STOPPED
REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH
WITH_THE_LINE = REFUSED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CONNECTED | ENDS
LOOK_MS = 20
LOOK_IDLY_MS = 200  # where no connection can be counted
# As in Linux's struct tcp_info; other systems count elsewhere, and there nothing is bounded.
BYTES_RECEIVED, LENGTH = 128, 136
PER_FRAME = 35  # bytes that a frame has on the wire besides its content, at least
SLACK = 1 << 20  # for handshakes, and heartbeats of a long life
MOST_SILENT = 64  # connections over which no message has come yet
MOST_ANSWERS = 4 << 20  # bytes that wait on a connection of our own: a plan and small words
MOST_OFFENCES = 32  # by one peer, or over one connection


@dataclass
class Line:
    """What has become of the connection to one receiver, as far as is known by now."""

    connected: bool = False
    turned_down: bool = False
    hang_ups: int = 0  # in a row, with no handshake between them


@dataclass
class Connection:
    """A connection: which socket its number stood for, and what had come by then.

    `line` is whose it is if we have made it. What was read before the news of a connection came is
    put down to it too, but only those news tell that it is one of ours to judge and to end.
    """

    inode: int
    before: int
    line: Line | None = None
    offences: int = 0
    announced: bool = False
    over: bool = False  # to be ended


@dataclass
class Guard:
    """Watches connections to a bound socket and those that we make, in a thread of its own."""

    each: int = SLACK
    together: int = SLACK
    delivered: Counter[int] = field(default_factory=Counter)
    connections: dict[int, Connection] = field(default_factory=dict)
    ended: int = 0

    def __post_init__(self) -> None:
        self._new: queue.SimpleQueue[tuple[zmq.Socket[bytes], Line | None]] = queue.SimpleQueue()
        self._lines: dict[zmq.Socket[bytes], Line | None] = {}
        self._poller = zmq.Poller()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="guard", daemon=True)
        self._thread.start()

    def watch_bound(self, bound: zmq.Socket[bytes]) -> None:
        """Watches those who connect to a socket; to be called before it is bound."""
        self._new.put((bound.get_monitor_socket(zmq.EVENT_ACCEPTED | ENDS), None))

    def watch_line(self, connecting: zmq.Socket[bytes]) -> Line:
        """Watches a socket that is about to connect to one receiver."""
        line = Line()
        self._new.put((connecting.get_monitor_socket(WITH_THE_LINE), line))
        return line

    def allow(self, each: int, together: int) -> None:
        """How many bytes may wait at most from one who has connected, and from all of them."""
        self.each, self.together = each + SLACK, together + SLACK

    def note(self, descriptor: int, size: int, frames: int) -> None:
        """A message was read."""
        if descriptor not in self.connections:
            with suppress(OSError):
                self._meet(descriptor)
        self.delivered[descriptor] += size + frames * PER_FRAME

    def offended(self, descriptor: int) -> bool:
        """Counts a message that no honest peer sends; whether that was one too many.

        For where no key tells who it was: what comes over one connection is from one peer.
        """
        known = self.connections.get(descriptor)
        if known is None:
            return False
        known.offences += 1
        # Told once: what it had sent by then is still read.
        if known.offences != MOST_OFFENCES:
            return False
        self.end(descriptor)
        return True

    def stop(self) -> None:
        """Ends the thread."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            with suppress(queue.Empty):
                while True:
                    monitor, line = self._new.get_nowait()
                    self._lines[monitor] = line
                    self._poller.register(monitor, zmq.POLLIN)
            for monitor, _ in self._poller.poll(LOOK_MS if self.connections else LOOK_IDLY_MS):
                event = recv_monitor_message(monitor)
                self._hear(monitor, event["event"], int(event["value"]))
            self._look()

    def _hear(self, monitor: zmq.Socket[bytes], event: int, descriptor: int) -> None:
        line = self._lines[monitor]
        if line is not None:
            _tell(line, event)
        if event == zmq.EVENT_MONITOR_STOPPED:
            self._poller.unregister(monitor)
            del self._lines[monitor]
            monitor.close(linger=0)
        elif event in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
            with suppress(OSError):
                known = self._meet(descriptor)
                known.line, known.announced = line, True

    def _meet(self, descriptor: int) -> Connection:
        """The connection that a number stands for now, whoever hears of it first."""
        met = Connection(os.fstat(descriptor).st_ino, self.delivered[descriptor])
        known = self.connections.setdefault(descriptor, met)
        if known.inode != met.inode:
            self.connections[descriptor] = known = met
        return known

    def _look(self) -> None:
        waiting: dict[int, int] = {}
        answers: dict[int, int] = {}
        for descriptor, known in list(self.connections.items()):
            came = received(descriptor, known.inode)
            if came is None:
                # That one was closed. No event is asked: those of several sockets come in any
                # order, and the number may stand for a newer connection by then.
                self.connections.pop(descriptor, None)
                continue
            if not known.announced:
                continue
            unread = came - (self.delivered[descriptor] - known.before)
            (waiting if known.line is None else answers)[descriptor] = unread
        most = sorted(waiting, key=lambda descriptor: waiting[descriptor])
        while most and sum(waiting[d] for d in most) > self.together:
            self.end(most.pop())
        too_much = [d for d in most if waiting[d] > self.each]
        too_much += [d for d, unread in answers.items() if unread > MOST_ANSWERS + SLACK]
        announced = [(d, known) for d, known in list(self.connections.items()) if known.announced]
        over = [d for d, known in announced if known.over]
        silent = [
            d for d, known in announced if known.line is None and self.delivered[d] == known.before
        ]
        for descriptor in [*over, *too_much, *silent[:-MOST_SILENT]]:
            self.end(descriptor)

    def end(self, descriptor: int) -> None:
        """Ends a connection, if it is still the one that was known; ZeroMQ notices by itself.

        One that was not announced yet is ended when it is.
        """
        known = self.connections.get(descriptor)
        if known is None:
            return
        known.over = True
        if not known.announced or self.connections.pop(descriptor, None) is None:
            return
        self.ended += 1
        with suppress(OSError):
            if os.fstat(descriptor).st_ino == known.inode:
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    connection.shutdown(socket.SHUT_RDWR)


def _tell(line: Line, event: int) -> None:
    if event == REFUSED:
        line.turned_down = True
    elif event == zmq.EVENT_CONNECTED:
        line.connected = True
    elif event == zmq.EVENT_DISCONNECTED:
        line.connected = False
        line.hang_ups += 1
    elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
        line.hang_ups, line.turned_down = 0, False


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
