"""Ports for tests: free when they are chosen, and nobody else's until they are let go."""

from __future__ import annotations

import socket
import sys


class Ports:
    """Ports on the loopback address. A ZeroMQ socket can be bound to one while it is held here."""

    def __init__(self) -> None:
        self.holders: list[socket.socket] = []

    def hold(self, port: int = 0) -> int:
        """A free port, or that very one; raises OSError if somebody has it."""
        holder = socket.socket()
        try:
            # On Linux two sockets with this option share a port as long as one listens at most:
            # the port is ours although we do not listen, and no bind to port 0 is given it.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            raise
        self.holders.append(holder)
        return holder.getsockname()[1]

    def choose(self, count: int) -> list[int]:
        """That many different free ports."""
        ports = [self.hold() for _ in range(count)]
        if sys.platform != "linux":
            self.close()
        return ports

    def close(self) -> None:
        """Lets all ports go."""
        for holder in self.holders:
            holder.close()
        self.holders = []
