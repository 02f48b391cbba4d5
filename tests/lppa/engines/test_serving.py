"""A host at the end of a pipe: when it is over for it."""

from __future__ import annotations

import io
import os

import pytest

from lppa.engines import serving
from lppa.engines.frames import GREETING, End, Here, to_bytes, write_frame
from lppa.engines.serving import Orders, serve
from lppa.protocol.errors import WrongUse


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


@pytest.mark.parametrize("given", [b"", b"\0\0\0\x05hello", b"a person types"])
def test_what_is_no_parcel_is_refused_in_a_sentence(given):
    news = io.BytesIO()
    with pytest.raises(WrongUse, match="parcel"):
        serve(io.BytesIO(given), news)
    assert news.getvalue() == GREETING
