"""How a run looks while it goes on, and its table at the end: a bar on a terminal, else lines."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from lppa.coordinator.figures import Row, Spread, Summary
from lppa.protocol.names import name_all
from lppa.running.listener import Listener

if TYPE_CHECKING:
    from rich.table import Table

WAITING_EVERY = 1.0  # seconds
WITHIN_EVERY = 10.0


class Silent(Listener):
    """Shows nothing."""

    def __init__(self, rounds: int = 0) -> None:
        self.rounds = rounds


class Warnings(Silent):
    """What a person is told on standard error, and nothing of how the run goes on."""

    def say(self, text: str) -> None:
        if not text.startswith("note:"):
            print(text, file=sys.stderr, flush=True)


class Lines(Warnings):
    """Plain lines on standard error."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def __init__(self, rounds: int) -> None:
        super().__init__(rounds)
        self.missing: tuple[int, ...] = ()
        self.told = 0.0
        self.alive = 0

    def waiting(self, missing: tuple[int, ...]) -> None:
        # Of a thousand that come one by one not every one is news.
        if missing != self.missing and time.monotonic() - self.told > WAITING_EVERY:
            self.missing, self.told = missing, time.monotonic()
            self.say(f"waiting for {name_all(set(missing))}")

    def row(self, row: Row) -> None:
        self.say(f"round {row.round}/{self.rounds}  {in_words(row)}  nodes {self.alive}")

    def progress(self, rounds: dict[int, int], alive: int) -> None:
        self.alive = alive

    def within(self, node: int, round: int, stage: str, percent: int) -> None:
        if time.monotonic() - self.told > WITHIN_EVERY:
            self.told = time.monotonic()
            self.say(f"round {round + 1}/{self.rounds}  node {node}: {stage} {percent} %")


class Live(Silent):
    """A bar on a terminal: rounds, accuracy or what stands for it, loss and nodes alive."""

    def __init__(self, rounds: int) -> None:
        super().__init__(rounds)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            Elapsed(),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task("starting", total=rounds, figures="")
        self.figures = self.stage = ""

    def waiting(self, missing: tuple[int, ...]) -> None:
        # Not before there is something to show: a run may still be refused.
        self.bar.start()
        self.bar.update(self.task, figures=f"waiting for {name_all(set(missing))}")

    def say(self, text: str) -> None:
        self.bar.console.print(text, markup=False, highlight=False)

    def row(self, row: Row) -> None:
        self.figures = in_words(row)

    def progress(self, rounds: dict[int, int], alive: int) -> None:
        self.bar.update(
            self.task,
            description="round",
            completed=min(rounds.values()),
            figures=f"{self.figures}  {alive} nodes{self.stage}",
        )

    def within(self, node: int, round: int, stage: str, percent: int) -> None:
        self.stage = f"  node {node}: {stage} {percent} %"

    def close(self, summary: Summary) -> None:
        self.bar.stop()


def choose_display(rounds: int, quiet: bool) -> Silent:
    """A bar for a person at a terminal, lines for a pipe, warnings alone when asked for quiet."""
    if quiet:
        return Warnings(rounds)
    return Live(rounds) if sys.stderr.isatty() else Lines(rounds)


def in_words(row: Row) -> str:
    """An evaluation in a few words."""
    accuracy, loss = row.accuracy, row.loss
    words = []
    if accuracy is not None:
        words.append(f"accuracy {accuracy.mean:.1%} ({accuracy.min:.1%}–{accuracy.max:.1%})")
    else:
        # The first that a problem is judged by takes its place.
        for name, found in list(known_metrics(row).items())[:1]:
            words.append(f"{name} {found.mean:.4g} ({found.min:.4g}–{found.max:.4g})")
    words.append("loss –" if loss is None else f"loss {loss:.4g}")
    return "  ".join(words)


def known_metrics(row: Row | Summary) -> dict[str, Spread]:
    """What else a problem is judged by, where all clients could tell."""
    return {name: found for name, found in row.metrics.items() if found is not None}


def print_results(summary: Summary, folder: str) -> None:
    """The table at the end of a run, on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{summary.rule} on {summary.dataset}: {summary.status}")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in result_rows(summary):
        table.add_row(name, value)
    console = Console()
    console.print(table)
    for name, path in (("run directory", folder), ("report", f"{folder}/report.html")):
        console.print(f"{name}: {path}", markup=False, highlight=False, soft_wrap=True)


def result_rows(summary: Summary) -> list[tuple[str, str]]:
    """What the table shows."""
    accuracy, seconds, sent = summary.accuracy, summary.seconds, summary.bytes
    rows = [("clients, topology", f"{summary.nodes}, {summary.topology}")]
    planned = summary.rounds + summary.finish
    rows.append(("rounds", f"{summary.rounds_done} of {planned}"))
    if accuracy is not None:
        rows.append(("test accuracy, mean over clients", f"{accuracy.mean:.2%}"))
        rows.append(("  worst and best client", f"{accuracy.min:.2%}, {accuracy.max:.2%}"))
        rows.append(("  best mean in any round", f"{accuracy.best:.2%}"))
    for name, found in known_metrics(summary).items():
        rows.append((f"test {name}, mean over clients", f"{found.mean:.4g}"))
        ends = f"{found.min:.4g}, {found.max:.4g}"
        rows.append(("  least and greatest of a client", ends))
    for name, value in (
        ("loss", summary.loss),
        ("consensus distance", summary.consensus),
        ("conservation residual", summary.conservation),
    ):
        if value is not None:
            rows.append((name, f"{value:.3g}"))
    if summary.grade is not None:
        ratio = summary.noise_to_example
        times = "" if ratio is None else f", noise {ratio:.3g} × an example"
        rows.append(("audit grade", f"{summary.grade}{times}"))
    rows.append(("sent: noise, state", f"{in_bytes(sent.noise)}, {in_bytes(sent.state)}"))
    rows.append(("seconds: total, start", f"{seconds.total:.1f}, {seconds.start:.1f}"))
    split = f"{seconds.compute:.1f}, {seconds.exchange:.1f}, {seconds.eval:.1f}"
    rows.append(("  a client's compute, exchange, evaluation", split))
    return rows


def print_whole(table: Table) -> None:
    """Prints a table on standard output with nothing cut off.

    Rather a line that is longer than the terminal than a name or a figure that is not all there.
    """
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False)
    wide = console.options.update(max_width=100_000)
    console.width = max(console.width, Measurement.get(console, wide, table).maximum)
    console.print(table)


def in_bytes(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
