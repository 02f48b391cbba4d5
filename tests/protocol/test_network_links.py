"""Links over real sockets: garbage, keys, deadlines and greetings."""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import contextmanager, suppress

import msgpack
import numpy as np
import pytest
import zmq
from ports import Ports
from test_links import FINE, NODES, RUN, SIZE, around, state

from lppa.protocol.book import NO_KEY, AddressBook, Peer
from lppa.protocol.codec import COORDINATOR, MAX_HEADER, decode, encode
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import Stopped
from lppa.protocol.messages import (
    Greet,
    Hello,
    Metrics,
    State,
    Stop,
    Welcome,
)
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import Reports
from lppa.protocol.sockets import Keys, Wire, new_keys
from lppa.protocol.wire import Arrival


def make_book(ports, secure):
    """An address book of these ports, and all secret keys, the coordinator's last."""
    keys = [new_keys() if secure else Keys(NO_KEY, NO_KEY) for _ in ports]
    peers = [
        Peer(f"tcp://127.0.0.1:{port}", key.public) for port, key in zip(ports, keys, strict=True)
    ]
    return AddressBook(RUN, peers[-1], tuple(peers[:-1])), [key.secret for key in keys]


class World:
    """Nodes of one process over tcp; node 0 is the one under test."""

    def __init__(self, secure=False, **around):
        self.ports = Ports()
        self.book, self.secrets = make_book(self.ports.choose(NODES + 1), secure)
        self.wires = {}
        self.me = self.links(0, **around)

    def wire(self, node, book=None, secret=None):
        wire = Wire(book or self.book, node, secret or self.secrets[node])
        self.wires.setdefault(node, []).append(wire)
        return wire

    def links(self, node, inputs=(1, 2), outputs=(1,), timeout=20.0):
        wire = self.wire(node)
        ear = Reports(wire.outbox(COORDINATOR, timeout), RUN, node)
        return NetworkLinks(around(node, inputs, outputs, timeout), wire, wire.inbox(), ear)

    def outbox(self, node, timeout=20.0):
        """Node `node`'s way to node 0."""
        return self.wire(node).outbox(0, timeout)

    def close(self):
        for wires in self.wires.values():
            for wire in wires:
                wire.close(0)
        self.ports.close()


@contextmanager
def world_of(**options):
    world = World(**options)
    try:
        yield world
    finally:
        world.close()


