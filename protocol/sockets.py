"""ZeroMQ sockets with our options: one bound inbox, one connected outbox per receiver, CURVE.

The only module that knows ZeroMQ. It moves frames and says which key sent them; what the frames
mean is not known here.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lppa.protocol.book import AddressBook, Peer, is_any_port, is_local
from lppa.protocol.codec import COORDINATOR, MAX_FRAME, MAX_HEADER, MAX_VECTORS, Frame
from lppa.protocol.errors import WrongUse
from lppa.protocol.guard import MOST_OFFENCES, Guard, Line
from lppa.protocol.names import describe
from lppa.protocol.wire import FAREWELL, Arrival, Box, SendTimeout
from lppa.protocol.zeromq import zmq

if TYPE_CHECKING:
    from zmq.auth.thread import ThreadAuthenticator

log = logging.getLogger("lppa.links")

# A peer that neither speaks nor answers a heartbeat for this long is reconnected.
HEARTBEAT_MS = 5_000
HEARTBEAT_TIMEOUT_MS = 30_000
# Messages that may wait in one direction of a link. A sender is ahead of its receiver by less than
# the number of nodes, so a full queue means that the receiver reads nothing at all.
QUEUE = 512
MOST_FRAMES = MAX_VECTORS + 1
MOST_AT_ONCE = 64  # messages that are read before deadlines and the coordinator are heeded again
NOBODY = -2  # speaks with a key that is not in the address book
POLLIN, NOBLOCK, MORE = int(zmq.POLLIN), int(zmq.NOBLOCK), int(zmq.SNDMORE)
RAW_SEND = zmq.backend.Socket.send
# A network that swallows what is sent is noticed after this long, and another connection tried.
UNHEARD_MS = 10_000
SMALL = 1 << 16  # bytes of a frame that is copied rather than shared with its sender


@dataclass(frozen=True)
class Keys:
    """A CURVE key pair in Z85."""

    public: str
    secret: str


def new_keys() -> Keys:
    """A fresh key pair."""
    public, secret = zmq.curve_keypair()
    return Keys(public.decode(), secret.decode())


def keys_of(secret: str) -> Keys:
    """The key pair of a secret key."""
    try:
        return Keys(zmq.curve_public(secret.encode()).decode(), secret)
    except (zmq.ZMQError, ValueError):
        raise WrongUse("the secret key is not a CURVE key") from None


class Wire:
    """The sockets of one process. `me` is a node's id, or COORDINATOR."""

    def __init__(self, book: AddressBook, me: int, secret: str | None) -> None:
        self.book = book
        self.me = me
        # Tells this process from any other, also from one that claims the same id.
        self.instance = secrets.token_hex(8)
        self.owners = book.keys()
        self.keys = _own_keys(book, me, secret) if book.encrypted else None
        self.context = zmq.Context()
        self.outboxes: list[Outbox] = []
        self.allowed = set(self.owners)
        self.keeper = _keeper(self.context, self.allowed) if self.keys else None
        self.guard: Guard | None = None

    def inbox(self) -> Inbox:
        """Binds this process's own endpoint."""
        peer = _entry(self.book, self.me)
        socket = self._socket(zmq.ROUTER, peer.endpoint)
        socket.router_handover = True
        socket.router_mandatory = True
        if self.keys:
            socket.curve_server = True
            socket.curve_secretkey = self.keys.secret.encode()
            socket.curve_publickey = self.keys.public.encode()
            socket.zap_domain = b"lppa"
        if peer.endpoint.startswith("tcp:"):
            self._guard().watch_bound(socket)
        try:
            socket.bind(_bind_address(peer.endpoint))
        except zmq.ZMQError as error:
            raise WrongUse(
                f"{describe(self.me)} cannot listen on {peer.endpoint}: {error.strerror}. "
                "Is it running already, or is the port taken by another program?"
            ) from None
        port = cast(bytes, socket.last_endpoint).decode().rpartition(":")[2]
        where = peer.endpoint
        if is_any_port(where):
            where = f"{where.removesuffix(':0')}:{port}"
        # Sockets in a private folder are for those only who could do worse.
        guard = self.guard if where.startswith("tcp:") else None
        return Inbox(socket, self.owners if self.keys else None, where, guard, self.allowed)

    def outbox(self, receiver: int, send_timeout: float, endpoint: str | None = None) -> Outbox:
        """Connects to a node, or to the coordinator; the peer need not be there yet.

        `endpoint` is where it said that it listens; who it is, its key in the address book says.
        """
        peer = _entry(self.book, receiver)
        endpoint = endpoint or peer.endpoint
        socket = self._socket(zmq.DEALER, endpoint)
        socket.sndtimeo = int(send_timeout * 1000)
        socket.maxmsgsize = 2 * MAX_HEADER  # only answers come back
        # The same after a broken connection, so that answers find their way again.
        socket.routing_id = secrets.token_bytes(16).hex().encode()
        if self.keys:
            socket.curve_serverkey = peer.public_key.encode()
            socket.curve_secretkey = self.keys.secret.encode()
            socket.curve_publickey = self.keys.public.encode()
        is_watched = self.keys is not None or endpoint.startswith("tcp:")
        line = self._guard().watch_line(socket) if is_watched else Line()
        try:
            socket.connect(endpoint.replace("//localhost:", "//127.0.0.1:"))
        except zmq.ZMQError as error:
            raise WrongUse(
                f"{describe(receiver)} cannot be reached at {endpoint!r}: {error.strerror}"
            ) from None
        self.outboxes.append(Outbox(receiver, socket, line, self.guard, self.keys is not None))
        return self.outboxes[-1]

    def _guard(self) -> Guard:
        if self.guard is None:
            self.guard = Guard()
        return self.guard

    def _socket(self, kind: int, endpoint: str) -> zmq.Socket[bytes]:
        socket = self.context.socket(kind)
        socket.ipv6 = True
        socket.sndhwm = socket.rcvhwm = QUEUE
        socket.maxmsgsize = MAX_FRAME
        if endpoint.startswith("tcp:"):
            # Within a machine the kernel tells when the other end is gone.
            socket.heartbeat_ivl = HEARTBEAT_MS
            socket.heartbeat_timeout = HEARTBEAT_TIMEOUT_MS
            socket.tcp_maxrt = UNHEARD_MS
        socket.reconnect_ivl = 50
        socket.reconnect_ivl_max = 1000
        return socket

    def share(self, frames: Sequence[Frame]) -> list[Frame]:
        """The same frames, made ready once to be sent to several receivers.

        Small ones are copied: that takes less time than to be told when they are needed no more.
        """
        return [zmq.Frame(frame, copy=memoryview(frame).nbytes <= SMALL) for frame in frames]

    def close(self, linger: float) -> None:
        """Closes everything, giving messages that are still on their way `linger` seconds."""
        if self.guard:
            self.guard.stop()
        if self.keeper:
            self.keeper.stop()
        for outbox in self.outboxes:
            if outbox.receiver == COORDINATOR:
                # It may be gone for good, and nobody depends on what it has not heard.
                outbox.socket.close(linger=int(min(linger, FAREWELL) * 1000))
        self.context.destroy(linger=int(linger * 1000))


