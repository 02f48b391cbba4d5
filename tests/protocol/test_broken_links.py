"""Real sockets over a network that cuts, stalls and delays: the exchange goes on, bit for bit."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from ports import Ports
from proxy import Proxy
from test_links import RUN
from test_network_links import make_book

from lppa.protocol.codec import COORDINATOR, decode, encode
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import Neighbourhood
from lppa.protocol.messages import Ask, Done, Hello, Progress, State, Taken, Who
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import MOST_REPORTS, Reports
from lppa.protocol.sockets import Wire
from lppa.protocol.wire import wait_for_any

NODES = 3


class Ring:
    """Nodes in a directed ring with both neighbours, each behind a forwarder."""

    def __init__(self, size, secure=False, timeout=60.0):
        self.size = size
        self.ports = Ports()
        ports = self.ports.choose(NODES + 1)
        book, secrets = make_book(ports, secure)
        self.proxies = {
            (i, j): Proxy(ports[j]) for i in range(NODES) for j in range(NODES) if i != j
        }
        self.wires = [Wire(book, i, secrets[i]) for i in range(NODES)]
        self.links = []
        for i, wire in enumerate(self.wires):
            others = tuple(j for j in range(NODES) if j != i)
            around = Neighbourhood(
                i, NODES, others, others, "float32", size, timeout, vectors=lambda t: {"x": size}
            )
            told = {j: f"tcp://127.0.0.1:{self.proxies[i, j].port}" for j in others}
            ear = Reports(wire.outbox(COORDINATOR, timeout), RUN, i)
            self.links.append(NetworkLinks(around, wire, wire.inbox(), ear, told))

    def work(self, rounds, after_round=lambda node, t: None):
        """Every node averages with the others for so many rounds; what each ended with."""
        ended: list = [None] * NODES

        def run(i):
            try:
                links = self.links[i]
                links.handshake("same")
                x = np.full(self.size, i, np.float32)
                for t in range(rounds):
                    for j in links.around.outputs:
                        links.send(State(0, t, {"x": x}), j)
                    total = {i: x}
                    for j in links.around.inputs:
                        total[j] = links.receive(State, t, j).vectors["x"]
                    x = sum(total[j] * np.float32(0.3 + 0.1 * j) for j in range(NODES))
                    after_round(i, t)
                links.settle()
                ended[i] = x.tobytes()
            except Exception as error:
                ended[i] = error

        threads = [threading.Thread(target=run, args=(i,)) for i in range(NODES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ended

    def close(self):
        for wire in self.wires:
            wire.close(0)
        for proxy in self.proxies.values():
            proxy.close()
        self.ports.close()


@contextmanager
def ring_of(*given, **options):
    ring = Ring(*given, **options)
    try:
        yield ring
    finally:
        ring.close()


def undisturbed(size, rounds):
    with ring_of(size) as ring:
        ended = ring.work(rounds)
    assert all(isinstance(end, bytes) for end in ended), ended
    return ended


@pytest.mark.parametrize("size", [5, 70_000])
@pytest.mark.parametrize("secure", [False, True])
def test_connections_that_are_cut_again_and_again_change_no_bit(size, secure):
    rounds, cuts = 30, []
    with ring_of(size, secure=secure) as ring:
        most = [0]

        def cut_now_and_then(node, t):
            most[0] = max(most[0], *(len(w.sent.kept) for w in ring.links[node].outgoing.values()))
            if node == 0 and t % 10 == 3:
                cuts.append(sum(proxy.cut() for proxy in ring.proxies.values()))

        ended = ring.work(rounds, cut_now_and_then)
        assert sum(cuts) > 6
        for links in ring.links:
            assert not links.dropped
            assert all(way.settled for way in links.outgoing.values())
        assert most[0] <= ring.links[0].window
    assert ended == undisturbed(size, rounds)


def test_who_repeats_a_message_in_anothers_name_gets_no_answers_in_its_place():
    """Without keys anybody may do that, and at the end nobody would be left to be asked again."""
    rounds, copies = 3, []
    with ring_of(5) as ring:
        listening = ring.links[0]
        taken_in = listening._take_in

        def with_a_stranger(arrival):
            taken_in(arrival)
            for frames in copies:
                taken_in(arrival._replace(route=b"a stranger's", frames=frames))

        listening._take_in = with_a_stranger

        def repeat(node, t):
            if (node, t) == (0, 0):
                old = State(0, 0, {"x": np.ones(5, np.float32)})
                copies.append([memoryview(part) for part in encode(old, RUN, 1, 0)])

        ended = ring.work(rounds, repeat)
        assert b"a stranger's" not in listening.routes.values()
        assert all(way.settled for links in ring.links for way in links.outgoing.values())
    assert ended == undisturbed(5, rounds)


def test_a_link_that_stands_still_for_a_while_and_is_slow_changes_no_bit():
    rounds = 12
    with ring_of(5) as ring:
        slow = ring.proxies[0, 1]
        slow.delay = 0.05

        def stall(node, t):
            if (node, t) == (0, 4):
                slow.stall()
                threading.Timer(2.5, slow.go_on).start()

        ended = ring.work(rounds, stall)
        assert not any(links.dropped for links in ring.links)
    assert ended == undisturbed(5, rounds)


def test_a_link_that_is_dead_for_good_is_named_with_both_its_ends():
    with ring_of(5, timeout=3.0) as ring:

        def stall(node, t):
            if (node, t) == (0, 4):
                ring.proxies[0, 1].stall()

        ended = ring.work(100, stall)
        assert all(isinstance(end, RunFailed) for end in ended), ended
        said = next(str(end) for end in ended if "from node 0" in str(end))
        assert said.startswith("node 1 waited 3 s for the state of round")
        assert "it, or the link between them, was silent for" in said


def test_small_messages_are_not_answered_one_by_one():
    with ring_of(5) as ring:
        told = []
        for links in ring.links:
            honest = links._tell
            links._tell = lambda sender, serial=0, honest=honest: (
                told.append(serial),
                honest(sender, serial),
            )
        rounds = 160
        ring.work(rounds)
    # One for sixteen messages, the last word of each, and the questions of a slow machine.
    assert told.count(0) <= NODES * (NODES - 1) * (rounds / 16 + 1)


# --- what a node tells the coordinator ----------------------------------------------------------


@contextmanager
def reporting(secure=False):
    ports = Ports()
    numbers = ports.choose(2)
    book, secrets = make_book(numbers, secure)
    proxy = Proxy(numbers[-1])
    node = Wire(book, 0, secrets[0])
    wires = [node]

    def coordinator():
        wires.append(Wire(book, COORDINATOR, secrets[-1]))
        return wires[-1], wires[-1].inbox()

    outbox = node.outbox(COORDINATOR, 20.0, f"tcp://127.0.0.1:{proxy.port}")
    try:
        yield Reports(outbox, RUN, 0, Hello("i", "h", 1)), coordinator, proxy
    finally:
        for wire in wires:
            wire.close(0)
        proxy.close()
        ports.close()


def next_of(inbox, kind):
    """The next message of a kind that comes to an inbox, and where to answer it."""
    while True:
        wait_for_any([inbox], 1.0)
        while (arrival := inbox.receive()) is not None:
            envelope = decode(arrival.frames, RUN)
            if isinstance(envelope.message, kind):
                return envelope, arrival.route


def test_a_report_is_kept_until_a_coordinator_that_came_back_has_taken_it():
    with reporting() as (reports, coordinator, _):
        first, inbox = coordinator()
        reports(Progress(1))
        reports(Done(3, {}))
        assert next_of(inbox, Done)[0].number == 0
        first.close(0)
        assert not reports.settled
        _, inbox = coordinator()
        thread = threading.Thread(target=reports.settle, args=(60.0,))
        thread.start()
        _, route = next_of(inbox, Ask)
        inbox.reply(route, encode(Who(), RUN, COORDINATOR))
        assert next_of(inbox, Hello)[0].message == Hello("i", "h", 1)
        envelope, route = next_of(inbox, Ask)
        assert envelope.message.first == 0
        serial = envelope.message.serial
        inbox.reply(route, encode(Taken(0, 0, serial), RUN, COORDINATOR))
        envelope, route = next_of(inbox, Done)
        assert (envelope.number, envelope.message.round) == (0, 3)
        inbox.reply(route, encode(Taken(0, 1), RUN, COORDINATOR))
        thread.join()
        assert reports.settled


def test_a_coordinator_that_is_away_for_long_costs_little_memory():
    with reporting() as (reports, _, _):
        for t in range(3 * MOST_REPORTS):
            reports(Done(t, {}))
        assert len(reports.sent.kept) == MOST_REPORTS
        assert reports.sent.first == 2 * MOST_REPORTS


def test_a_forwarder_whose_target_is_not_there_yet_is_not_taken_for_a_wrong_key():
    with reporting(secure=True) as (reports, coordinator, proxy):
        while proxy.accepted < 6:
            assert not reports.outbox.refused()
            reports.outbox.socket.poll(100)
        assert "hangs up" in reports.outbox.hint()
        _, inbox = coordinator()
        reports(Done(3, {}))
        assert next_of(inbox, Done)[0].message.round == 3
        assert not reports.outbox.refused()
        while reports.outbox.hint():  # news of the handshake come by another thread
            reports.outbox.socket.poll(10)
