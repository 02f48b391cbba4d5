"""Over a connection that breaks, everything arrives once and in order, and little is kept."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lppa.protocol.delivery import (
    EVERY_BYTES,
    EVERY_MESSAGES,
    FIRST_WAIT,
    LONGEST_WAIT,
    Came,
    Sent,
)

WINDOW = 6  # messages that a sender may be ahead by before it waits for an answer


class Link(RuleBasedStateMachine):
    """Two ends and a connection that keeps the order, loses what is on its way when it breaks, and
    may still hand out, after what came by the next, what came by the last."""

    def __init__(self):
        super().__init__()
        self.sent, self.came = Sent(), Came()
        self.out, self.back = [], []
        self.used, self.made, self.now = [], 0, 0.0

    def put(self, items):
        self.out.extend(("message", *item) for item in items)

    @precondition(lambda self: len(self.sent.kept) < WINDOW)
    @rule(size=st.sampled_from([1, EVERY_BYTES // 3, EVERY_BYTES]))
    def send(self, size):
        item = (self.sent.next, self.made, size)
        self.sent.add(item, size, self.now)
        self.put([item])
        self.made += 1

    @precondition(lambda self: self.out)
    @rule()
    def deliver(self):
        kind, *given = self.out.pop(0)
        if kind == "ask":
            serial, first = given
            self.came.asked(first)
            self.back.append((self.came.told(), serial))
        else:
            number, item, size = given
            if self.came.expects(number):
                self.used.append(item)
                if self.came.take(size):
                    self.back.append((self.came.told(), 0))

    @precondition(lambda self: self.back)
    @rule()
    def answer(self):
        self.put(self.sent.answer(*self.back.pop(0), self.now))

    @rule(seconds=st.sampled_from([0.1, FIRST_WAIT, LONGEST_WAIT]))
    def wait(self, seconds):
        self.now += seconds
        if self.sent.kept and self.now >= self.sent.due:
            self.out.append(("ask", *self.sent.ask(self.now)))

    @rule(data=st.data())
    def cut(self, data):
        """What is on its way is lost, except for what is read from the old connection later on."""
        survived = data.draw(st.integers(0, len(self.out)))
        late = [message for message in self.out[:survived] if message[0] == "message"]
        self.out, self.back = [], self.back[: data.draw(st.integers(0, len(self.back)))]
        self.late = late

    @precondition(lambda self: getattr(self, "late", None))
    @rule()
    def deliver_late(self):
        self.out.insert(0, self.late.pop(0))
        self.deliver()

    @rule(upto=st.integers(0, 50), serial=st.integers(0, 50))
    def nonsense(self, upto, serial):
        """An answer that goes too far is not believed."""
        if upto > self.sent.next:
            assert self.sent.answer(upto, serial, self.now) == []

    @invariant()
    def everything_is_used_once_and_in_order(self):
        assert self.used == list(range(len(self.used)))

    @invariant()
    def little_is_kept(self):
        assert len(self.sent.kept) <= WINDOW
        assert self.sent.bytes == sum(size for _, size, _ in self.sent.kept)
        kept = [number for number, _, _ in self.sent.kept]
        assert kept == list(range(self.sent.first, self.sent.next))
        # What nobody keeps any more has come.
        assert self.sent.first <= self.came.next

    def teardown(self):
        """From now on nothing breaks: all that was sent arrives, and soon nothing is kept."""
        for _ in range(4 * WINDOW):
            while self.out or self.back:
                if self.out:
                    self.deliver()
                if self.back:
                    self.answer()
            self.wait(LONGEST_WAIT)
        assert self.used == list(range(self.made))
        assert not self.sent.kept


TestLink = Link.TestCase


def test_small_messages_are_answered_now_and_then_and_large_ones_each():
    small, large = Came(), Came()
    told = [number for number in range(100) if small.take(100) and small.told()]
    assert told == list(range(EVERY_MESSAGES - 1, 100, EVERY_MESSAGES))
    assert all(large.take(EVERY_BYTES) and large.told() for _ in range(10))


def test_a_message_that_was_given_up_does_not_hold_up_those_behind_it():
    sent, came = Sent(), Came()
    for item in range(5):
        sent.add(item, 1, 0.0)
    for _ in range(2):
        sent.forget_oldest()
    assert not came.expects(2)
    serial, first = sent.ask(1.0)
    came.asked(first)
    assert sent.answer(came.told(), serial, 1.0) == [2, 3, 4]
    assert came.expects(2)


def test_questions_become_rarer_while_nobody_answers_and_never_stop():
    sent, now, asked = Sent(), 0.0, []
    sent.add("x", 1, now)
    for _ in range(6):
        now = sent.due
        sent.ask(now)
        asked.append(now)
    gaps = [b - a for a, b in pairwise(asked)]
    assert gaps == [FIRST_WAIT, 2.0, 4.0, LONGEST_WAIT, LONGEST_WAIT]