@contextmanager
def raw_socket(endpoint):
    """A stranger with a socket."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger, dealer.sndtimeo = 0, 5000
        dealer.connect(endpoint)
        yield dealer


def expect(links, message, sender):
    """What was sent arrives, whatever else did before."""
    received = links.receive(type(message), message.round, sender)
    assert received.round == message.round
    for name in ("theta", "gamma", "delta"):
        if hasattr(message, name):
            np.testing.assert_array_equal(getattr(received, name), getattr(message, name))


def header(**changes):
    fine = {
        "version": 1,
        "run": RUN,
        "kind": "noise",
        "sender": 1,
        "round": 0,
        "tensors": [["delta", "<f4", [SIZE]]],
        "body": {},
    }
    return msgpack.packb({**fine, **changes})


GARBAGE = {
    "no frame but an empty one": [b""],
    "random bytes": [secrets.token_bytes(100), secrets.token_bytes(20)],
    "a header that is a number": [msgpack.packb(7)],
    "a header without its end": [header()[:-3], FINE.tobytes()],
    "an endless nesting": [b"\x91" * 5000],
    "a map with 4 billion entries": [b"\xdf\xff\xff\xff\xff"],
    "another version": [header(version=2), FINE.tobytes()],
    "another run": [header(run="run-2"), FINE.tobytes()],
    "an unknown kind": [header(kind="pickle"), FINE.tobytes()],
    "a frame too short": [header(), FINE.tobytes()[:-1]],
    "a frame too many": [header(), FINE.tobytes(), b"x"],
    "no frame at all": [header()],
    "a negative length": [header(tensors=[["delta", "<f4", [-SIZE]]]), FINE.tobytes()],
    "a shape as large as nothing": [
        header(tensors=[["delta", "<f4", [0, 2**31, 2**31, 2**31]]]),
        b"",
    ],
    "an object type": [header(tensors=[["delta", "|O", [SIZE]]]), FINE.tobytes()],
    "text that is no text": [header(run="x").replace(b"\xa1x", b"\xa1\xff"), FINE.tobytes()],
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_at_the_door_is_dropped_counted_and_does_not_stop_the_mail(what):
    with world_of() as world, raw_socket(world.book.nodes[0].endpoint) as stranger:
        for _ in range(3):
            stranger.send_multipart(GARBAGE[what])
        deadline = time.monotonic() + 20
        while sum(world.me.dropped.values()) < 3 and time.monotonic() < deadline:
            world.me._gather(0.1)
        assert sum(world.me.dropped.values()) == 3, world.me.dropped
        world.outbox(1).send(encode(state(0), RUN, 1))
        expect(world.me, state(0), 1)


def test_much_garbage_of_many_kinds_still_leaves_room_in_a_report():
    """The reasons go to the coordinator with each report, which must fit into one header."""
    with world_of() as world:
        count = 30_000
        for k in range(count):
            # As it would come over many connections: one that brings so much is ended.
            world.me._take_in(Arrival(b"stranger", [header(kind=f"{k:040d}")], None))
        report = Metrics(0, {"dropped": dict(world.me.dropped)}, FINE, FINE)
        assert len(encode(report, RUN, 0)[0]) < MAX_HEADER
        assert sum(world.me.dropped.values()) == count


def test_a_header_that_names_another_sender_than_its_key_is_dropped():
    with world_of(secure=True) as world:
        liar = world.outbox(1)
        liar.send(encode(state(0, FINE + 1), RUN, 2))
        liar.send(encode(state(0, FINE + 2), RUN, 1, 0))
        expect(world.me, state(0, FINE + 2), 1)
        assert dict(world.me.dropped) == {"its key is that of node 1": 1}
        world.outbox(2).send(encode(state(0, FINE + 3), RUN, 2))
        expect(world.me, state(0, FINE + 3), 2)


def test_a_stranger_without_a_key_does_not_get_through_an_encrypted_door():
    with (
        world_of(secure=True, timeout=1.0) as world,
        raw_socket(world.book.nodes[0].endpoint) as stranger,
    ):
        # ZeroMQ may have given the connection up by now, and then takes nothing any more.
        with suppress(zmq.Again):
            stranger.send_multipart([bytes(memoryview(f)) for f in encode(state(0), RUN, 1)])
        with pytest.raises(RunFailed, match="waited 1 s for the state of round 0 from node 1"):
            world.me.receive(State, 0, 1)
        assert not world.me.dropped


def test_a_key_that_is_not_in_the_book_does_not_get_through_and_its_owner_is_told():
    with world_of(secure=True, timeout=1.0) as world:
        keys = new_keys()
        nodes = list(world.book.nodes)
        nodes[1] = Peer(nodes[1].endpoint, keys.public)
        other = AddressBook(RUN, world.book.coordinator, tuple(nodes))
        outbox = world.wire(1, other, keys.secret).outbox(0, 5.0)
        # Without waiting: it may have been turned down already, and then nothing is taken.
        outbox.send(encode(state(0), RUN, 1), wait=False)
        deadline = time.monotonic() + 60
        while not outbox.refused():
            assert time.monotonic() < deadline, "its owner was not told"
            outbox.socket.poll(100)
        with pytest.raises(RunFailed, match="from node 1"):
            world.me.receive(State, 0, 1)
        assert outbox.refused()
        assert not world.me.dropped


def test_the_coordinators_stop_ends_a_wait_and_a_forged_one_does_not():
    with world_of() as world:
        inbox = world.wire(COORDINATOR).inbox()
        world.me.reports.outbox.send(encode(Hello("i", "h", 1), RUN, 0))
        while (arrival := inbox.receive()) is None:
            inbox.socket.poll(1000)
        neighbour = world.outbox(1)
        neighbour.send(encode(Stop("a lie"), RUN, COORDINATOR))
        neighbour.send(encode(state(0), RUN, 1))
        expect(world.me, state(0), 1)
        assert sum(world.me.dropped.values()) == 1
        inbox.reply(arrival.route, encode(Stop("a lie"), RUN, 1))
        inbox.reply(arrival.route, [b"garbage"])
        inbox.reply(arrival.route, encode(Stop("enough"), RUN, COORDINATOR))
        with pytest.raises(Stopped, match="enough"):
            world.me.receive(State, 1, 1)


def fill(links, receiver):
    with pytest.raises(RunFailed) as failure:
        for round in range(100_000):
            links.send(state(round), receiver)
    return failure.value


def test_sending_to_a_peer_that_is_not_there_ends_with_its_name():
    with world_of(timeout=0.3) as world:
        error = fill(world.me, 1)
        assert str(error) == "node 1 took nothing from node 0 for 0.3 s"
        assert error.node == 1
        assert error.round > 0


def test_sending_to_a_peer_that_never_reads_ends_with_its_name():
    with world_of(timeout=0.3) as world:
        world.wire(1).inbox()
        error = fill(world.me, 1)
        assert str(error) == "node 1 took nothing from node 0 for 0.3 s"
        assert error.node == 1


# --- greetings ----------------------------------------------------------------------------------


def shake_hands(*pairs):
    """Handshakes of several nodes at once; what each raised, or None."""
    ended = [None] * len(pairs)

    def run(k, links, fingerprint):
        try:
            links.handshake(fingerprint)
        except Exception as error:
            ended[k] = error

    threads = [threading.Thread(target=run, args=(k, *pair)) for k, pair in enumerate(pairs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


@pytest.mark.parametrize("secure", [False, True])
def test_neighbours_with_one_plan_welcome_each_other(secure):
    with world_of(secure=secure, inputs=(2,), outputs=(1,)) as world:
        ring = [world.me, *(world.links(i, (i - 1,), ((i + 1) % 3,)) for i in (1, 2))]
        assert shake_hands(*((links, "same") for links in ring)) == [None] * 3
        assert not any(links.dropped for links in ring)


def test_neighbours_with_two_plans_refuse_each_other_by_name():
    with world_of(inputs=(1,)) as world:
        other = world.links(1, inputs=(0,), outputs=(0,))
        ended = shake_hands((world.me, "a" * 64), (other, "b" * 64))
        for node, error in enumerate(ended):
            assert isinstance(error, RunFailed)
            assert str(error).startswith(f"node {1 - node} follows another plan")
            assert (error.node, error.round) == (1 - node, 0)


def test_a_greeting_of_somebody_who_is_no_neighbour_is_refused_by_name():
    with world_of(outputs=(), timeout=0.5) as world:
        other = world.links(3, inputs=(), outputs=(0,))
        refused = []
        thread = threading.Thread(target=lambda: refused.extend(shake_hands((other, "same"))))
        thread.start()
        # Again and again: the greeting may take longer than one wait for the right neighbours.
        while thread.is_alive():
            (first,) = shake_hands((world.me, "same"))
        thread.join()
        assert str(refused[0]) == "node 3 is not an in-neighbour of node 0"
        assert "greeted by nodes 1, 2" in str(first)
        assert (first.node, first.round) == (1, 0)


def test_messages_that_overtake_a_greeting_are_kept():
    """A neighbour that is through with its greetings may send before others are."""
    with world_of(outputs=()) as world:
        early, late = world.outbox(1), world.outbox(2)
        early.send(encode(Greet(0, "same"), RUN, 1))
        early.send(encode(state(0), RUN, 1))
        accept = world.me.accept

        def accept_before_all_have_greeted(envelope, speaker):
            accepted = accept(envelope, speaker)
            late.send(encode(Greet(0, "same"), RUN, 2))
            return accepted

        world.me.accept = accept_before_all_have_greeted
        world.me.handshake("same")
        expect(world.me, state(0), 1)


def test_garbage_during_the_greetings_is_dropped_too():
    with (
        world_of(inputs=(1,), outputs=()) as world,
        raw_socket(world.book.nodes[0].endpoint) as stranger,
    ):
        garbage = [frames for frames in GARBAGE.values() if frames[-1] != b""]
        garbage.append([bytes(f) for f in encode(Welcome(0, "same"), RUN, 1)])
        for frames in garbage:
            stranger.send_multipart(frames)
        greeting, drop = world.outbox(1), world.me.drop

        def drop_before_the_greeting(reason, sender=None):
            drop(reason, sender)
            # Two connections, in no order: the greeting is sent when all garbage has come.
            if sum(world.me.dropped.values()) == len(garbage):
                greeting.send(encode(Greet(0, "same"), RUN, 1))

        world.me.drop = drop_before_the_greeting
        world.me.handshake("same")
        assert len(garbage) > 10
        assert sum(world.me.dropped.values()) == len(garbage)


def test_what_travels_can_be_read_back_by_anyone_with_the_codec():
    """The frames on the wire are the codec's, and nothing else is added."""
    with world_of() as world:
        inbox = world.wire(1).inbox()
        world.me.send(state(3), 1)
        while (arrival := inbox.receive()) is None:
            inbox.socket.poll(1000)
        envelope = decode(arrival.frames, RUN)
        assert (envelope.sender, envelope.message.round) == (0, 3)
        np.testing.assert_array_equal(envelope.message.vectors["gamma"], FINE)
