"""Trouble comes when it was asked for."""

from __future__ import annotations

import pytest

from lppa.protocol.errors import WrongUse
from lppa.running.chaos import parse_chaos, trouble_of


def test_a_round_that_is_skipped_does_not_save_a_node():
    at_round = trouble_of(parse_chaos("exit:1@7", 3), 1)
    at_round(6)
    with pytest.raises(SystemExit):
        at_round(9)


def test_a_node_that_goes_on_from_a_later_round_is_left_alone():
    at_round = trouble_of(parse_chaos("exit:1@7", 3), 1)
    at_round(8)
    at_round(9)


def test_trouble_that_would_never_come_is_refused():
    assert parse_chaos("kill:1@7", 3, rounds=7)
    with pytest.raises(WrongUse, match="a run of 6 rounds has no round 7"):
        parse_chaos("kill:1@7", 3, rounds=6)
