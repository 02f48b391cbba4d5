"""How much memory the process takes that launches a run: it lives as long as the run does.

Part of `lppa bench`. The nodes' own memory is in the measure of growth.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from lppa.protocol.errors import RunFailed
from lppa.running.private import private_folder

# Its own peak: what a waiting parent is told counts the processes that it has waited for, too.
PEAK = """
import re, sys
from pathlib import Path
def peak():
    status = Path("/proc/self/status").read_text()
    print(int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) * 1024)
"""
RUN = """
import atexit
from lppa.cli import main
atexit.register(peak)
main(["run", *sys.argv[1:]], prog_name="lppa")
"""
OWN_PROBLEM = """
import lppa, torch
def problem():
    x, y = torch.rand(2000, 64), torch.randint(0, 10, (2000,))
    return lppa.Problem(lambda: torch.nn.Linear(64, 10), (x, y), (x, y), name="mine")
"""


def launcher() -> dict[str, Any]:
    """The most memory that `lppa run` itself takes ÷ that of a process that imports PyTorch."""
    with private_folder() as folder:
        (folder / "mine.py").write_text(OWN_PROBLEM)
        runs = {
            "digits": ("--dataset", "digits"),
            "own": ("--problem", f"{folder / 'mine.py'}:problem"),
        }
        small = ("-q", "-n", "3", "--rounds", "2")
        peaks = {
            name: peak_of(RUN, *small, "--out", str(folder / name), *given)
            for name, given in runs.items()
        }
    alone = peak_of("import torch\npeak()\n")
    return {
        "goal": "at most 120 MB",
        "ratio": max(peaks.values()) / alone,
        **{f"{name}_mb": peak / 1e6 for name, peak in peaks.items()},
        "torch_mb": alone / 1e6,
    }


def peak_of(code: str, *arguments: str | Path) -> int:
    """The most bytes that a process had in memory which ran some code, and says so itself."""
    command = [sys.executable, "-c", PEAK + code, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise RunFailed(f"a process that was to be measured failed: {ended.stderr.strip()}")
    return int(ended.stdout.split()[-1])
