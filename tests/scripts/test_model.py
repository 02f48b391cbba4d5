"""The model of view changes holds for up to four nodes, and each known mistake in it is found."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_model.sh"
AS_IT_SHOULD_BE = "check_model: all as it should be"


def check(part, **environment):
    return subprocess.run(
        [SCRIPT, part], capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.mark.slow
@pytest.mark.skipif(
    not (os.environ.get("SPIN") or shutil.which("spin")) or not shutil.which("cc"),
    reason="spin or a C compiler is not installed",
)
@pytest.mark.parametrize("part", ["small", "mutants"])
def test_the_model_holds_and_its_mutants_do_not(part):
    done = check(part)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == AS_IT_SHOULD_BE


def test_without_spin_it_says_that_nothing_was_checked(tmp_path):
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = check("small", PATH=str(tmp_path), SPIN="")
    assert done.returncode == 0
    assert "was not checked" in done.stdout
    assert AS_IT_SHOULD_BE not in done.stdout


def test_a_part_that_there_is_not_is_told():
    done = check("nonsense", SPIN="/bin/true")
    assert done.returncode == 2
    assert "Usage" in done.stdout
