"""What tests with processes of their own share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import slurm_here
from processes import PATIENCE, Started


@pytest.fixture
def started(tmp_path):
    """Starts commands, and leaves none behind."""
    with Started(tmp_path) as started:
        yield started


@pytest.fixture
def peers(started):
    """An address book of two nodes."""
    return started.peers(2)


@pytest.fixture(scope="module")
def slurm():
    """A Slurm for these tests alone: it and all of its jobs go with this process, if not sooner."""
    script = [sys.executable, slurm_here.__file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(script, text=True, **pipes) as process:
        said = process.stdout.readline().strip()
        if not said:
            reason = process.stderr.read().strip()
            assert process.wait() == slurm_here.CANNOT, reason
            pytest.skip(reason)
        name, _, configuration = said.partition("=")
        os.environ[name] = configuration
        try:
            yield
        finally:
            del os.environ[name]
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
            assert not Path(configuration).parent.exists()
