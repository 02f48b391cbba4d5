"""Who is away, the coordinator itself or a node, is found out and not mistaken for another."""

from __future__ import annotations

import socket
import time

import pytest
from watched import NODES, RUN, TOTALS

from lppa.protocol.codec import encode
from lppa.protocol.errors import RunFailed
from lppa.protocol.messages import (
    Done,
    Hello,
)
from lppa.protocol.patience import OwnTime
from lppa.protocol.settings import NOISE_EXCHANGES
from lppa.protocol.wire import Arrival


class Jumping:
    """A clock that jumps ahead when it is told to."""

    def __init__(self):
        self.ahead = 0.0

    def __call__(self):
        return time.monotonic() + self.ahead


def test_a_coordinator_that_was_away_reads_what_came_before_it_judges(world_of):
    world = world_of(timeout=2.0)
    clock = Jumping()
    world.watch.clock = OwnTime(1.0, clock)
    world.report(5)
    turns = []

    def progress(rounds, alive):
        turns.append(rounds)
        if len(turns) == 5:
            # Away for an hour; what the nodes said meanwhile comes a moment later.
            clock.ahead = 3600.0
        elif len(turns) == 10:
            world.finish()

    world.follow(progress)
    assert [row["round"] for row in world.rows] == [5]
    assert world.watch.clock.held_up > 3600.0


def test_a_coordinator_that_was_away_for_too_long_says_so_of_nodes_that_left_meanwhile(world_of):
    world = world_of(timeout=20.0)
    clock = Jumping()
    world.watch.clock = OwnTime(1.0, clock)
    world.all_are_here()
    turns = []

    def progress(rounds, alive):
        turns.append(rounds)
        if len(turns) == 5:
            assert set(world.watch.reached) == set(range(NODES))
            clock.ahead = 3600.0
            world.wires[1].close(0)

    with pytest.raises(RunFailed, match=r"node 0 is gone.*itself was stopped for 3600 s") as failed:
        world.follow(progress)
    assert failed.value.node == 0


def test_a_node_that_leaves_before_anything_was_sent_to_it_is_named(world_of):
    world = world_of()
    world.all_are_here()
    world.leave(0)
    world.watch.begin(0)
    with pytest.raises(RunFailed, match="node 0 is gone: its connection has ended") as failed:
        world.follow()
    assert failed.value.node == 0


def test_a_node_that_comes_back_and_leaves_before_it_is_answered_is_given_up_again(world_of):
    world = world_of(on_failure="continue")
    world.roster.may_return = True
    world.all_are_here()
    world.watch.begin(0)
    world.leave(0)
    turns = []

    def progress(rounds, alive):
        if len(turns) < len(world.warned):
            turns.append(alive)
            if len(turns) == 1:
                # It is gone again when its greeting is read.
                again = Hello("again", socket.gethostname(), 0, NOISE_EXCHANGES)
                world.roster.open(Arrival(b"nobody", encode(again, RUN, 0), None, -1))
                world.watch._take(0, again)
            else:
                for node in (1, 2):
                    world.send(node, Done(10, TOTALS))

    world.follow(progress)
    assert [text.split(" (")[0] for text in world.warned] == [
        "node 0 is gone: its connection has ended"
    ] * 2
    assert world.watch.membership.members == {1, 2}
