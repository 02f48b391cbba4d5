"""Runs in a line each, for a list of many: read from as few small files as will do.

The whole of a run is read by `report.reading`; nothing is drawn or printed here.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lppa.protocol.errors import WrongUse
from lppa.report.values import Files, mapping, number, text, whole
from lppa.running.naming import began, find_run, is_run, read_config, runs_below
from lppa.running.rundir import ABOUT

# There is no summary: whether the run goes on cannot be known for sure, only that it may.
GOING, UNFINISHED = "running?", "unfinished"
TAIL = 65536  # bytes of history.jsonl that surely hold its last line
USUAL_EVERY, USUAL_TIMEOUT = 5, 60.0


@dataclass(frozen=True)
class Listed:
    """A run in a line; None is what its files do not tell."""

    name: str
    directory: str
    status: str
    reason: str | None
    rule: str | None
    dataset: str | None
    nodes: int | None
    topology: str | None
    accuracy: float | None
    grade: str | None
    noise_to_example: float | None
    started: float
    """Seconds since 1970."""
    age: float
    """Seconds since it was started."""
    quiet: float
    """Seconds since it last wrote anything."""


def list_runs(base: Path) -> list[Listed]:
    """All runs directly in a folder, the newest first."""
    now = time.time()
    return [list_run(folder, now) for folder in runs_below(base)]


def list_run(folder: Path, now: float) -> Listed:
    """One run, whatever state it is in."""
    files, config = Files(folder), read_config(folder)
    summary = mapping(files.json("summary.json"))
    known = {**config, **summary}
    started, _ = began(folder)
    quiet = max(0.0, now - last_written(folder))
    accuracy = summary.get("accuracy") if summary else last_row(folder).get("accuracy")
    # A run that was stopped was audited all the same, before it began.
    grade = summary.get("grade") if summary else mapping(files.json("audit.json")).get("grade")
    return Listed(
        name=folder.name,
        directory=str(folder),
        status=text(summary.get("status")) or status_without_summary(config, quiet),
        reason=text(summary.get("error")),
        rule=text(known.get("rule")),
        dataset=text(known.get("dataset")),
        nodes=whole(summary.get("nodes")) or whole(mapping(config.get(ABOUT)).get("nodes")),
        topology=text(known.get("topology")),
        accuracy=number(mapping(accuracy).get("mean")),
        grade=text(grade),
        noise_to_example=number(summary.get("noise_to_example")),
        started=started,
        age=max(0.0, now - started),
        quiet=quiet,
    )


def status_without_summary(config: dict[str, Any], quiet: float) -> str:
    """By its silence: a run that was killed says nothing.

    Nobody waits longer than the timeout for a round, and every so many rounds something is written.
    """
    every = number(config.get("eval_every")) or USUAL_EVERY
    timeout = number(config.get("timeout")) or USUAL_TIMEOUT
    return GOING if quiet <= (every + 1) * timeout else UNFINISHED


def last_written(folder: Path) -> float:
    """When any of a run's files was last written to, those of its nodes included."""
    return max(_dates(folder), default=0.0)


def _dates(folder: Path) -> Iterator[float]:
    for pattern in ("*", "nodes/*/*"):
        for path in folder.glob(pattern):
            try:
                if path.is_file():
                    yield path.stat().st_mtime
            except OSError:  # gone between two looks
                continue


def last_row(folder: Path) -> dict[str, Any]:
    """The latest evaluation that all nodes have reported; nothing if there is none."""
    try:
        with (folder / "history.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            # What follows the last line's end is being written.
            lines = file.read().split(b"\n")[:-1]
        return mapping(json.loads(lines[-1])) if lines else {}
    except (OSError, ValueError, RecursionError):
        return {}


def check_removable(named: str, base: Path) -> Path:
    """The directory of a run that may be removed; raises WrongUse for anything that is not one."""
    folder = find_run(named, base)
    if folder.is_symlink():
        raise WrongUse(f"{folder} is a link, not a run's directory: remove the link by hand")
    if folder.resolve().parent != base.resolve():
        raise WrongUse(f"{folder} is not directly in {base}/: say where it is by --dir")
    about = mapping(read_config(folder).get(ABOUT))
    if not is_run(folder) or not {"name", "nodes", "run_seed"} <= about.keys():
        raise WrongUse(f"{folder} has no config.json of a run, so that it stays: remove it by hand")
    return folder


def remove_run(folder: Path) -> None:
    """Removes a run's directory; links in it are removed and not followed."""
    shutil.rmtree(folder)
