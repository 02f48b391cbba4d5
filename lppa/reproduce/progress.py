"""How far the whole is: one bar with a time estimate on a terminal, else a line for each cell.

The estimate weighs each cell by what it is expected to cost; only the proportions matter.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from lppa.reproduce.cells import Cell
from lppa.reproduce.costs import cost, in_time
from lppa.reproduce.results import CellResult


class Progress:
    """Keeps count and says nothing; the interface of the two others. A context manager."""

    def __init__(
        self, cells: Sequence[Cell], finished: int, weigh: Callable[[Cell], float] = cost
    ) -> None:
        self.cells, self.finished, self.weigh = len(cells), finished, weigh
        self.total = sum(map(weigh, cells))
        self.count, self.weight, self.jobs = 0, 0.0, 1
        self.began = time.monotonic()

    def beside(self, jobs: int) -> None:
        """So many cells are run side by side."""
        self.jobs = jobs

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def started(self, cell: Cell) -> None:
        """A cell is being run."""

    def at(self, cell: Cell, part: float) -> None:
        """How far its run is, as a part of 1."""

    def done(self, cell: Cell, result: CellResult) -> None:
        """It is finished."""
        self.count += 1
        self.weight += self.weigh(cell)

    def failed(self, cell: Cell, reason: str) -> None:
        """It could not be finished."""
        self.count += 1
        self.weight += self.weigh(cell)

    def left(self) -> float:
        """Seconds that the rest will take if it goes on as it did; at first, as expected."""
        rest = self.total - self.weight
        if not self.weight:
            return rest / self.jobs
        return (time.monotonic() - self.began) * rest / self.weight


class Lines(Progress):
    """A line for each cell on standard error."""

    def __enter__(self) -> Progress:
        there = f", {self.finished} are there already" if self.finished else ""
        self.say(f"{self.cells} cells to run{there}; very roughly {in_time(self.left())}")
        return self

    def done(self, cell: Cell, result: CellResult) -> None:
        super().done(cell, result)
        self.say(f"{self._count()} {in_words(cell, result)}, {in_time(self.left())} left")

    def failed(self, cell: Cell, reason: str) -> None:
        super().failed(cell, reason)
        self.say(f"{self._count()} {cell.name}: {reason}")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def _count(self) -> str:
        return f"[{self.count}/{self.cells}]"


class Bar(Progress):
    """One bar over the whole, for a person at a terminal."""

    def __init__(
        self, cells: Sequence[Cell], finished: int, weigh: Callable[[Cell], float] = cost
    ) -> None:
        super().__init__(cells, finished, weigh)
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(
            BarColumn(30),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task("", total=self.total, count=f"0/{self.cells}", left="")
        self.parts: dict[str, float] = {}

    def __enter__(self) -> Progress:
        self.bar.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.bar.stop()

    def started(self, cell: Cell) -> None:
        self.bar.update(self.task, description=cell.name)

    def at(self, cell: Cell, part: float) -> None:
        self.parts[cell.key] = part * self.weigh(cell) * (1.0 if cell.attack is None else 0.1)
        self._show()

    def done(self, cell: Cell, result: CellResult) -> None:
        super().done(cell, result)
        self._ended(cell)

    def failed(self, cell: Cell, reason: str) -> None:
        super().failed(cell, reason)
        self._ended(cell)
        self.bar.console.print(f"{cell.name}: {reason}", markup=False, highlight=False)

    def _ended(self, cell: Cell) -> None:
        self.parts.pop(cell.key, None)
        self._show()

    def _show(self) -> None:
        at = self.weight + sum(self.parts.values())
        took = time.monotonic() - self.began
        left = in_time(took * (self.total - at) / at) if at else in_time(self.left())
        count = f"{self.count}/{self.cells}"
        self.bar.update(self.task, completed=at, count=count, left=f"{left} left")


def choose_progress(
    cells: Sequence[Cell], finished: int, quiet: bool, weigh: Callable[[Cell], float] = cost
) -> Progress:
    """A bar for a person at a terminal, lines for a pipe, nothing when asked for quiet."""
    kind = Progress if quiet else Bar if sys.stderr.isatty() else Lines
    return kind(cells, finished, weigh)


def in_words(cell: Cell, result: CellResult) -> str:
    """A finished cell in a few words."""
    if cell.attack is not None:
        figure = f"{len(result.attacks)} attacks"
    elif result.best is not None:
        figure = f"best {result.best:.1%}"
    else:
        figure = "no test" if result.loss is None else f"loss {result.loss:.3g}"
    if result.diverged:
        figure += f", diverged in round {result.diverged_in}"
    return f"{cell.name}: {figure} ({result.seconds:.1f} s)"
