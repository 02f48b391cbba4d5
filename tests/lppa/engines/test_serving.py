"""A host at the end of a pipe: when it is over for it."""

from __future__ import annotations

import io
import math
import os
from functools import partial

import pytest

from lppa.engines import serving
from lppa.engines.frames import GREETING, End, Here, to_bytes, write_frame
from lppa.engines.serving import NEWS_EVERY, SILENCE, Orders, serve
from lppa.protocol.errors import WrongUse
from lppa.protocol.patience import LONGEST_LOOK, Patience


@pytest.fixture
def pipe():
    """Both ends of one."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as orders, os.fdopen(write, "wb") as told:
        yield orders, told
        told.close()


def test_a_host_is_told_how_long_its_nodes_may_take_to_end(pipe):
    orders, told = pipe
    heard = Orders(orders)
    write_frame(told, to_bytes(Here()))
    assert not heard.wait(0)
    write_frame(told, to_bytes(End(2.5)))
    assert heard.wait(60)
    assert heard.patience == 2.5


@pytest.mark.parametrize("last", [b"", b"\0\0", b"\0\0\0\x03abc", b"\xff\xff\xff\xff"])
def test_it_is_over_at_once_when_nobody_is_there_or_nonsense_comes(pipe, last):
    orders, told = pipe
    heard = Orders(orders)
    told.write(last)
    told.close()
    assert heard.wait(60)
    assert heard.patience == 0.0


def test_it_is_over_when_nobody_has_been_heard_of_for_long(pipe, monkeypatch):
    monkeypatch.setattr(serving, "SILENCE", -1.0)
    heard = Orders(pipe[0])
    assert heard.wait(0)
    assert heard.patience == 0.0


class Clock:
    """One that goes on when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(serving, "Patience", partial(Patience, clock=lambda: self.now))


def test_a_host_that_got_no_processor_for_long_has_waited_for_one_look_only(pipe, monkeypatch):
    clock = Clock(monkeypatch)
    heard = Orders(pipe[0])
    clock.now += 2 * SILENCE
    assert not heard.wait(0)
    for _ in range(math.ceil(SILENCE / NEWS_EVERY)):
        clock.now += NEWS_EVERY
        over = heard.wait(0)
    assert over, "nor does it wait for ever"


def test_a_word_gives_a_host_all_of_its_patience_back(pipe, monkeypatch):
    orders, told = pipe
    clock = Clock(monkeypatch)
    heard = Orders(orders)
    for _ in range(math.ceil(3 * SILENCE / LONGEST_LOOK)):
        clock.now += LONGEST_LOOK
        write_frame(told, to_bytes(Here()))
        assert heard.heard.wait(60)
        assert not heard.wait(0)


@pytest.mark.parametrize("given", [b"", b"\0\0\0\x05hello", b"a person types"])
def test_what_is_no_parcel_is_refused_in_a_sentence(given):
    news = io.BytesIO()
    with pytest.raises(WrongUse, match="parcel"):
        serve(io.BytesIO(given), news)
    assert news.getvalue() == GREETING
