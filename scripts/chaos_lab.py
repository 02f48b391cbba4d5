"""A place to break runs in: processes that can all be seen, and what a run leaves behind.

Commands are forked from one server that has PyTorch in memory, their nodes too: none can hide. What
is done to them is in the modules of the trials."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from lppa.running.launch import warm_up

PATIENCE = 240.0  # seconds for what is sure to come
TIMEOUT = 20  # seconds: --timeout of all runs
TIMES = ("seconds", "bytes", "memory")


# --- processes ----------------------------------------------------------------------------------


class Lab:
    """Starts `lppa` commands by forking from one server that has PyTorch in memory.

    All processes of all runs are children of that server, so that none can hide.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self.temporary = work / "t"
        self.temporary.mkdir(parents=True, exist_ok=True)
        warm_up()
        self.server = forkserver._forkserver
        self.started = 0

    def start(self, *argv: Any, program: str = "lppa") -> Command:
        """One command, in a session of its own."""
        self.started += 1
        said = self.work / f"said-{self.started % 50}"
        given = (
            program,
            [str(part) for part in argv],
            said,
            self.temporary,
            self.server._forkserver_address,
        )
        process = multiprocessing.get_context("forkserver").Process(target=_command, args=given)
        process.start()
        return Command(self, process, said)

    def processes(self) -> set[int]:
        """All that live now: commands and nodes."""
        return children(self.server._forkserver_pid)

    def nodes(self, command: Command) -> list[int]:
        """All but the command itself, oldest first."""
        return sorted(self.processes() - {command.pid})

    def end_all(self) -> None:
        """Kills what is left."""
        for pid in self.processes():
            kill(pid)
        eventually(lambda: not self.processes())
        for left in self.temporary.iterdir():
            shutil.rmtree(left, ignore_errors=True)


@dataclass
class Command:
    """A command that was started; what it says goes to a file."""

    lab: Lab
    process: Any
    said: Path

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    @property
    def ended(self) -> bool:
        return self.process.exitcode is not None

    def end(self, seconds: float = PATIENCE) -> tuple[int, str]:
        """Its exit code, and all that it said."""
        eventually(lambda: self.ended, seconds)
        return int(self.process.exitcode), self.said.read_text(errors="replace")


def _command(program: str, argv: list[str], said: Path, temporary: Path, server: str) -> None:
    """The life of a command; runs in the child."""
    os.setsid()
    tempfile.tempdir = str(temporary)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # Its nodes are forked from the same server, which need not be started and is not stopped.
    ours = forkserver._forkserver
    ours._forkserver_address = server
    ours.ensure_running = forkserver.ensure_running = lambda: None
    ours._stop = lambda: None
    (entry,) = metadata.entry_points(group="console_scripts", name=program)
    entry.load()(argv, prog_name=program)


def children(parent: int) -> set[int]:
    """The living children of a process; not those that are dead and not buried yet."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, above = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(above) == parent and state not in "ZX":
                found.add(int(process.name))
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def eventually(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What the condition says once that is true."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not come true within {seconds:g} s")
        time.sleep(0.02)
    return result


@contextlib.contextmanager
def laboratory(work: Path) -> Iterator[Lab]:
    """A lab that leaves no process behind."""
    # Told to end, it ends what it has started first.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    lab = Lab(work)
    try:
        yield lab
    finally:
        lab.end_all()


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def since(began: float) -> float:
    return round(time.monotonic() - began, 1)


# --- what a run leaves --------------------------------------------------------------------------


def read_lines(path: Path) -> list[Any]:
    """The lines of a JSON-lines file; one that is torn counts as a line of its own kind."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            found.append(f"torn: {line[:40]}")
    return found


def read_summary(run: Path) -> dict[str, Any]:
    """summary.json."""
    return dict(json.loads((run / "summary.json").read_text()))


def without_times(line: Any) -> Any:
    """A line without what differs from run to run."""
    if not isinstance(line, dict):
        return line
    return {name: value for name, value in line.items() if name not in TIMES}


def log_entries(path: Path) -> list[str]:
    """What a log has, in an order that does not depend on who was quicker."""
    from lppa.node.log import read_log
    from lppa.protocol.codec import encode

    streams: dict[tuple[str, int], list[str]] = {}
    for entry in read_log(path):
        if type(entry.message).__name__ == "Plan":
            continue
        content = b"".join(bytes(memoryview(f).cast("B")) for f in encode(entry.message, "", 0))
        what = f"{type(entry.message).__name__} {hashlib.sha256(content).hexdigest()}"
        streams.setdefault((entry.direction, entry.peer), []).append(what)
    return [f"{key}: {one}" for key, many in sorted(streams.items()) for one in many]


def results(run: Path, nodes: int) -> dict[str, Any]:
    """All that must be the same after a run, whatever happened in it."""
    folders = [run / "nodes" / str(node) for node in range(nodes)]
    of_nodes = [
        sorted(
            (line["node"], line["round"], json.dumps(without_times(line), sort_keys=True))
            for line in read_lines(run / "metrics.jsonl")
        )
    ]
    logs = {path.name: log_entries(path) for path in sorted((run / "attacks").glob("*.log"))}
    return {
        "state": [hashlib.sha256((f / "state.pt").read_bytes()).hexdigest() for f in folders],
        "model": [hashlib.sha256((f / "model.pt").read_bytes()).hexdigest() for f in folders],
        "history": read_lines(run / "history.jsonl"),
        "metrics": of_nodes,
        "own metrics": [
            [without_times(x) for x in read_lines(f / "metrics.jsonl")] for f in folders
        ],
        "batches": [read_lines(f / "batches.jsonl") for f in folders],
        "logs": logs,
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of what is not the same."""
    return [name for name in one if one[name] != other[name]]


def leftovers(run: Path) -> list[str]:
    """Half-written files and checkpoints of a run that has ended."""
    found = [str(path) for path in run.rglob(".*")] + [str(p) for p in run.rglob("*.checkpoint")]
    return found + [str(path) for path in run.rglob("*.new")]
