"""What an attacker keeps, when a run that was broken off goes on."""

from __future__ import annotations

import stat
import struct

import numpy as np
import pytest

from lppa.node.log import LogWriter, keep_before, read_log
from lppa.protocol.errors import WrongUse
from lppa.protocol.messages import State
from lppa.protocol.settings import make_settings
from lppa.running.prepare import make_blueprint


@pytest.fixture
def log(tmp_path):
    """Of a plan, and three rounds with one message each."""
    from lppa.coordinator.views import first_view

    blueprint = make_blueprint(make_settings({"dataset": "quadratic", "beta": 0.1}), 2, "run")
    path = tmp_path / "attacks" / "node-0.log"
    writer = LogWriter(path, "run", 0, blueprint.plan(0, first_view(blueprint)))
    for round in range(3):
        writer("in", 1, State(0, round, {"theta": np.full(3, round, np.float32)}))
    writer.close()
    return path


def rounds(path):
    return [getattr(entry.message, "round", None) for entry in read_log(path)]


def test_a_log_that_goes_on_is_still_for_its_owner_alone(log):
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    keep_before(log, 2)
    assert rounds(log) == [None, 0, 1]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert [path.name for path in log.parent.iterdir()] == [log.name]


def test_of_a_log_that_ends_in_the_middle_of_a_record_the_whole_ones_are_kept(log):
    log.write_bytes(log.read_bytes()[:-1])
    keep_before(log, 3)
    assert rounds(log) == [None, 0, 1]


def test_a_log_that_is_damaged_is_told_with_what_to_do_and_left_as_it_is(log):
    damaged = log.read_bytes() + struct.pack("<I", 0)
    log.write_bytes(damaged)
    with pytest.raises(WrongUse, match=r"is damaged before byte .* delete it"):
        keep_before(log, 2)
    assert log.read_bytes() == damaged
    assert [path.name for path in log.parent.iterdir()] == [log.name]
