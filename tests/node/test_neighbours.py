"""Vectors out, vectors in: over real sockets, whole and in parts."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing

import pytest
import torch
from ports import Ports

from lppa.node.neighbours import Neighbours
from lppa.node.robust import Scrutiny
from lppa.node.stopwatch import Stopwatch
from lppa.protocol.book import NO_KEY, AddressBook, Peer
from lppa.protocol.codec import COORDINATOR
from lppa.protocol.links import Neighbourhood
from lppa.protocol.network import NetworkLinks
from lppa.protocol.outgoing import Reports
from lppa.protocol.sockets import Wire

NODES, SIZE = 3, 50
WEIGHTS = (0.5, 0.3, 0.2)


def together(work, part, **options):
    """What `work(neighbours, me)` gives for each of three nodes in threads, all linked to all."""
    ended = [None] * NODES
    with ExitStack() as stack:
        ports = stack.enter_context(closing(Ports()))
        peers = [Peer(f"tcp://127.0.0.1:{p}", NO_KEY) for p in ports.choose(NODES + 1)]
        book = AddressBook("run", peers[-1], tuple(peers[:-1]))
        sizes = {"x": SIZE, "weight": 1}

        def node(me):
            wire = Wire(book, me, None)
            try:
                others = tuple(j for j in range(NODES) if j != me)
                near = Neighbourhood(
                    me,
                    NODES,
                    others,
                    others,
                    "float32",
                    SIZE,
                    60.0,
                    vectors=lambda t: sizes,
                    part=part,
                )
                ear = Reports(wire.outbox(COORDINATOR, 60.0), "run", me)
                links = NetworkLinks(near, wire, wire.inbox(), ear)
                links.handshake("same")
                row = dict(enumerate(WEIGHTS))
                scrutiny = Scrutiny(me, lambda t: True)
                neighbours = Neighbours(links, row, torch.device("cpu"), Stopwatch(), scrutiny)
                for name, value in options.items():
                    setattr(neighbours, name, value)
                ended[me] = work(neighbours, me)
                links.settle()
            finally:
                wire.close(1.0)

        threads = [threading.Thread(target=node, args=(me,)) for me in range(NODES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return ended


def state(me, t):
    random = torch.Generator().manual_seed(100 * me + t)
    return {"x": torch.randn(SIZE, generator=random), "weight": torch.tensor([me + 1.0])}


@pytest.mark.parametrize("part", [1, 16, 49, 50, 1000])
def test_parts_are_mixed_to_the_bits_of_the_whole(part):
    def work(neighbours, me):
        mixed = [neighbours.mix(t, state(me, t)) for t in range(4)]
        return mixed, dict(neighbours.scrutiny.heard)

    ended = together(work, part)
    for t in range(4):
        expected = {name: None for name in ("x", "weight")}
        for name in expected:
            total = state(0, t)[name] * WEIGHTS[0]
            for j in (1, 2):
                total.add_(state(j, t)[name], alpha=WEIGHTS[j])
            expected[name] = total
        for mixed, _ in ended:
            assert all(torch.equal(mixed[t][name], expected[name]) for name in expected)
    # Two receivers of one sender have the same hash of what it sent.
    assert ended[0][1][2] == ended[1][1][2]
    assert ended[0][1][1] != ended[0][1][2]


@pytest.mark.parametrize("part", [16, 1000])
def test_a_newcomer_can_look_at_all_parts_before_it_sends_its_own(part):
    def work(neighbours, me):
        if me == 2:
            hosts = neighbours.look_at("x", 0, (0, 1))
            return hosts, neighbours.mix(0, {**state(2, 0), "x": sum(hosts) / 2})
        return [], neighbours.mix(0, state(me, 0))

    ended = together(work, part, looked_at=lambda t: True)
    hosts, _ = ended[2]
    assert all(torch.equal(found, state(j, 0)["x"]) for j, found in enumerate(hosts))
    for _, mixed in ended:
        assert torch.equal(mixed["x"], ended[0][1]["x"])
