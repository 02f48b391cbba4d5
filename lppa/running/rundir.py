"""A run's directory: what was asked for, what came of it, and what it protects, as JSON files.

Nodes write to nodes/<id> in it by themselves.
"""

from __future__ import annotations

import io
import json
import os
import platform
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from lppa.coordinator.figures import ENDED, Row, Summary
from lppa.coordinator.membership import Event
from lppa.coordinator.plan import Blueprint
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import forget_unfinished, keep_lines, make_private, write_atomically
from lppa.protocol.lock import FolderLock
from lppa.protocol.messages import Done, Metrics
from lppa.protocol.settings import Settings
from lppa.running.listener import Listener

ABOUT = "about"  # the part of config.json that is a record, not a setting
PENDING, DONE = "pending", "done.jsonl"
# What a job has before the run in it begins: its number, what it says, and code that it brings.
BEFORE = ("slurm.job", "slurm.out", "slurm.err", "slurm.code", "slurm_code.py")
PACKAGES = ("lppa", "torch", "numpy", "pyzmq", "msgpack")


def default_name(settings: Settings) -> str:
    """A name that says when and what."""
    moment = time.strftime("%Y%m%d-%H%M%S")
    # Two runs that start at the same moment are not to choose the same.
    token = secrets.token_hex(2)
    rule = settings.rule.replace("/", "-")
    return f"{moment}-{token}-{rule}-{Path(settings.dataset).stem}"


def default_folder(settings: Settings) -> Path:
    """Where a run goes that was not told where."""
    return Path("runs") / default_name(settings)


def read_summary(folder: Path) -> dict[str, Any]:
    """What a run said at its end; nothing where it has said nothing that can be read."""
    try:
        found = json.loads((folder / "summary.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def check_free(folder: Path) -> None:
    """Nothing that is there already is ever overwritten."""
    try:
        taken = folder.exists() and (
            not folder.is_dir() or any(path.name not in BEFORE for path in folder.iterdir())
        )
    except OSError as error:
        raise WrongUse(f"cannot make the run's directory {folder}: {error.strerror}") from None
    if taken:
        raise WrongUse(f"{folder} exists already; choose another --out")


class RunDirectory(Listener):
    """Writes the coordinator's files; one that is `old` goes on where `keep` says."""

    def __init__(
        self,
        folder: Path,
        blueprint: Blueprint,
        old: bool = False,
        attackers: Sequence[int] = (),
    ) -> None:
        self.folder = folder
        self.lock = FolderLock(folder)
        if old:
            self._take_over()
        else:
            self._make(blueprint, attackers)
        self.metrics_file = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self.history_file = (folder / "history.jsonl").open("a", encoding="utf-8")

    def _take_over(self) -> None:
        """Makes sure that nobody else goes on with the run, or has done so to its end."""
        self.lock.take()
        if read_summary(self.folder).get("status") in ENDED:
            self.lock.free()
            raise WrongUse(f"{self.folder} has come to its end: there is nothing to go on with")
        (self.folder / "summary.json").unlink(missing_ok=True)
        for folder in (self.folder, self.folder / PENDING):
            forget_unfinished(folder)

    def _make(self, blueprint: Blueprint, attackers: Sequence[int]) -> None:
        folder = self.folder
        try:
            make_private(folder)
            # Made by one run only, even if several found the folder free.
            with (folder / "config.json").open("x", encoding="utf-8") as file:
                json.dump(config_record(blueprint, attackers), file, indent=2)
            # What it holds is the run's alone, also if the folder itself was there before.
            folder.chmod(0o700)
            self.lock.take()
        except FileExistsError:
            raise WrongUse(f"{folder} exists already; choose another --out") from None
        except OSError as error:
            raise WrongUse(f"cannot make the run's directory {folder}: {error.strerror}") from None
        self.record("topology.json", blueprint.topology_record())

    def keep(self, round: int) -> None:
        """Drops what was written after a round: it will be written again."""
        for file in (self.metrics_file, self.history_file):
            keep_lines(Path(file.name), lambda number, line: json.loads(line)["round"] <= round)
        keep_lines(self.folder / DONE, lambda number, line: json.loads(line)["round"] <= round)
        for path in (self.folder / PENDING).glob("*.npz"):
            if int(path.stem.partition("-")[0]) > round:
                path.unlink(missing_ok=True)
        self.metrics_file.close()
        self.history_file.close()
        self.metrics_file = (self.folder / "metrics.jsonl").open("a", encoding="utf-8")
        self.history_file = (self.folder / "history.jsonl").open("a", encoding="utf-8")

    def change(self, event: Event) -> None:
        """One thing that happened to the graph; on disk before anything follows from it."""
        content = {name: value for name, value in asdict(event).items() if value not in (None, ())}
        with (self.folder / "views.jsonl").open("a", encoding="utf-8") as file:
            self._line(file, content)
            os.fsync(file.fileno())

    def metrics(self, node: int, metrics: Metrics) -> None:
        """One node's report."""
        # First: a coordinator that comes back needs them for an evaluation that is not complete.
        sketches = io.BytesIO()
        np.savez(sketches, theta=metrics.theta, excess=metrics.excess, epoch=metrics.epoch)
        write_atomically(pending_file(self.folder, metrics.round, node), sketches.getvalue())
        self._line(self.metrics_file, {**metrics.values, "node": node, "round": metrics.round})

    def done(self, node: int, done: Done) -> None:
        """A node that has done all rounds, and may leave: nobody can ask it again."""
        with (self.folder / DONE).open("a", encoding="utf-8") as file:
            self._line(file, {"node": node, "round": done.round, "values": done.values})

    def row(self, row: Row) -> None:
        """One evaluation that all nodes have reported."""
        self._line(self.history_file, row.to_dict())
        for path in (self.folder / PENDING).glob(f"{row.round}-*"):
            path.unlink(missing_ok=True)

    def close(self, summary: Summary) -> None:
        """Ends the record with its summary."""
        self.metrics_file.close()
        self.history_file.close()
        # First: one who is killed before that is followed by another, who needs the rest.
        self.record("summary.json", summary.to_dict())
        if summary.ended:
            forget_unreported(self.folder)
        self.lock.free()

    def _line(self, file: TextIO, content: dict[str, Any]) -> None:
        file.write(json.dumps(content) + "\n")
        file.flush()

    def record(self, name: str, content: object) -> None:
        """A file that is there whole or not at all."""
        write_atomically(self.folder / name, json.dumps(content, indent=2) + "\n")


def forget_unreported(folder: Path) -> None:
    """Deletes what only a coordinator that comes back would need."""
    shutil.rmtree(folder / PENDING, ignore_errors=True)
    (folder / DONE).unlink(missing_ok=True)


def pending_file(folder: Path, round: int, node: int) -> Path:
    """Where the sketches of a report stand until all nodes have reported."""
    return folder / PENDING / f"{round}-{node}.npz"


def config_record(blueprint: Blueprint, attackers: Sequence[int] = ()) -> dict[str, Any]:
    """All settings as they were, and what else is needed to repeat the run."""
    return {
        **blueprint.settings.to_dict(),
        ABOUT: {
            "name": blueprint.name,
            "nodes": blueprint.nodes,
            "run_seed": blueprint.run_seed,
            "attackers": list(attackers),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "python": platform.python_version(),
            "versions": {package: metadata.version(package) for package in PACKAGES},
        },
    }
