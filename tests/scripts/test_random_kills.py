"""Processes killed at random moments: a few of the trials that `scripts/chaos.sh` makes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from script_modules import SCRIPTS, import_script


@pytest.mark.slow
@pytest.mark.parametrize("seeded", [True, False])
def test_kills_at_random_moments_change_no_result(tmp_path_factory, seeded):
    draw = import_script("chaos_kills").draw
    trials = (draw(number) for number in range(1000))
    number = next(trial.number for trial in trials if trial.seeded == seeded and trial.kills > 1)
    # A short name: the runs' sockets stand below it.
    folder = tmp_path_factory.mktemp("kills")
    results = folder / "kills.jsonl"
    where = ["--work", folder / "work", "--results", results]
    call = [sys.executable, SCRIPTS / "chaos.py", "kills", "--only", str(number), *where]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = map(json.loads, results.read_text().splitlines())
    assert (row["identical"], row["wrong"], row["temporary"]) == (True, [], []), row
    assert row["kills"], "nothing was killed"