class Inbox:
    """The bound socket that all others write to; `endpoint` is where they find it."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        owners: dict[str, int] | None,
        endpoint: str,
        guard: Guard | None,
        allowed: set[str],
    ) -> None:
        self.socket = socket
        self.owners = owners
        self.endpoint = endpoint
        self.guard = guard
        self.allowed = allowed
        self.offences: Counter[int] = Counter()

    def wait_with(self, others: Sequence[Box], seconds: float) -> list[Box]:
        """Those of the others from which something can be received; none when the time is over."""
        return _wait(others, seconds)

    def allow(self, each: int, together: int) -> None:
        """How many bytes may come and not be read yet, from one connection and from all."""
        if self.guard is not None:
            self.guard.allow(each, together)

    def receive(self) -> Arrival | None:
        """What has arrived, None where nothing has; never waits."""
        try:
            route = self.socket.recv(NOBLOCK, copy=False)
        except zmq.Again:
            return None
        frames = _parts(self.socket, route)
        speaker, connection = None, -1
        if self.owners is not None:
            speaker = self.owners.get(cast(str, route.get("User-Id")), NOBODY)
        if self.guard is not None:
            connection = route.get(zmq.SRCFD)
            self.guard.note(connection, sum(map(len, frames)), len(frames))
        return Arrival(route.bytes, frames, speaker, connection)

    def arrivals(self) -> Iterator[Arrival]:
        """What has arrived, but no more at once than leaves time for other things."""
        for _ in range(MOST_AT_ONCE):
            arrival = self.receive()
            if arrival is None:
                return
            yield arrival

    def offended(self, arrival: Arrival) -> None:
        """Counts a message that no honest peer sends; who sends many is let in no more.

        In clear text anybody could have done it in its name: there the connection is ended, and
        another one begins anew. Sockets in a private folder are its owner's business.
        """
        speaker = arrival.speaker
        if self.guard is None:
            return
        if self.owners is None or speaker is None:
            if self.guard.offended(arrival.connection):
                log.warning("a connection brought nothing but nonsense, and was ended")
            return
        self.offences[speaker] += 1
        if self.offences[speaker] >= MOST_OFFENCES:
            self.guard.end(arrival.connection)
            keys = {key for key, owner in self.owners.items() if owner == speaker}
            if keys & self.allowed:
                self.allowed -= keys
                log.warning("%s sends nonsense and is let in no more", describe(speaker))

    def reply(self, route: bytes, frames: Sequence[Frame]) -> bool:
        """Answers on the connection that a message came by; False if that is gone."""
        try:
            _send(self.socket, [route, *frames], NOBLOCK)
        except zmq.ZMQError as error:
            # One that takes nothing more is still there.
            return error.errno == zmq.EAGAIN
        return True


class Outbox:
    """The connected socket to one receiver."""

    def __init__(
        self,
        receiver: int,
        socket: zmq.Socket[bytes],
        line: Line,
        guard: Guard | None,
        encrypted: bool,
    ) -> None:
        self.receiver = receiver
        self.socket = socket
        self.line = line
        self.guard = guard
        self.encrypted = encrypted

    def wait_with(self, others: Sequence[Box], seconds: float) -> list[Box]:
        """Those of the others from which something can be received; none when the time is over."""
        return _wait(others, seconds)

    def close(self) -> None:
        """Lets it go; what it was given may still arrive within FAREWELL seconds."""
        self.socket.disable_monitor()
        self.socket.close(linger=int(FAREWELL * 1000))

    def send(self, frames: Sequence[Frame], wait: bool = True) -> bool:
        """Queues a message; its arrays must not change any more. False if it was not taken."""
        try:
            _send(self.socket, frames, 0 if wait else NOBLOCK)
        except zmq.Again:
            if wait:
                raise SendTimeout from None
            return False
        return True

    def receive(self) -> list[Frame] | None:
        """An answer that has come back, None where there is none; never waits."""
        try:
            first = self.socket.recv(NOBLOCK, copy=False)
        except zmq.Again:
            return None
        frames = [first.buffer, *_parts(self.socket, first)]
        if self.guard is not None:
            self.guard.note(first.get(zmq.SRCFD), sum(map(len, frames)), len(frames))
        return frames

    def answers(self) -> Iterator[list[Frame]]:
        """What has come back, but no more at once than leaves time for other things."""
        for _ in range(MOST_AT_ONCE):
            frames = self.receive()
            if frames is None:
                return
            yield frames

    def refused(self) -> bool:
        """Whether the receiver does not accept our key, as far as is known by now.

        One that has another key than we expect only hangs up, and so does a forwarder whose target
        is not there yet: that is told apart by patience alone (`hint`).
        """
        return self.line.turned_down

    def is_held(self) -> bool:
        """Whether some process has the other end of the connection, though it may say nothing.

        Known where it is over TCP, or there are keys.
        """
        return self.line.connected

    def hint(self) -> str:
        """What may be the matter with a receiver that did not answer, to end a sentence with."""
        if not self.line.hang_ups or not self.encrypted:
            return ""
        return "; something hangs up there: is its key another one than in this peers.json?"


def _parts(socket: zmq.Socket[bytes], last: zmq.Frame) -> list[Frame]:
    """The frames after the first; of too many, enough to see that."""
    frames: list[Frame] = []
    while last.more:
        last = socket.recv(0, copy=False)
        if len(frames) <= MOST_FRAMES:
            frames.append(last.buffer)
    return frames


def _wait(boxes: Sequence[Box], seconds: float) -> list[Box]:
    # Boxes of one transport are waited for together; there is no other here.
    sockets: dict[Any, Box] = {cast(Inbox | Outbox, box).socket: box for box in boxes}
    # Rounded up: a poll of 0 ms for the last fraction of a millisecond would spin.
    wait = max(0, int(seconds * 1000) + 1)
    return [sockets[socket] for socket, _ in zmq.zmq_poll([(s, POLLIN) for s in sockets], wait)]


def _send(socket: zmq.Socket[bytes], frames: Sequence[Frame], flags: int) -> None:
    """As `send_multipart`, whose flags are enumerations and take longer than the sending."""
    *first, last = frames
    for frame in first:
        _send_frame(socket, frame, flags | MORE)
    _send_frame(socket, last, flags)


def _send_frame(socket: zmq.Socket[bytes], frame: Frame, flags: int) -> None:
    # Without what pyzmq puts around it: that takes as long as the sending of a small frame.
    RAW_SEND(socket, frame, flags, isinstance(frame, bytes))


def _entry(book: AddressBook, process: int) -> Peer:
    return book.coordinator if process == COORDINATOR else book.node(process)


def _bind_address(endpoint: str) -> str:
    """Loopback and ipc as they are; else every interface: a host may not know its own name."""
    if is_local(endpoint):
        return endpoint.replace("//localhost:", "//127.0.0.1:")
    return f"tcp://*:{endpoint.rpartition(':')[2]}"


def _own_keys(book: AddressBook, me: int, secret: str | None) -> Keys:
    if secret is None:
        raise WrongUse(f"{describe(me)} has no secret key, and this run's links are encrypted")
    keys = keys_of(secret)
    if keys.public != _entry(book, me).public_key:
        raise WrongUse(f"the secret key is not that of {describe(me)} in peers.json")
    return keys


def _keeper(context: zmq.Context[zmq.Socket[bytes]], allowed: set[str]) -> ThreadAuthenticator:
    """A ZAP handler that lets in only the keys of the address book."""
    # Imported late: it brings asyncio, which clear-text runs do not need.
    from zmq.auth.thread import ThreadAuthenticator

    class Provider:
        def callback(self, domain: str, key: bytes) -> bool:
            return key.decode() in allowed

    keeper = ThreadAuthenticator(context)
    keeper.start()
    keeper.configure_curve_callback(domain="lppa", credentials_provider=Provider())
    return keeper
