"""Mailbox and links against a plain account of what should be in them, in any order of events."""

from __future__ import annotations

import math
import queue

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lppa.protocol.codec import Envelope
from lppa.protocol.errors import RunFailed
from lppa.protocol.links import LocalLinks, Neighbourhood
from lppa.protocol.mailbox import Mailbox, date_of
from lppa.protocol.messages import Noise, State

KINDS = {"state": State, "noise": Noise}
SENDERS = st.integers(0, 2)


def message_of(kind, epoch, round, part=0, values=(0.0, 0.0)):
    array = np.array(values, np.float32)
    if kind == "noise":
        return Noise(epoch, round, array, part)
    return State(epoch, round, {"theta": array}, part)


class Mail(RuleBasedStateMachine):
    """A mailbox that holds some messages back for ever, and others not at all."""

    def __init__(self):
        super().__init__()
        self.held = False
        self.mailbox = Mailbox(lambda: 3600.0 if self.held else 0.0)
        self.waiting = {}
        self.stuck = set()
        self.last = {}

    @rule(
        sender=SENDERS,
        kind=st.sampled_from(sorted(KINDS)),
        epoch=st.integers(0, 1),
        round=st.integers(0, 4),
        part=st.integers(0, 1),
        held=st.booleans(),
    )
    def comes(self, sender, kind, epoch, round, part, held):
        message = message_of(kind, epoch, round, part)
        key = (KINDS[kind], date_of(message), sender)
        had = key in self.waiting or date_of(message) <= self.last.get((KINDS[kind], sender), ())
        assert self.mailbox.has_had(sender, message) == had
        if had:
            return
        self.held = held
        self.mailbox.put(sender, message)
        self.waiting[key] = message
        if held:
            self.stuck.add(key)

    @rule(
        sender=SENDERS,
        kind=st.sampled_from(sorted(KINDS)),
        epoch=st.integers(0, 1),
        round=st.integers(0, 4),
        part=st.integers(0, 1),
    )
    def is_asked_for(self, sender, kind, epoch, round, part):
        key = (KINDS[kind], (epoch, round, part), sender)
        assert self.mailbox.count_lacking(*key[:2], [sender]) == (key not in self.waiting)
        expected = None if key in self.stuck else self.waiting.pop(key, None)
        found = self.mailbox.take_all(*key[:2], [sender])
        assert found.get(sender) is expected
        if expected is not None:
            self.last[KINDS[kind], sender] = key[1]

    @precondition(lambda self: set(self.waiting) - self.stuck)
    @rule(data=st.data())
    def what_is_there_is_asked_for_and_then_comes_again(self, data):
        there = sorted(set(self.waiting) - self.stuck, key=str)
        kind, (epoch, round, part), sender = data.draw(st.sampled_from(there))
        name = next(name for name in KINDS if KINDS[name] is kind)
        self.is_asked_for(sender, name, epoch, round, part)
        self.comes(sender, name, epoch, round, part, held=False)
        assert (kind, (epoch, round, part), sender) not in self.waiting

    @invariant()
    def all_that_waits_is_counted(self):
        assert len(self.mailbox) == len(self.waiting)

    @invariant()
    def only_what_is_held_back_is_due_later(self):
        due = self.mailbox.next_due()
        assert (due is None or due >= 0) and (not self.stuck or due is not None)


ME, NODES, SIZE, LAST = 0, 4, 3, 1000
INPUTS = (1, 2)
ROUND = st.integers(-2, NODES + 2)  # from the one that a node is in


