"""Runs as tidy tables: a row for each round and node, or one for each run.

Nested figures become columns of their own, as `seconds_compute`. Reads what runs have written and
computes nothing: a figure that a file does not have is an empty field.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lppa.protocol.errors import WrongUse
from lppa.report.values import Files, mapping, whole
from lppa.running.listing import list_run
from lppa.running.rundir import ABOUT

log = logging.getLogger("lppa.export")

Columns = dict[str, Any]
NESTED = ("accuracy", "epsilon")  # mappings in a summary that may be None: no column then


@dataclass(frozen=True)
class NodeRow:
    """One evaluation of one node, with the figures that it wrote down."""

    run: str
    round: int
    node: int
    figures: Columns

    def columns(self) -> Columns:
        """By name what stands in the table."""
        return {"run": self.run, "round": self.round, "node": self.node, **self.figures}


@dataclass(frozen=True)
class RunRow:
    """One run: what it was told, and what came of it."""

    run: str
    status: str
    nodes: int | None
    started: Any
    settings: Columns
    results: Columns

    def columns(self) -> Columns:
        """By name what stands in the table."""
        known = {"run": self.run, "status": self.status, "nodes": self.nodes}
        return {**known, "started": self.started, **self.settings, **self.results}


def history_rows(folder: Path) -> list[NodeRow]:
    """One row for each round and node, in this order, as the nodes themselves wrote them down.

    Where their files are not, as on a coordinator's machine, what it heard of them stands in.
    """
    files = Files(folder)
    own = sorted(folder.glob("nodes/*/metrics.jsonl"))
    names = [str(path.relative_to(folder)) for path in own] or ["metrics.jsonl"]
    found: dict[tuple[int, int], Columns] = {}
    for line in (line for name in names for line in files.lines(name)):
        round, node = whole(line.get("round")), whole(line.get("node"))
        if round is not None and node is not None:
            found.setdefault((round, node), line)
    _tell(files)
    if not found:
        raise WrongUse(f"{folder} has no figures yet: no node has reported an evaluation")
    return [
        NodeRow(folder.name, round, node, flat(line, leave=("round", "node")))
        for (round, node), line in sorted(found.items(), key=lambda one: one[0])
    ]


def summary_row(folder: Path) -> RunRow:
    """One run: its name, status and clients, its settings, and what came of it."""
    files = Files(folder)
    config = mapping(files.json("config.json"))
    summary = mapping(files.json("summary.json"))
    _tell(files)
    listed = list_run(folder, time.time())
    about = mapping(config.pop(ABOUT, None))
    settings = flat(config)
    empty = [name for name in NESTED if summary.get(name) is None]
    known = ("name", "status", "nodes", "started", *settings)
    results = flat(summary, leave=(*known, *empty))
    warnings = summary.get("warnings")
    if isinstance(warnings, list):
        results["warnings"] = " | ".join(map(str, warnings))
    if not summary:
        # What is known of a run that has no end: its last evaluation, and what it was to hide.
        results |= {"accuracy_mean": listed.accuracy, "grade": listed.grade}
    started = about.get("started")
    return RunRow(listed.name, listed.status, listed.nodes, started, settings, results)


def flat(values: Mapping[str, Any], leave: tuple[str, ...] = (), before: str = "") -> Columns:
    """Plain figures by name, those of a mapping after its own name; lists are left out."""
    row: Columns = {}
    for name, value in values.items():
        if name in leave or isinstance(value, list):
            continue
        if isinstance(value, dict):
            row |= flat(value, before=f"{before}{name}_")
        else:
            row[before + name] = value
    return row


def _tell(files: Files) -> None:
    for problem in files.problems:
        log.warning("warning: %s: %s", files.folder, problem)
