"""Who looks at code and data before a run: errors are told as they would be here, and it ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lppa
from lppa.api import own_code, scouted
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import make_settings
from lppa.running.facts import look


@pytest.fixture(scope="module", autouse=True)
def one_fork_server():
    """Started once, and stopped when all have had it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lppa.api.stop_fork_server", lambda: None)
        yield
    with scouted(None):
        pass


@pytest.fixture
def asked(tmp_path):
    """Asks a scout about a file of somebody's; gives what it answers."""

    def ask(text, question=lambda scout: scout.names(), name="problem"):
        script = tmp_path / "mine.py"
        script.write_text(text)
        with scouted(own_code(f"{script}:{name}", "lppa")) as scout:
            return question(scout)

    return ask


PROBLEM = """
import lppa, torch
def problem():
    x, y = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 1, 0])
    return lppa.Problem({module}, (x, y), (x, y), name="mine")
"""
BROKEN = """
class Net(torch.nn.Linear):
    def forward(self, x):
        return x @ "nothing"
"""


def test_what_it_finds_is_what_would_be_found_here(asked):
    text = PROBLEM.format(module="lambda: torch.nn.Linear(3, 2)")
    settings = make_settings({"dataset": "own/mine", "model": "own", "batch": 2})

    def question(scout):
        return scout.names(), scout.look(settings, 2, 1)

    names, facts = asked(text, question)
    assert names == {"dataset": "own/mine", "model": "own"}
    space: dict = {}
    exec(text, space)
    assert facts == look(settings, 2, 1, space["problem"]())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\ny = 1 / 0\n", r"mine\.py, line 2, in <module>: ZeroDivisionError"),
        ("def (:\n", r"mine\.py, line 1: SyntaxError"),
        ("def problem():\n    return [][1]\n", r"cannot be made: .*mine\.py, line 2, in problem"),
        ("def problem():\n    return 7\n", "must be an lppa.Problem, not a int"),
        ("other = 1\n", "there is no problem in"),
        ("import sys\nsys.exit('enough')\n", r"leaves by sys\.exit\('enough'\)"),
        ("import os\nos._exit(7)\n", "before the run ended with exit code 7"),
    ],
)
def test_errors_in_somebodys_code_are_told_as_theirs(asked, text, reason):
    with pytest.raises(WrongUse, match=reason):
        asked(text)


def test_a_network_that_fails_is_told_with_its_line_and_with_where_that_was(asked):
    settings = make_settings({"dataset": "own/mine", "model": "own", "batch": 2})
    text = PROBLEM.format(module="lambda: Net(3, 2)") + BROKEN
    with pytest.raises(WrongUse, match=r"before anything starts: .*mine\.py, line 9") as caught:
        asked(text, lambda scout: scout.look(settings, 2, 1))
    assert "in forward" in str(caught.value.__cause__), "what -v shows"


def test_nothing_is_left_of_it(tmp_path):
    x, y = torch.zeros(4, 3), torch.zeros(4, dtype=int)
    problem = lppa.Problem(torch.nn.Linear(3, 2), (x, y), (x, y))
    with scouted(own_code(problem, "lppa")) as scout:
        scout.names()
        (process,) = scout.processes
        pid = process.pid
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()


LAUNCHER = """
import re, sys
from pathlib import Path
import lppa
lppa.run({given}, nodes=2, rounds=1, out=sys.argv[1], timeout=300)
assert "torch" not in sys.modules, "somebody loads PyTorch here"
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("given", ["dataset='digits'", "sys.argv[2], batch=2"])
def test_the_launching_process_loads_no_pytorch_and_stays_small(tmp_path, given):
    script = tmp_path / "mine.py"
    script.write_text(PROBLEM.format(module="lambda: torch.nn.Linear(3, 2)"))
    # Nothing is prepared: whoever does that needs memory for it.
    told = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", LAUNCHER.format(given=given), tmp_path / "run"]
    ended = subprocess.run(
        [*command, f"{script}:problem"], capture_output=True, text=True, env=told
    )
    assert re.fullmatch(r"\d+\n", ended.stdout), ended.stderr
    assert int(ended.stdout) * 1024 < 120e6
