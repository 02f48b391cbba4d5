"""Hosts behind commands, as the run sees them: when one that is ending is given up."""

from __future__ import annotations

import math
from functools import partial

import pytest

from lppa.engines import piped
from lppa.engines.parcel import Parcel, placed_book
from lppa.engines.piped import SILENT, PipedHost
from lppa.protocol.patience import LONGEST_LOOK, Patience


class Clock:
    """One that goes on when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(piped, "Patience", partial(Patience, clock=clock))
    return clock


@pytest.fixture
def ending(clock, tmp_path):
    """A host that was asked to end."""
    book, keys = placed_book("run", 1, "tcp://10.0.0.1:0")
    host = PipedHost("there", ["true"], Parcel(book, {0: keys[0]}, 30.0), tmp_path, {})
    host.started = True
    host.ask_to_end(0.0)
    return host


def test_a_run_that_was_stopped_itself_does_not_give_up_a_host_that_is_ending(clock, ending):
    clock.now += 10 * SILENT
    assert not ending.is_silent()


def test_a_host_is_given_up_when_nothing_has_come_of_it_for_long(clock, ending):
    looks = math.ceil(SILENT / LONGEST_LOOK)
    for look in range(3 * looks):
        clock.now += LONGEST_LOOK
        if look < 2 * looks:
            # As the thread does that reads what it sends.
            ending.heard.set()
        silent = ending.is_silent()
        assert silent == (look >= 3 * looks - 1)
