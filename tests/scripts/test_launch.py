"""The launching scripts: thin shells that become `lppa run`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def launch(tmp_path):
    """Calls a script of a copy of ours that is set up, with an lppa that says what it is told."""
    (tmp_path / "scripts").mkdir()
    for name in ("setup.sh", "launch_local.sh", "launch_slurm.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    files = [tmp_path / name for name in ("setup.cfg", "constraints.txt", "pyproject.toml")]
    for file in files:
        file.write_text("")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "lppa"):
        (programs / name).write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
        (programs / name).chmod(0o755)
    stamp = subprocess.run(["cksum"], input=b"", capture_output=True, check=True).stdout
    (tmp_path / ".venv" / "installed").write_bytes(stamp)

    def call(script, *options):
        command = ["bash", tmp_path / "scripts" / script, *options]
        return subprocess.run(command, capture_output=True, text=True)

    return call


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_a_script_becomes_the_command_with_all_that_it_was_told(launch, engine):
    ended = launch(f"launch_{engine}.sh", "8", "--slurm-options", "--time=1 --mem=2G")
    told = ["run", "--engine", engine, "-n", "8", "--slurm-options", "--time=1 --mem=2G"]
    assert (ended.returncode, ended.stdout.splitlines()) == (0, told)


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_a_script_says_how_it_is_called(launch, engine):
    assert f"usage: scripts/launch_{engine}.sh N" in launch(f"launch_{engine}.sh", "-h").stdout
    assert launch(f"launch_{engine}.sh").returncode == 2
    ended = launch(f"launch_{engine}.sh", "many")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
