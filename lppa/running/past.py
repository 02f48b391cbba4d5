"""What a run's directory tells of a run that was broken off: enough to go on with it.

Nothing is changed, but what a run should have taken away at its end. How it goes on is in `run`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lppa.coordinator.bootstrap import Start, common_checkpoints
from lppa.coordinator.figures import ENDED, Row
from lppa.coordinator.metrics import Collection
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.topology import Topology
from lppa.coordinator.views import first_view, make_view, part_of
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.messages import Done, Hello, Metrics
from lppa.protocol.names import name_all
from lppa.protocol.settings import make_settings
from lppa.protocol.view import View
from lppa.running.naming import read_config
from lppa.running.rundir import ABOUT, DONE, forget_unreported, pending_file, read_summary


@dataclass(frozen=True)
class Past:
    """A run that has begun before.

    `views` has the members and the first round of every epoch; `last_epoch` was the last that was
    used for anything.
    """

    folder: Path
    blueprint: Blueprint
    views: Mapping[int, tuple[tuple[int, ...], int]]
    last_epoch: int
    seconds: float
    attackers: tuple[int, ...]
    # Nodes that had done all rounds: they may have left.
    done: Mapping[int, Done] = field(default_factory=dict)
    # Who was gone on without, in words.
    warnings: tuple[str, ...] = ()

    def choose(self, have: Mapping[int, Hello]) -> Start:
        """Where the nodes can go on together: the newest round that all have a checkpoint of."""
        members = {epoch: view[0] for epoch, view in self.views.items()}
        running = {node for node, hello in have.items() if hello.running}
        if running or not have:
            return self._adopt(have, running)
        found = common_checkpoints(have, members)
        if not found:
            return Start(first_view(self.blueprint))
        # Rather a round before those whose evaluations are not all known: they are made again.
        known, evaluated = last_row(self.folder), self.blueprint.settings.evaluated
        whole = [at for at in found if not any(map(evaluated, range(known + 1, at[1] + 1)))]
        epoch, round = (whole or found)[0]
        who, first_round = self.views[epoch]
        return Start(make_view(self.blueprint, who, epoch, first_round), (epoch, round))

    def _adopt(self, have: Mapping[int, Hello], running: set[int]) -> Start:
        """The nodes have gone on by themselves: the coordinator was lost, not they."""
        epoch = max((have[node].running[0] for node in running), default=max(self.views))
        who, first_round = self.views[epoch]
        others = set(who) - running - set(self.done)
        if others and self.blueprint.settings.on_failure == "stop":
            raise RunFailed(
                f"{name_all(running)} still run, and {name_all(others)} began anew: end all of "
                "them, then start all with --resume"
            )
        view = make_view(self.blueprint, who, epoch, first_round)
        return Start(view, running=frozenset(who), done=frozenset(self.done))

    @property
    def parts(self) -> list[tuple[View, Blueprint]]:
        """Every view of a part of the graph, or after the first, in which there were rounds to do.

        What was seen in one was seen, whether or not its rounds are done again.
        """
        settings, found = self.blueprint.settings, []
        for epoch, (who, first_round) in sorted(self.views.items()):
            changed = epoch > 0 or len(who) < self.blueprint.nodes
            if changed and first_round < settings.total:
                part = part_of(self.blueprint, who, epoch)
                view = make_view(self.blueprint, who, epoch, first_round)
                found.append((view, replace(self.blueprint, topology=part.topology, W=part.W)))
        return found

    @property
    def expected(self) -> set[int]:
        """Who was there when the run broke off, and had not done all of it."""
        return set(self.views[max(self.views)][0]) - set(self.done)


def read_past(folder: Path) -> Past:
    """A run that can go on; one that has come to its end, or is no run, is refused."""
    summary = read_summary(folder)
    if summary.get("status") in ENDED:
        # It may have been killed between its last word and its tidying up.
        forget_checkpoints(folder)
        forget_unreported(folder)
        raise WrongUse(f"{folder} has come to its end: there is nothing to go on with")
    config = read_config(folder)
    about = config.pop(ABOUT, None)
    graph = _json(folder / "topology.json", None)
    if not isinstance(about, dict) or graph is None:
        raise WrongUse(f"{folder} is no run that can be gone on with")
    try:
        edges = tuple((int(i), int(j)) for i, j in graph["edges"])
        topology = Topology(str(graph["name"]), int(graph["nodes"]), edges)
        blueprint = Blueprint(
            name=str(about["name"]),
            settings=make_settings(config),
            run_seed=int(about["run_seed"]),
            topology=topology,
            W=np.array(graph["W"], dtype=np.float64),
        )
        attackers = tuple(int(node) for node in about["attackers"])
        views, last, warnings = _views(folder, blueprint.nodes)
        done = {
            int(line["node"]): Done(int(line["round"]), line["values"])
            for line in read_lines(folder / DONE)
        }
    except (KeyError, TypeError, ValueError) as error:
        raise WrongUse(
            f"{folder} cannot be gone on with: its files are damaged ({error})"
        ) from None
    times = summary.get("seconds")
    seconds = times.get("total", 0.0) if isinstance(times, dict) else 0.0
    return Past(folder, blueprint, views, last, float(seconds), attackers, done, warnings)


def _views(
    folder: Path, nodes: int
) -> tuple[dict[int, tuple[tuple[int, ...], int]], int, tuple[str, ...]]:
    """The members and the first round of every epoch, the last epoch of all that happened, and what
    was said of nodes that were lost."""
    views: dict[int, tuple[tuple[int, ...], int]] = {0: (tuple(range(nodes)), 0)}
    last = 0
    warnings: list[str] = []
    lost: list[tuple[int, str]] = []
    for event in read_lines(folder / "views.jsonl"):
        last = max(last, int(event["epoch"]))
        if event["kind"] == "view":
            views[int(event["epoch"])] = (tuple(event["members"]), int(event["round"]))
            without = [(node, why) for node, why in lost if node not in event["members"]]
            warnings += [f"node {n} {why}; the others went on without it" for n, why in without]
            lost = []
        elif event["kind"] == "lost":
            lost.append((int(event["node"]), str(event["reason"])))
    return views, last, tuple(warnings)


def forget_checkpoints(folder: Path) -> None:
    """They hold what the noise was made of, and nobody goes on from them after a run's end."""
    for checkpoints in folder.glob("nodes/*/checkpoints"):
        shutil.rmtree(checkpoints, ignore_errors=True)


