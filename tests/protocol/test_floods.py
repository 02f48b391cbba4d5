"""Floods over real sockets: little is kept, who sends them is shut out, and the mail goes on."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import zmq
from test_links import FINE, RUN, state
from test_network_links import expect, raw_socket, world_of

from lppa.protocol.codec import BadMessage, Limits, decode, encode
from lppa.protocol.guard import MOST_ANSWERS, MOST_OFFENCES, MOST_SILENT, SLACK
from lppa.protocol.messages import Hello, Noise
from lppa.protocol.sockets import MOST_AT_ONCE, MOST_FRAMES, keys_of

PIECE = bytes(1 << 16)


def until(condition, seconds=60.0, meanwhile=lambda: threading.Event().wait(0.01)):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        meanwhile()


def insider(context, world, node):
    """A bare socket with a node's key, connected to node 0."""
    dealer = context.socket(zmq.DEALER)
    keys = keys_of(world.secrets[node])
    dealer.linger, dealer.sndhwm = 0, 4
    dealer.curve_serverkey = world.book.nodes[0].public_key.encode()
    dealer.curve_secretkey, dealer.curve_publickey = keys.secret.encode(), keys.public.encode()
    dealer.connect(world.book.nodes[0].endpoint)
    return dealer


@contextmanager
def late_news(guard):
    """As where the guard waits for a core: until it is let, it hears of no connection."""
    hear, over = guard._hear, threading.Event()

    def hear_late(*news):
        over.wait()
        hear(*news)

    guard._hear = hear_late
    try:
        yield over.set
    finally:
        over.set()


def address(endpoint):
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return host, int(port)


def zmtp(endpoint):
    """A connection that has come as far as messages in clear text, made by hand."""
    return introduced(socket.create_connection(address(endpoint)), b"DEALER")


def introduced(connection, kind):
    connection.settimeout(20)
    greeting = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    connection.sendall(greeting)
    answer = connection.makefile("rb")
    answer.read(64)
    connection.sendall(b"\x04" + bytes([len(ready)]) + ready)
    answer.read(answer.read(2)[1])
    return connection


