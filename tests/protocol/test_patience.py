"""Patience: how long somebody was waited for, by a clock that can jump."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lppa.protocol.patience import LONGEST_LOOK, OwnTime, Patience


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_waiting_that_is_looked_at_counts_in_full() -> None:
    clock = Clock()
    patience = Patience(3.0, clock)
    for _ in range(12):
        clock.now += 0.25
        left = patience.look()
    assert left == 0.0


def test_who_was_away_itself_has_waited_for_one_look_only() -> None:
    clock = Clock()
    patience = Patience(30.0, clock)
    clock.now += 3600.0
    assert patience.look() == 30.0 - LONGEST_LOOK


def test_somebody_who_was_heard_gives_all_of_it_back() -> None:
    clock = Clock()
    patience = Patience(3.0, clock)
    clock.now += 1.5
    patience.look()
    patience.renew()
    assert patience.look() == 3.0


@given(st.lists(st.floats(0, 100), max_size=50))
def test_it_is_never_used_up_faster_than_time_passes(steps: list[float]) -> None:
    clock = Clock()
    patience = Patience(10.0, clock)
    for step in steps:
        clock.now += step
        patience.look()
    assert patience.waited <= sum(steps) + 1e-9


def test_what_went_by_before_a_pause_does_not_count() -> None:
    clock = Clock()
    patience = Patience(3.0, clock)
    for _ in range(20):
        clock.now += 1.0
        patience.pause()
        clock.now += 0.1
        left = patience.look()
    assert abs(left - 1.0) < 1e-9


def test_own_time_stands_still_while_a_process_does_and_tells_for_how_long() -> None:
    clock = Clock()
    own = OwnTime(1.0, clock)
    began = own()
    clock.now += 0.5
    assert own() - began == 0.5
    assert own.missed == 0.0
    clock.now += 30.0
    assert own() - began == 1.5
    assert (own.missed, own.held_up) == (29.0, 30.0)
