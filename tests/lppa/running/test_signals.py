from __future__ import annotations

import signal

import pytest

from lppa.running.signals import ENDINGS, postponed, uninterrupted


@pytest.fixture
def heeded():
    """All three endings interrupt, as in our commands, whatever the shell that runs the tests."""

    def interrupt(number, frame):
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, interrupt) for number in ENDINGS}
    yield interrupt
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDINGS)
def test_an_interruption_that_is_postponed_takes_effect_at_the_end(heeded, number):
    done = []
    with pytest.raises(KeyboardInterrupt) as caught, postponed():
        signal.raise_signal(number)
        done.append("all of it")
    assert done == ["all of it"]
    assert caught.value.args == (number,)
    assert all(signal.getsignal(n) is heeded for n in ENDINGS)


def test_an_interruption_is_not_lost_when_what_it_waited_for_fails(heeded):
    with pytest.raises(KeyboardInterrupt) as caught, postponed():
        signal.raise_signal(signal.SIGINT)
        raise OSError("no more processes")
    assert isinstance(caught.value.__context__, OSError)


def test_without_an_interruption_nothing_happens(heeded):
    with postponed():
        pass
    assert all(signal.getsignal(n) is heeded for n in ENDINGS)


def test_clearing_up_is_not_interrupted_at_all(heeded):
    with uninterrupted():
        for number in ENDINGS:
            signal.raise_signal(number)
    assert all(signal.getsignal(n) is heeded for n in ENDINGS)
