"""Runs whose nodes are on hosts behind pipes: the same bits, the same files, nothing left behind."""

from __future__ import annotations

import pytest
from hosts import NODES, alone, go_on, placed
from script_modules import import_script


@pytest.fixture(scope="module")
def chaos():
    """What a run leaves, and how to compare it: from the script of the long trials."""
    return import_script("chaos_lab")


def files_of(run):
    """Everything that nodes have left in a run's directory."""
    found = [*run.glob("nodes/*/*"), *run.glob("attacks/*")]
    return sorted(path.relative_to(run).as_posix() for path in found)


def test_nodes_on_two_hosts_end_with_the_bits_and_the_files_of_a_local_run(chaos, tmp_path):
    settings = {"dataset": "digits", "model": "mlp", "batch": 8, "reveal_batches": True}
    assert alone(tmp_path / "alone", attackers=(1, 2), **settings).status == "completed"
    assert placed(tmp_path / "run", attackers=(1, 2), **settings).status == "completed"
    here, there = (chaos.results(tmp_path / name, NODES) for name in ("alone", "run"))
    assert len(here["logs"]) == 2
    assert chaos.differences(here, there) == []
    assert files_of(tmp_path / "run") == files_of(tmp_path / "alone")
    for path in (*tmp_path.glob("run/nodes/*/*"), *tmp_path.glob("run/attacks/*")):
        assert path.stat().st_mode & 0o077 == 0
