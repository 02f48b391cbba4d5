"""The workers that run cells, seen from the process that hands them out."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lppa.protocol.errors import RunFailed, WrongUse
from lppa.reproduce.cells import Cell, Store
from lppa.reproduce.progress import Progress
from lppa.reproduce.results import CellResult
from lppa.running.signals import uninterrupted

WORKER = (sys.executable, "-c", "from lppa.reproduce.work import serve; serve()")
PATIENCE = 30.0

Events = queue.Queue[tuple["Worker", dict[str, Any]]]
"""What workers say, and which of them."""


class Worker:
    """A process that runs one cell at a time; what it answers is put into `events`."""

    def __init__(self, events: Events) -> None:
        # In a session of its own: Ctrl-C is for the parent, which ends it by closing the pipe.
        self.process = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.requests, self.answers = self.process.stdin, self.process.stdout
        self.cell: Cell | None = None
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()

    def ask(self, **request: Any) -> None:
        """Sends a request; the answer comes as an event."""
        with suppress(BrokenPipeError):  # its end is an event, too
            self.requests.write(json.dumps(request) + "\n")
            self.requests.flush()

    def _listen(self, events: Events) -> None:
        for line in self.answers:
            events.put((self, json.loads(line)))
        events.put((self, {"ended": True}))


@contextmanager
def workers(count: int, events: Events) -> Iterator[list[Worker]]:
    """Starts workers, and leaves none behind."""
    started: list[Worker] = []
    try:
        for _ in range(count):
            started.append(Worker(events))
        yield started
    finally:
        with uninterrupted():
            for worker in started:
                with suppress(BrokenPipeError):
                    worker.requests.close()
            for worker in started:
                try:
                    worker.process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    worker.process.kill()
                    worker.process.wait()
                with suppress(ProcessLookupError):  # nothing is left of its group, as it should be
                    os.killpg(worker.process.pid, signal.SIGKILL)


def cores_here() -> int:
    """How many cells run side by side: as many as there are cores that this process may use.

    The clients of a run are threads that wait for each other: on one core they waste nothing of it,
    on several they would.
    """
    return len(os.sched_getaffinity(0))


def run_cells(
    cells: Sequence[Cell], store: Store, out: Path, progress: Progress, jobs: int | None = None
) -> list[tuple[Cell, str]]:
    """Runs cells and keeps their results; returns those that failed, with the reason.

    So many at once, by default one for each core of this machine. Data that cannot be had is told
    before anything is run.
    """
    for half_made in (out / "runs").glob("*.part-*"):
        shutil.rmtree(half_made, ignore_errors=True)
    waiting, count = list(cells), min(jobs or cores_here(), len(cells))
    failed: list[tuple[Cell, str]] = []
    events: Events = queue.Queue()
    progress.beside(count)
    with workers(count, events) as pool, progress:
        data = {(cell.dataset, cell.rows, cell.settings.get("data_dir")) for cell in cells}
        pool[0].ask(out=str(out), data=sorted(data, key=str))
        wait_for_data(events)
        hand_out(pool, waiting, out, progress)
        while any(worker.cell for worker in pool):
            worker, said = events.get()
            cell = worker.cell
            if "ended" in said or cell is None:
                raise RunFailed("a process that ran an experiment has ended; start again to go on")
            if "part" in said:
                progress.at(cell, said["part"])
                continue
            if "result" in said:
                result = CellResult.from_dict(said["result"])
                store.add(cell, result)
                progress.done(cell, result)
            else:
                failed.append((cell, said["error"]))
                progress.failed(cell, said["error"])
            worker.cell = None
            hand_out(pool, waiting, out, progress)
    return failed


def hand_out(pool: Sequence[Worker], waiting: list[Cell], out: Path, progress: Progress) -> None:
    """Gives idle workers the next cells."""
    for worker in pool:
        if worker.cell is None and waiting:
            worker.cell = cell = waiting.pop(0)
            progress.started(cell)
            worker.ask(out=str(out), cell=cell.spec())


def wait_for_data(events: Events) -> None:
    """Returns when all data is there."""
    _, said = events.get()
    if "error" in said:
        kind = WrongUse if said["wrong_use"] else RunFailed
        raise kind(said["error"])
    if "ended" in said:
        raise RunFailed("the process that prepares the data has ended: see above")
