"""A network that can be broken: TCP forwarders that cut, delay and stall, for real sockets.

`Proxy` stands before one port. `Forwarders` stand between all processes of a peers.json: each gets
a book of its own, in which the others are reached through a forwarder.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import threading
import time
from collections import deque
from pathlib import Path

RESET = struct.pack("ii", 1, 0)  # close with a reset: what is on its way is lost
PIECE = 1 << 16
MOST_HELD = 1 << 24  # bytes on their way in one direction, as long as they are delayed


class Proxy:
    """Forwards 127.0.0.1:`port` to a target port; hangs up on those who come while it is away."""

    def __init__(self, target: int, delay: float = 0.0) -> None:
        self.target = target
        self.delay = delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.open = threading.Event()
        self.open.set()
        self.closed = False
        self.lock = threading.Lock()
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.accepted = 0
        self.forwarded = 0
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def cut(self) -> int:
        """Resets all connections; returns how many there were. New ones are let through."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            _reset(*pair)
        return len(pairs)

    def stall(self) -> None:
        """Connections stay as they are, and nothing passes."""
        self.open.clear()

    def go_on(self) -> None:
        """What was stalled passes again."""
        self.open.set()

    def close(self) -> None:
        """Ends all connections and threads."""
        self.closed = True
        self.open.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()
        for thread in self.threads:
            thread.join()

    def _accept(self) -> None:
        while not self.closed:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            with self.lock:
                self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pump, args=(one, other), daemon=True)
                self.threads.append(thread)
                thread.start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        held: deque[tuple[float, bytes]] = deque()
        size = 0
        with contextlib.suppress(OSError, ValueError), selectors.DefaultSelector() as ready:
            ready.register(one, selectors.EVENT_READ)
            while not self.closed:
                self.open.wait()
                wait = max(0.0, held[0][0] - time.monotonic()) if held else 0.2
                if size < MOST_HELD and ready.select(min(wait, 0.2)):
                    piece = one.recv(PIECE)
                    if not piece:
                        break
                    self.open.wait()
                    held.append((time.monotonic() + self.delay, piece))
                    size += len(piece)
                while held and held[0][0] <= time.monotonic():
                    other.sendall(held[0][1])
                    self.forwarded += len(held[0][1])
                    size -= len(held.popleft()[1])
        with self.lock:
            self.pairs = [pair for pair in self.pairs if one not in pair]
        _reset(one, other)


def _reset(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        with contextlib.suppress(OSError):
            # Wakes the thread that waits for it; what was not sent yet is thrown away.
            end.shutdown(socket.SHUT_RDWR)
        end.close()


class Forwarders:
    """A forwarder from every process of a peers.json to every other; a context manager."""

    def __init__(self, peers: Path, delay: float = 0.0) -> None:
        self.peers = peers
        self.content = json.loads(peers.read_text())
        entries = {"coordinator": self.content["coordinator"]}
        entries |= {node["id"]: node for node in self.content["nodes"]}
        ports = {name: int(e["endpoint"].rpartition(":")[2]) for name, e in entries.items()}
        self.between = {
            (one, other): Proxy(ports[other], delay)
            for one in ports
            for other in ports
            if one != other and other in (*range(len(ports) - 1), "coordinator")
        }

    def book_of(self, process: int | str) -> Path:
        """The book for a node, or for the "coordinator"."""
        content = json.loads(self.peers.read_text())
        for entry, name in (
            (content["coordinator"], "coordinator"),
            *((node, node["id"]) for node in content["nodes"]),
        ):
            if name != process:
                entry["endpoint"] = f"tcp://127.0.0.1:{self.between[process, name].port}"
        path = self.peers.with_name(f"peers-{process}.json")
        path.write_text(json.dumps(content))
        return path

    def cut(self) -> int:
        """Resets every connection there is."""
        return sum(proxy.cut() for proxy in self.between.values())

    def stall(self) -> None:
        """Nothing passes any more."""
        for proxy in self.between.values():
            proxy.stall()

    def go_on(self) -> None:
        """What was stalled passes again."""
        for proxy in self.between.values():
            proxy.go_on()

    def __enter__(self) -> Forwarders:
        return self

    def __exit__(self, *error: object) -> None:
        for proxy in self.between.values():
            proxy.close()