def send_without_end(connection, size):
    """Parts of a message, none of them the last, as long as somebody takes them."""
    part = b"\x03" + len(PIECE).to_bytes(8, "big") + PIECE  # there is more, and long
    with suppress(OSError):
        for _ in range(size // len(PIECE)):
            connection.sendall(part)


def test_a_message_that_never_ends_is_ended_and_the_mail_goes_on():
    with world_of() as world, zmtp(world.book.nodes[0].endpoint) as connection:
        guard = world.me.inbox.guard
        # Five times what may wait at most.
        send_without_end(connection, 5 * guard.each + 1000 * len(PIECE))
        until(lambda: guard.ended == 1)
        world.outbox(1).send(encode(state(0), RUN, 1))
        expect(world.me, state(0), 1)


def test_late_news_of_an_old_connection_do_not_end_the_watch_on_a_new_one_of_its_number():
    with world_of() as world, zmtp(world.book.nodes[0].endpoint):
        guard = world.me.inbox.guard

        def accepted():
            return [d for d, known in list(guard.connections.items()) if known.line is None]

        until(accepted)
        (number,) = accepted()
        guard._hear(next(iter(guard._lines)), zmq.EVENT_CLOSED, number)
        assert accepted() == [number]


def test_a_message_of_endless_parts_is_ended_on_encrypted_links_too():
    with world_of(secure=True) as world, zmq.Context() as context:
        guard = world.me.inbox.guard
        with insider(context, world, 2) as dealer:
            dealer.send_multipart([PIECE] * (5 * guard.each // len(PIECE)))
            until(lambda: guard.ended > 0)
            world.outbox(1).send(encode(state(0), RUN, 1))
            expect(world.me, state(0), 1)
        # Where this process had to wait for a core, all of it may have come in before the end.
        assert set(world.me.dropped) <= {"more than 16 arrays"}


def test_who_sends_nonsense_with_its_key_is_let_in_no_more_and_others_are():
    with world_of(secure=True) as world, zmq.Context() as context:
        honest, other = world.outbox(2), world.outbox(1)
        honest.send(encode(state(0), RUN, 2, 0))
        expect(world.me, state(0), 2)
        with insider(context, world, 2) as dealer:
            for _ in range(MOST_OFFENCES):
                dealer.send_multipart([b"nonsense" * 10])
            until(
                lambda: sum(world.me.dropped.values()) >= MOST_OFFENCES,
                meanwhile=lambda: world.me._gather(0.1),
            )
        late = world.outbox(2)
        until(late.refused, meanwhile=lambda: late.socket.poll(50))
        # The connection that it had, and those of others, are as they were.
        honest.send(encode(state(1), RUN, 2, 1))
        other.send(encode(state(0), RUN, 1, 0))
        expect(world.me, state(0), 1)
        expect(world.me, state(1), 2)


def test_in_clear_text_a_connection_that_brings_nonsense_is_ended_and_others_are_not():
    with world_of() as world, raw_socket(world.book.nodes[0].endpoint) as stranger:
        honest, guard = world.outbox(1), world.me.inbox.guard
        honest.send(encode(state(0), RUN, 1, 0))
        expect(world.me, state(0), 1)
        for _ in range(MOST_OFFENCES):
            # In the name of an honest node, which must not suffer from it.
            stranger.send_multipart(encode(Noise(0, 10**6, FINE), RUN, 1, 1))
        until(lambda: guard.ended == 1, meanwhile=lambda: world.me._gather(0.1))
        honest.send(encode(state(1), RUN, 1, 1))
        expect(world.me, state(1), 1)
        assert guard.ended == 1


def test_nonsense_that_came_before_the_guard_heard_of_its_connection_counts_too():
    with world_of() as world:
        guard, dropped = world.me.inbox.guard, world.me.dropped
        with raw_socket(world.book.nodes[0].endpoint) as stranger:
            with late_news(guard):
                for _ in range(MOST_OFFENCES + 1):
                    stranger.send_multipart(encode(Noise(0, 10**6, FINE), RUN, 1))
                until(
                    lambda: sum(dropped.values()) > MOST_OFFENCES,
                    meanwhile=lambda: world.me._gather(0.1),
                )
                assert guard.ended == 0
            until(lambda: guard.ended == 1)


@contextmanager
def receiver_of_node_0(context, world, node, secure):
    """A bare socket in a receiver's place, once node 0 has said something to it."""
    with context.socket(zmq.ROUTER) as router:
        router.linger, router.router_handover = 0, True
        if secure:
            keys = keys_of(world.secrets[node])
            router.curve_server = True
            router.curve_secretkey = keys.secret.encode()
            router.curve_publickey = keys.public.encode()
        router.bind(world.book.nodes[node].endpoint)
        world.me.outgoing[node].outbox.send(encode(state(0), RUN, 0, 0))
        assert router.poll(60_000)
        yield router, router.recv_multipart()[0]


def test_an_answer_that_has_no_end_is_not_kept_however_late_it_is_noticed():
    """ZeroMQ sends no message before it is whole: one without an end is made by hand."""
    with world_of() as world:
        guard = world.me.inbox.guard
        with socket.create_server(address(world.book.nodes[1].endpoint)) as door:
            door.settimeout(60)
            with introduced(door.accept()[0], b"ROUTER") as connection:
                with late_news(guard):
                    send_without_end(connection, 5 * (MOST_ANSWERS + SLACK))
                until(lambda: guard.ended == 1)
                assert world.me.outgoing[1].outbox.receive() is None


@pytest.mark.parametrize("secure", [False, True])
def test_an_answer_that_never_ends_ends_the_connection_and_is_not_kept(secure):
    with (
        world_of(secure=secure) as world,
        zmq.Context() as context,
        receiver_of_node_0(context, world, 1, secure) as (router, route),
    ):
        guard = world.me.inbox.guard
        router.send_multipart([route, *[PIECE] * (5 * (MOST_ANSWERS + SLACK) // len(PIECE))])
        until(lambda: guard.ended == 1)
        outbox = world.me.outgoing[1].outbox
        # Where this process had to wait for a core, all of it may have come in before the end: of
        # so many parts few are kept.
        answer = outbox.receive()
        assert answer is None or len(answer) <= MOST_FRAMES + 2
        assert outbox.receive() is None
        # It is made again, and serves as before; what was on its way is lost with the first.
        again = encode(state(1), RUN, 0, 1)
        until(lambda: router.poll(100), meanwhile=lambda: outbox.send(again, wait=False))


def test_answers_that_are_not_read_are_bounded_together_and_those_that_are_read_are_not():
    with (
        world_of() as world,
        zmq.Context() as context,
        receiver_of_node_0(context, world, 1, False) as (router, route),
    ):
        guard, outbox = world.me.inbox.guard, world.me.outgoing[1].outbox
        each = [route, PIECE]
        for _ in range(3 * (MOST_ANSWERS + SLACK) // len(PIECE)):
            router.send_multipart(each)
            until(lambda: outbox.receive() is not None, meanwhile=lambda: outbox.socket.poll(100))
        assert guard.ended == 0
        for _ in range(3 * (MOST_ANSWERS + SLACK) // len(PIECE)):
            router.send_multipart(each)
        # The connection is made again at once, and may bring enough to be ended a second time.
        until(lambda: guard.ended > 0)


def test_answers_that_were_read_before_the_guard_heard_of_their_connection_do_not_end_it():
    with world_of() as world, zmq.Context() as context:
        guard, outbox = world.me.inbox.guard, world.me.outgoing[1].outbox
        with (
            late_news(guard) as let_hear,
            receiver_of_node_0(context, world, 1, False) as (router, route),
        ):
            for _ in range(3 * (MOST_ANSWERS + SLACK) // len(PIECE)):
                router.send_multipart([route, PIECE])
                until(
                    lambda: outbox.receive() is not None, meanwhile=lambda: outbox.socket.poll(100)
                )
            let_hear()
            until(lambda: any(known.announced for known in list(guard.connections.values())))
            guard._look()
            assert guard.ended == 0


def test_a_flood_leaves_time_for_other_things():
    """However much has come, one turn reads only so much of it."""
    with world_of() as world, raw_socket(world.book.nodes[0].endpoint) as stranger:
        for _ in range(4 * MOST_AT_ONCE):
            # Dropped, and no offence: what is left of a view that is over comes from honest peers.
            stranger.send_multipart(encode(Noise(7, 0, FINE), RUN, 1))
        seen = 0
        while seen < 4 * MOST_AT_ONCE:
            world.me._gather(5.0)
            now = sum(world.me.dropped.values())
            assert now - seen <= MOST_AT_ONCE
            seen = now


def test_large_headers_are_dropped_unread_and_too_many_of_them_end_the_connection():
    with world_of() as world, raw_socket(world.book.nodes[0].endpoint) as stranger:
        guard, header = world.me.inbox.guard, bytes(1 << 20)
        most = guard.each // len(header)
        stranger.sndtimeo = 200
        for _ in range(3 * most + 3):
            try:
                stranger.send(header)
            except zmq.Again:
                break
        until(lambda: guard.ended > 0)
        world.outbox(1).send(encode(state(0), RUN, 1))
        expect(world.me, state(0), 1)
        assert all("header of 1048576 bytes" in reason for reason in world.me.dropped)


def test_many_connections_that_say_nothing_are_ended_the_oldest_first():
    with world_of() as world:
        guard = world.me.inbox.guard
        context = zmq.Context()
        context.max_sockets = 2 * MOST_SILENT
        try:
            silent = [context.socket(zmq.DEALER) for _ in range(MOST_SILENT + 10)]
            for dealer in silent:
                dealer.reconnect_ivl = -1
                dealer.connect(world.book.nodes[0].endpoint)
            until(lambda: guard.ended >= 10)
            world.outbox(1).send(encode(state(0), RUN, 1))
            expect(world.me, state(0), 1)
        finally:
            context.destroy(linger=0)


def test_what_may_wait_follows_from_the_model_and_the_round_window():
    with world_of() as world:
        links, guard = world.me, world.me.inbox.guard
        assert links.limits.arrays == 2 * FINE.nbytes or links.limits.arrays == 64
        assert guard.each < SLACK + (1 << 20)


def test_unasked_messages_of_the_right_form_are_kept_no_more_than_the_window_allows():
    with world_of() as world:
        outbox = world.outbox(1)
        for k in range(400):
            outbox.send(encode(Noise(0, k % 50, FINE), RUN, 1, k))
        until(lambda: sum(world.me.dropped.values()) > 0, meanwhile=lambda: world.me._gather(0.1))
        for _ in range(20):
            world.me._gather(0.05)
        assert len(world.me.mailbox) <= 2 * (world.me.around.nodes + 1)


@pytest.mark.parametrize(
    ("message", "limits", "reason"),
    [
        (Hello("x" * 9000, "h", 1), Limits(header=1 << 13), "header of"),
        (Noise(0, 0, np.zeros(100, np.float32)), Limits(arrays=399), "arrays of 400 bytes"),
    ],
)
def test_what_is_too_large_where_it_arrives_is_refused_before_it_is_read(message, limits, reason):
    frames = encode(message, RUN, 1)
    with pytest.raises(BadMessage, match=reason):
        decode(frames, RUN, limits)
    decode(frames, RUN)


def test_more_frames_than_any_message_has_are_refused_before_the_header_is_read():
    with pytest.raises(BadMessage, match="more than 16 arrays"):
        decode([b"x"] * 18, RUN)
