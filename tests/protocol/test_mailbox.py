"""A message waits until it is asked for, and is handed out once."""

from __future__ import annotations

import threading
import time

import numpy as np

from lppa.protocol.mailbox import Mailbox
from lppa.protocol.messages import Noise, State

VECTOR = np.ones(3, np.float32)


def state(round, epoch=0):
    return State(epoch, round, {"theta": VECTOR})


def take(mailbox, kind, epoch, round, sender):
    """The message of one sender, None if it is not there."""
    return mailbox.take_all(kind, (epoch, round, 0), [sender]).get(sender)


def test_a_message_is_found_by_kind_epoch_round_and_sender_and_by_nothing_else():
    mailbox, message = Mailbox(), state(4)
    mailbox.put(2, message)
    for other in [(Noise, 0, 4, 2), (State, 1, 4, 2), (State, 0, 3, 2), (State, 0, 4, 1)]:
        assert take(mailbox, *other) is None
    assert take(mailbox, State, 0, 4, 2) is message


def test_a_round_that_is_done_again_in_a_later_epoch_is_another_one():
    mailbox = Mailbox()
    mailbox.put(2, state(4))
    take(mailbox, State, 0, 4, 2)
    assert not mailbox.has_had(2, state(3, epoch=1))
    again = state(3, epoch=1)
    mailbox.put(2, again)
    assert take(mailbox, State, 1, 3, 2) is again
    # What is older than that does not come back.
    assert mailbox.has_had(2, state(9))


def test_a_message_is_handed_out_once():
    mailbox = Mailbox()
    mailbox.put(2, state(4))
    assert mailbox.has_had(2, state(4))
    assert len(mailbox) == 1
    take(mailbox, State, 0, 4, 2)
    assert take(mailbox, State, 0, 4, 2) is None
    assert mailbox.has_had(2, state(4))
    assert not mailbox.has_had(2, state(5))
    assert len(mailbox) == 0


def test_messages_that_come_early_wait_in_any_order():
    mailbox, order = Mailbox(), [(2, 1), (0, 2), (1, 1), (0, 1), (2, 2), (1, 2)]
    messages = {key: state(key[0]) for key in order}
    for round, sender in order:
        mailbox.put(sender, messages[round, sender])
    for round, sender in sorted(order):
        assert take(mailbox, State, 0, round, sender) is messages[round, sender]
    assert len(mailbox) == 0


def test_those_of_several_senders_are_handed_out_together_and_the_lacking_counted():
    mailbox, when = Mailbox(), (0, 4, 0)
    for sender in (3, 1):
        mailbox.put(sender, state(4))
    assert mailbox.count_lacking(State, when, [1, 2, 3, 5]) == 2
    assert list(mailbox.take_all(State, when, [1, 2, 3])) == [1, 3]
    assert mailbox.take_all(State, when, [1, 2, 3]) == {}


def test_without_a_delay_nothing_is_due_later():
    mailbox = Mailbox()
    mailbox.put(0, state(0))
    assert mailbox.next_due() is None


def test_a_message_that_is_held_back_counts_as_there_but_cannot_be_taken_yet():
    mailbox, before = Mailbox(delay=lambda: 3600.0), time.monotonic()
    mailbox.put(1, state(0))
    assert mailbox.has_had(1, state(0))
    assert len(mailbox) == 1
    assert take(mailbox, State, 0, 0, 1) is None
    assert mailbox.count_lacking(State, (0, 0, 0), [1, 2]) == 1
    due = mailbox.next_due()
    passed = time.monotonic() - before
    assert 3600 - passed - 1e-6 <= due <= 3600 + 1e-6


def test_a_message_that_was_held_back_comes_out_when_it_is_due_the_shorter_delay_first():
    delays = iter([3600.0, 0.05])
    mailbox = Mailbox(delay=lambda: next(delays))
    mailbox.put(1, state(0))
    mailbox.put(1, state(1))
    deadline = time.monotonic() + 20
    while (message := take(mailbox, State, 0, 1, 1)) is None and time.monotonic() < deadline:
        threading.Event().wait(mailbox.next_due())
    assert message.round == 1
    assert take(mailbox, State, 0, 0, 1) is None


def test_messages_due_at_the_same_moment_do_not_get_in_each_others_way():
    mailbox = Mailbox(delay=lambda: 0.0)
    for sender in range(5):
        mailbox.put(sender, state(0))
    assert all(take(mailbox, State, 0, 0, sender) is not None for sender in range(5))
