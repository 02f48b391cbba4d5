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

from lppa.coordinator.reproduce.cells import Cell, Store
from lppa.coordinator.reproduce.progress import Progress
from lppa.coordinator.run import uninterrupted
from lppa.protocol.errors import RunFailed, WrongUse

WORKER = (sys.executable, "-c", "from lppa.coordinator.reproduce.work import serve; serve()")
PATIENCE = 30.0


class Worker:
    """A process that runs one cell at a time; what it answers is put into `events`."""

    def __init__(self, events: queue.Queue) -> None:
        # In a session of its own: Ctrl-C is for the parent, which ends it by closing the pipe.
        self.process = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.cell: Cell | None = None
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()

    def ask(self, **request: Any) -> None:
        """Sends a request; the answer comes as an event."""
        with suppress(BrokenPipeError):  # its end is an event, too
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()

    def _listen(self, events: queue.Queue) -> None:
        for line in self.process.stdout:
            events.put((self, json.loads(line)))
        events.put((self, {"ended": True}))


@contextmanager
def workers(count: int, events: queue.Queue) -> Iterator[list[Worker]]:
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
                    worker.process.stdin.close()
            for worker in started:
                try:
                    worker.process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    worker.process.kill()
                    worker.process.wait()
                with suppress(ProcessLookupError):  # nothing is left of its group, as it should be
                    os.killpg(worker.process.pid, signal.SIGKILL)


def side_by_side() -> int:
    """How many cells at once: a run of five clients keeps two cores busy already."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


def run_cells(
    cells: Sequence[Cell], store: Store, out: Path, progress: Progress
) -> list[tuple[Cell, str]]:
    """Runs cells and keeps their results; returns those that failed, with the reason.

    Data that cannot be had is told before anything is run.
    """
    for half_made in (out / "runs").glob("*.part-*"):
        shutil.rmtree(half_made, ignore_errors=True)
    waiting = list(reversed(cells))
    failed: list[tuple[Cell, str]] = []
    events: queue.Queue = queue.Queue()
    with workers(min(side_by_side(), len(cells)), events) as pool, progress:
        data = sorted({(cell.dataset, cell.rows) for cell in cells}, key=str)
        pool[0].ask(out=str(out), data=data)
        wait_for_data(events)
        for worker in pool:
            hand_out(worker, waiting, out, progress)
        while any(worker.cell for worker in pool):
            worker, said = events.get()
            if "part" in said:
                progress.at(worker.cell, said["part"])
                continue
            if "ended" in said:
                raise RunFailed("a process that ran an experiment has ended; start again to go on")
            if "result" in said:
                store.add(worker.cell, said["result"])
                progress.done(worker.cell, said["result"])
            else:
                failed.append((worker.cell, said["error"]))
                progress.failed(worker.cell, said["error"])
            hand_out(worker, waiting, out, progress)
    return failed


def hand_out(worker: Worker, waiting: list[Cell], out: Path, progress: Progress) -> None:
    """The next cell, if there is one."""
    worker.cell = waiting.pop() if waiting else None
    if worker.cell is not None:
        progress.started(worker.cell)
        worker.ask(out=str(out), cell=worker.cell.spec())


def wait_for_data(events: queue.Queue) -> None:
    """Returns when all data is there."""
    _, said = events.get()
    if "error" in said:
        kind = WrongUse if said["wrong_use"] else RunFailed
        raise kind(said["error"])
    if "ended" in said:
        raise RunFailed("the process that prepares the data has ended: see above")
