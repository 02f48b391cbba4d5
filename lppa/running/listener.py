"""What hears a run's events: the terminal, its directory, event files and notebooks all do."""

from __future__ import annotations

from lppa.coordinator.figures import Row, Summary
from lppa.protocol.messages import Done, Metrics


class Listener:
    """Hears a run's events: `lppa.run(..., listener=...)`.

    This one does nothing with them: override the methods of those that you are after.
    """

    def waiting(self, missing: tuple[int, ...]) -> None:
        """Nodes that are not there yet; called often."""

    def say(self, text: str) -> None:
        """A line for the person: a warning, or a note."""

    def metrics(self, node: int, metrics: Metrics) -> None:
        """One node's report."""

    def done(self, node: int, done: Done) -> None:
        """A node has done all rounds."""

    def row(self, row: Row) -> None:
        """An evaluation that all nodes have reported."""

    def progress(self, rounds: dict[int, int], alive: int) -> None:
        """The round that each node has reached; called often."""

    def within(self, node: int, round: int, stage: str, percent: int) -> None:
        """With a large model: how much of a stage a node has done after so many whole rounds.

        Stages are noise, mixing and gradient, in this order.
        """

    def close(self, summary: Summary) -> None:
        """The run is over, and this came of it."""


class Listeners(Listener):
    """Several that hear the same."""

    def __init__(self, *several: Listener) -> None:
        self.several = several

    def waiting(self, missing: tuple[int, ...]) -> None:
        for each in self.several:
            each.waiting(missing)

    def say(self, text: str) -> None:
        for each in self.several:
            each.say(text)

    def metrics(self, node: int, metrics: Metrics) -> None:
        for each in self.several:
            each.metrics(node, metrics)

    def done(self, node: int, done: Done) -> None:
        for each in self.several:
            each.done(node, done)

    def row(self, row: Row) -> None:
        for each in self.several:
            each.row(row)

    def progress(self, rounds: dict[int, int], alive: int) -> None:
        for each in self.several:
            each.progress(rounds, alive)

    def within(self, node: int, round: int, stage: str, percent: int) -> None:
        for each in self.several:
            each.within(node, round, stage, percent)

    def close(self, summary: Summary) -> None:
        for each in self.several:
            each.close(summary)
