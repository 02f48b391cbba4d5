"""What a run leaves behind and shows while it goes on: its directory, event files, the display.

One place that hears every report and passes it on; how each of them looks is not decided here.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from lppa.coordinator.audit.document import audit_blueprint, warning_lines
from lppa.coordinator.display import Silent
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.report.tensorboard import EventWriter
from lppa.coordinator.report.write import write_report
from lppa.coordinator.rundir import RunDirectory
from lppa.protocol.messages import Metrics

log = logging.getLogger("lppa.coordinator")


class Records:
    """All that hears of a run's progress."""

    def __init__(
        self, folder: Path, blueprint: Blueprint, display: Silent, tensorboard: bool
    ) -> None:
        self.directory = RunDirectory(folder, blueprint)
        self.display = display
        self.events = EventWriter(folder / "tensorboard") if tensorboard else None
        self.warnings: list[str] = []

    def begin(self, blueprint: Blueprint, partition: dict[str, Any] | None) -> None:
        """What is known before the run: what it will not hide, and who has which data."""
        audit = audit_blueprint(blueprint)
        self.directory.record("audit.json", audit)
        if partition is not None:
            self.directory.record("partition.json", partition)
        self.warnings = warning_lines(audit)
        for warning in self.warnings:
            self.display.say(f"warning: {warning}")

    def metrics(self, node: int, metrics: Metrics) -> None:
        """One node's report."""
        self.directory.metrics(node, metrics)
        if self.events is not None:
            self.events.metrics(node, metrics.round, metrics.values)

    def row(self, row: dict[str, Any]) -> None:
        """An evaluation that all nodes have reported."""
        self.directory.row(row)
        self.display.row(row)
        if self.events is not None:
            self.events.row(row)

    def close(self, summary: dict[str, Any]) -> None:
        """Ends the record with its summary and its report."""
        self.directory.close(summary)
        if self.events is not None:
            self.events.close()
        report_on(self.directory.folder)


def report_on(folder: Path) -> None:
    """Writes a run's report; a run that has come to its end does not fail because of it."""
    try:
        write_report(folder)
    except Exception as error:
        log.warning("no report: %s", error)
