"""A run's directory: what was asked for, what came of it, and what it protects, as JSON files.

Nodes write to nodes/<id> in it by themselves.
"""

from __future__ import annotations

import json
import platform
import secrets
import time
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from lppa.coordinator.figures import Row, Summary
from lppa.coordinator.plan import Blueprint
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import make_private, write_atomically
from lppa.protocol.messages import Metrics
from lppa.protocol.settings import Settings
from lppa.running.listener import Listener

ABOUT = "about"  # the part of config.json that is a record, not a setting
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


def check_free(folder: Path) -> None:
    """Nothing that is there already is ever overwritten."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUse(f"{folder} exists already; choose another --out")


class RunDirectory(Listener):
    """Writes the coordinator's files."""

    def __init__(self, folder: Path, blueprint: Blueprint) -> None:
        try:
            make_private(folder)
            # Made by one run only, even if several found the folder free.
            with (folder / "config.json").open("x", encoding="utf-8") as file:
                json.dump(config_record(blueprint), file, indent=2)
            # What it holds is the run's alone, also if the folder itself was there before.
            folder.chmod(0o700)
        except FileExistsError:
            raise WrongUse(f"{folder} exists already; choose another --out") from None
        except OSError as error:
            raise WrongUse(f"cannot make the run's directory {folder}: {error.strerror}") from None
        self.folder = folder
        self.record("topology.json", blueprint.topology_record())
        self.metrics_file = (folder / "metrics.jsonl").open("w", encoding="utf-8")
        self.history_file = (folder / "history.jsonl").open("w", encoding="utf-8")

    def metrics(self, node: int, metrics: Metrics) -> None:
        """One node's report."""
        self._line(self.metrics_file, {**metrics.values, "node": node, "round": metrics.round})

    def row(self, row: Row) -> None:
        """One evaluation that all nodes have reported."""
        self._line(self.history_file, row.to_dict())

    def close(self, summary: Summary) -> None:
        """Ends the record with its summary."""
        self.metrics_file.close()
        self.history_file.close()
        self.record("summary.json", summary.to_dict())

    def _line(self, file: TextIO, content: dict[str, Any]) -> None:
        file.write(json.dumps(content) + "\n")
        file.flush()

    def record(self, name: str, content: object) -> None:
        """A file that is there whole or not at all."""
        write_atomically(self.folder / name, json.dumps(content, indent=2) + "\n")


def config_record(blueprint: Blueprint) -> dict[str, Any]:
    """All settings as they were, and what else is needed to repeat the run."""
    return {
        **blueprint.settings.to_dict(),
        ABOUT: {
            "name": blueprint.name,
            "nodes": blueprint.nodes,
            "run_seed": blueprint.run_seed,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "python": platform.python_version(),
            "versions": {package: metadata.version(package) for package in PACKAGES},
        },
    }