class Course(RuleBasedStateMachine):
    """A node's links: neighbours send what they should, early, late, twice, or something else."""

    def __init__(self):
        super().__init__()
        self.queues = [queue.SimpleQueue() for _ in range(NODES)]
        around = Neighbourhood(
            ME,
            NODES,
            INPUTS,
            INPUTS,
            "float32",
            SIZE,
            timeout=1e-3,
            epoch=1,
            vectors=lambda t: {"theta": SIZE} if t < LAST else {},
            noise=lambda t: Noise if t % 2 == 0 else None,
        )
        self.links = LocalLinks(around, self.queues)
        self.round = 0
        self.kept = {}
        self.used = set()
        self.number = 0.0

    def fresh(self, size=SIZE):
        """Values that no other message has."""
        self.number += 1
        return (self.number,) * size

    def say(self, sender, message, good):
        before = sum(self.links.dropped.values())
        assert self.links.accept(Envelope(sender, message), None) == good
        assert sum(self.links.dropped.values()) == before + (not good)

    @rule(sender=st.sampled_from(INPUTS), kind=st.sampled_from(sorted(KINDS)), ahead=ROUND)
    def a_neighbour_sends(self, sender, kind, ahead):
        t = self.round + ahead
        message, key = message_of(kind, 1, t, values=self.fresh()), (kind, t, sender)
        timely = 0 <= ahead <= NODES
        # Rounds are asked for in their order: what is older than the last that was used is late.
        later = not any(k == kind and s == sender and u >= t for k, u, s in self.used)
        good = timely and later and key not in self.kept and (kind == "state" or t % 2 == 0)
        self.say(sender, message, good)
        if good:
            self.kept[key] = message

    @rule(
        sender=st.sampled_from(INPUTS),
        kind=st.sampled_from(sorted(KINDS)),
        bad=st.sampled_from([math.nan, math.inf, -math.inf]),
        place=st.integers(0, SIZE - 1),
    )
    def a_neighbour_sends_what_is_no_number(self, sender, kind, bad, place):
        values = list(self.fresh())
        values[place] = bad
        self.say(sender, message_of(kind, 1, self.round, values=values), False)

    @rule(
        sender=st.sampled_from(INPUTS),
        kind=st.sampled_from(sorted(KINDS)),
        size=st.sampled_from([0, 1, SIZE - 1, SIZE + 1, 100]),
    )
    def a_neighbour_sends_what_does_not_fit(self, sender, kind, size):
        self.say(sender, message_of(kind, 1, self.round, values=self.fresh(size)), False)

    @rule(sender=st.sampled_from([-1, 0, 3, 4]), kind=st.sampled_from(sorted(KINDS)))
    def somebody_else_speaks(self, sender, kind):
        self.say(sender, message_of(kind, 1, self.round, values=self.fresh()), False)

    @rule(sender=st.sampled_from(INPUTS), epoch=st.sampled_from([0, 2]))
    def a_neighbour_is_in_another_view(self, sender, epoch):
        self.say(sender, message_of("state", epoch, self.round, values=self.fresh()), False)

    @rule(sender=st.sampled_from(INPUTS), part=st.integers(1, 5))
    def a_neighbour_sends_a_part_that_there_is_not(self, sender, part):
        self.say(sender, message_of("state", 1, self.round, part, self.fresh()), False)

    @rule(sender=st.sampled_from(INPUTS), kind=st.sampled_from(sorted(KINDS)))
    def a_message_is_waited_for(self, sender, kind):
        key = (kind, self.round, sender)
        expected = self.kept.pop(key, None)
        if expected is None:
            with pytest.raises(RunFailed) as failed:
                self.links.receive(KINDS[kind], self.round, sender)
            assert (failed.value.node, failed.value.round) == (sender, self.round)
        else:
            assert self.links.receive(KINDS[kind], self.round, sender) is expected
            self.used.add(key)

    @precondition(lambda self: all(("state", self.round, j) in self.used for j in INPUTS))
    @rule()
    def the_next_round_begins(self):
        self.round += 1
        self.links.round = self.round

    @invariant()
    def no_more_is_kept_than_the_window_allows(self):
        assert len(self.links.mailbox) == len(self.kept) <= 2 * len(INPUTS) * (NODES + 2)


TestMail, TestCourse = Mail.TestCase, Course.TestCase
TestMail.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCourse.settings = settings(max_examples=50, stateful_step_count=60, deadline=None)
