"""What a run leaves behind and shows while it goes on: its directory, event files, the display.

One place that hears every report and passes it on; how each of them looks is not decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from lppa.auditing.assemble import RUN, Hidden, before_a_run
from lppa.auditing.document import audit_blueprint, blown_up, shorter_steps, warning_lines
from lppa.auditing.findings import AuditDocument, ViewAudit
from lppa.coordinator.figures import Protection, Summary
from lppa.coordinator.metrics import Collection, largest_example
from lppa.coordinator.plan import Blueprint
from lppa.protocol.errors import BLEW_UP, RunFailed
from lppa.protocol.names import name_all
from lppa.protocol.view import View
from lppa.report.tensorboard import EventWriter
from lppa.report.write import write_report
from lppa.running.facts import Facts
from lppa.running.health import examine
from lppa.running.listener import Listener, Listeners
from lppa.running.noise_scale import local_steps, momentum_gain, scale_warnings
from lppa.running.rundir import RunDirectory

THROWN = 100.0  # times what was expected: so large are gradients where steps are too long

log = logging.getLogger("lppa.coordinator")


class Records:
    """What is known of a run, from before it begins to its end; all that listens hears of it."""

    def __init__(
        self,
        folder: Path,
        blueprint: Blueprint,
        listener: Listener,
        tensorboard: bool,
        old: bool = False,
        attackers: Sequence[int] = (),
    ) -> None:
        self.directory = RunDirectory(folder, blueprint, old, attackers)
        events = [EventWriter(folder / "tensorboard")] if tensorboard else []
        self.listener = Listeners(self.directory, *events, listener)
        self.verdict: list[str] = []
        self.findings: list[str] = []
        self.audit: AuditDocument | None = None
        self.before: Hidden | None = None
        self.rows = 1
        self.told: tuple[str, bool] | None = None
        self.views: list[tuple[View, Blueprint]] = []
        # By epoch and by what was to be hidden then.
        self.judged: dict[tuple[Any, ...], ViewAudit] = {}

    def begin(self, blueprint: Blueprint, facts: Facts | None) -> None:
        """What is known before the run: what it will not hide, and who has which data."""
        settings = blueprint.settings
        rows = None if facts is None else min(facts.rows)
        self.rows = rows or settings.batch
        self.before = before_a_run(settings, blueprint.nodes, rows, blueprint.network)
        self._audit(blueprint, self.before)
        if facts is not None:
            self.directory.record("partition.json", facts.partition())
        if facts is not None and facts.averages:
            self.listener.say(
                f"note: the {facts.averages} running averages of this network (BatchNorm's and "
                "the like) are part of θ: averaged, tracked and hidden like its weights"
            )
        self.warn(scale_warnings(blueprint))

    def enter(self, view: View, blueprint: Blueprint) -> None:
        """A view of the graph that is about to begin; one that hides nothing is refused."""
        found = self._of_view(view, blueprint, self.before)
        if found.grade == "open" and self.audit is not None and self.audit.grade != "open":
            left = name_all(set(view.members))
            raise RunFailed(
                f"among {left} alone gradients would be open to be read; go on with all nodes: "
                "--resume"
            )
        self.views.append((view, blueprint))
        if self.audit is None:
            self._audit(blueprint, self.before)
        else:
            self._tell(self.audit, self.before)
        if found.grade == "weak" and self.audit is not None and self.audit.grade == "hidden":
            self.warn([f"from round {view.first_round} on gradients are only weakly hidden"])

    def recall(self, views: Sequence[tuple[View, Blueprint]], warnings: Sequence[str]) -> None:
        """What a run that goes on had behind it when it was broken off."""
        self.findings += warnings
        self.views += views
        if views and self.audit is not None:
            self._tell(self.audit, self.before)

    def _of_view(self, view: View, blueprint: Blueprint, hide: Hidden | None) -> ViewAudit:
        # Each is judged once: of a long run there are hundreds, and all wait for the next one.
        key = (view.epoch, *(() if hide is None else astuple(hide)))
        if key not in self.judged:
            found = audit_blueprint(blueprint, hide)
            self.judged[key] = ViewAudit(
                view.epoch, view.first_round, list(view.members), found.grade, found.ratio
            )
        return self.judged[key]

    def end(self, blueprint: Blueprint, collection: Collection) -> bool:
        """What is known after the run: what it hid, and whether it is what it seems."""
        settings = blueprint.settings
        self._measured(blueprint, collection)
        steps = settings.rounds * local_steps(settings, blueprint.nodes, blueprint.network)
        findings = examine(collection, settings, steps)
        self.warn([finding.text for finding in findings])
        return not any(finding.ill for finding in findings)

    def break_off(self, blueprint: Blueprint, collection: Collection, error: str = "") -> None:
        """The same of a run that did not come to its end: what it hid until then."""
        if self.before is None or self.audit is None:
            return
        if BLEW_UP in error:
            self._record(blown_up(self.audit))
        elif not self._measured(blueprint, collection) and self.audit.grade == "hidden":
            self.warn(["the run ended before gradients were measured: its grade is an expectation"])

    def _measured(self, blueprint: Blueprint, collection: Collection) -> bool:
        """Audits what clients have measured; False where they have measured nothing."""
        measured = largest_example(collection)
        if measured is None or self.before is None:
            return False
        # Few examples are looked at, and in few rounds: what they show may be more than was
        # expected, but is no reason to expect less.
        examples = self.before.examples or 1
        gain = momentum_gain(blueprint.settings, self.rows)
        seen = replace(self.before, rms=gain * measured / examples, source=RUN, examples=examples)
        hide = max(self.before, seen, key=lambda hide: hide.size)
        found = audit_blueprint(blueprint, hide)
        if seen.size > THROWN * self.before.size and found.advice:
            # What would hide such gradients is no noise that anybody could use.
            found = replace(found, advice=shorter_steps(self.audit if found.bad else None))
        self._tell(found, hide)
        return True

    def _audit(self, blueprint: Blueprint, hide: Hidden | None) -> None:
        self._tell(audit_blueprint(blueprint, hide), hide)

    def _tell(self, whole: AuditDocument, hide: Hidden | None) -> None:
        """Writes the audit of all views down; a verdict that was told is not told again."""
        views = [self._of_view(view, part, hide) for view, part in self.views]
        self._record(replace(whole, views=views))

    def _record(self, found: AuditDocument) -> None:
        self.audit = found
        self.directory.record("audit.json", found.to_dict())
        grade = (found.grade, found.bad)
        self.verdict = warning_lines(found)
        if grade != self.told:
            self._say(self.verdict)
        self.told = grade

    def warn(self, warnings: list[str]) -> None:
        """Says what is wrong, and keeps it for the summary."""
        self.findings += warnings
        self._say(warnings)

    def _say(self, warnings: list[str]) -> None:
        for warning in warnings:
            self.listener.say(f"warning: {warning}")

    @property
    def warnings(self) -> list[str]:
        """All that is wrong, what is not hidden first."""
        return [*self.verdict, *self.findings]

    @property
    def protection(self) -> Protection:
        """What of the audit stands in a summary."""
        return Protection() if self.audit is None else self.audit.protection

    def close(self, summary: Summary) -> None:
        """Ends the record with its summary and its report."""
        self.listener.close(summary)
        report_on(self.directory.folder)


def report_on(folder: Path) -> None:
    """Writes a run's report; a run that has come to its end does not fail because of it."""
    try:
        write_report(folder)
    except Exception as error:
        log.warning("no report: %s", error)