def kept_collection(past: Past, round: int) -> Collection:
    """The evaluations and reports that stand, up to a round."""
    rows = [Row.from_dict(content) for content in read_lines(past.folder / "history.jsonl")]
    kept = Collection(past.blueprint.nodes, history=[row for row in rows if row.round <= round])
    for values in read_lines(past.folder / "metrics.jsonl"):
        node, at = values.pop("node"), values.pop("round")
        if at <= round:
            kept.reports.setdefault(at, {})[node] = Metrics(at, values, *sketches(past, at, node))
    return kept


def sketches(past: Past, round: int, node: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Those of a report that waits for others', with its epoch; none of one that does not."""
    try:
        with np.load(pending_file(past.folder, round, node)) as file:
            return file["theta"], file["excess"], int(file["epoch"])
    except (OSError, ValueError, KeyError):
        return np.zeros(0), np.zeros(0), 0


def last_row(folder: Path) -> int:
    """The last round that all nodes have reported, 0 if there is none."""
    rounds = [row.get("round") for row in read_lines(folder / "history.jsonl")]
    return max((round for round in rounds if isinstance(round, int)), default=0)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON objects; none if it is not there."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            # The last line of a process that was killed.
            continue
    return [content for content in found if isinstance(content, dict)]


def _json(path: Path, otherwise: Any) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return otherwise
