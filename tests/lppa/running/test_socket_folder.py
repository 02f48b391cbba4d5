"""The folder of a run's sockets, and those of runs that were killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from pathlib import Path

import pytest

from lppa.running.private import LOCK, PREFIX, private_folder, sweep


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def hold(there):
    """A run that is killed; runs in the child."""
    tempfile.tempdir = str(there)
    with private_folder() as folder:
        (folder / "0").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_it_is_gone_afterwards_and_nobody_else_reads_it(tmp_path):
    with private_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_run_goes_with_the_next_and_that_of_a_living_one_stays(tmp_path):
    with private_folder() as living:
        killed = multiprocessing.get_context("fork").Process(target=hold, args=(tmp_path,))
        killed.start()
        killed.join()
        (left,) = set(tmp_path.iterdir()) - {living}
        assert sorted(path.name for path in left.iterdir()) == ["0", LOCK]
        with private_folder() as folder:
            assert set(tmp_path.iterdir()) == {living, folder}


def test_folders_without_a_lock_are_somebody_elses(tmp_path):
    (tmp_path / f"{PREFIX}other").mkdir()
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{PREFIX}other"]
    assert not Path(tmp_path / f"{PREFIX}other" / LOCK).exists()
