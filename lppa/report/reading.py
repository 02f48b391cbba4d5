"""Reads a run's directory into a `RunRecord`, whatever state it is in: growing, failed, damaged.

Only a folder that holds no run at all is refused. Drawing is not done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lppa.coordinator.figures import Spread
from lppa.coordinator.metrics import latest, spread_of
from lppa.coordinator.reported import FIGURES
from lppa.protocol.errors import WrongUse
from lppa.report.privacy_files import read_attacks, read_audit
from lppa.report.record import (
    COMPLETED,
    DOUBTFUL,
    PHASES,
    RUNNING,
    Graph,
    Row,
    RunRecord,
)
from lppa.report.values import (
    Files,
    items,
    mapping,
    number,
    numbers,
    positive,
    text,
    texts,
    whole,
)

MARKS = ("config.json", "summary.json", "history.jsonl", "metrics.jsonl")
STATUSES = (COMPLETED, DOUBTFUL, "failed", "interrupted")


def read_run(folder: Path) -> RunRecord:
    """All that a run's directory tells; raises WrongUse if it is none."""
    if not folder.is_dir():
        raise WrongUse(f"{folder} is not a folder: name a run's directory")
    if not any((folder / name).is_file() for name in MARKS):
        raise WrongUse(f"{folder} is not a run's directory: none of {', '.join(MARKS)} is in it")
    files = Files(folder)
    config = mapping(files.json("config.json"))
    summary = mapping(files.json("summary.json"))
    about = mapping(config.pop("about", None))
    graph = read_graph(mapping(files.json("topology.json")), files)
    nodes = whole(about.get("nodes"), 1) or whole(summary.get("nodes"), 1)
    nodes = nodes or (graph.nodes if graph else None)
    history = items(summary.get("history")) or files.lines("history.jsonl")
    reports = by_round(files.lines("metrics.jsonl"))
    rows = read_rows(history, reports, nodes)
    last_words = latest(reports)
    split = {n: phases(report.get("seconds")) for n, report in last_words.items()}
    means = [row.accuracy.mean for row in rows if row.accuracy]
    status = summary.get("status")
    attacks, pictures = read_attacks(files)
    split_over = mapping(files.json("partition.json"))
    partition = read_partition(split_over)
    return RunRecord(
        folder=folder,
        name=text(summary.get("name")) or text(about.get("name")) or folder.resolve().name,
        status=status if status in STATUSES else RUNNING,
        reason=reason_of(summary),
        # Without config.json a summary still says the most important ones.
        settings={**outline(summary), **config},
        about=about,
        nodes=nodes,
        rounds=planned_rounds(config, summary),
        done=whole(summary.get("rounds_done")) or 0,
        rows=rows,
        best=max(means, default=None),
        seconds={**mean_split(split.values()), **numbers(summary.get("seconds"))},
        seconds_by_node=dict(sorted(split.items())),
        sent=sent_bytes(summary, last_words.values()),
        memory=positive(summary.get("memory")),
        graph=graph,
        partition=partition,
        labels=read_labels(split_over, len(partition[0]) if partition else 0),
        audit=read_audit(files.json("audit.json")),
        attacks=attacks,
        pictures=pictures,
        warnings=texts(summary.get("warnings")),
        problems=tuple(files.problems),
    )


def outline(summary: dict[str, Any]) -> dict[str, Any]:
    """Settings as the summary repeats them."""
    names = ("rule", "dataset", "partition", "model", "topology", "rounds")
    return {name: summary[name] for name in names if name in summary}


def planned_rounds(config: dict[str, Any], summary: dict[str, Any]) -> int | None:
    """Rounds that the run was to have, those that only mix at the end included."""
    rounds = whole(config.get("rounds"), 1) or whole(summary.get("rounds"), 1)
    return None if rounds is None else rounds + (whole(config.get("finish")) or 0)


def reason_of(summary: dict[str, Any]) -> str | None:
    """Why a run failed, or where it was interrupted."""
    reason, round = text(summary.get("error")), whole(summary.get("round"))
    if reason is None and round is not None:
        return f"in round {round}"
    return reason


def by_round(lines: Iterable[dict[str, Any]]) -> dict[int, dict[int, dict[str, Any]]]:
    """Reports by round and client; the first one counts, as in a run."""
    reports: dict[int, dict[int, dict[str, Any]]] = {}
    for line in lines:
        round, node = whole(line.get("round")), whole(line.get("node"))
        if round is not None and node is not None:
            reports.setdefault(round, {}).setdefault(node, line)
    return reports


def read_rows(
    history: Iterable[Any], reports: dict[int, dict[int, dict[str, Any]]], nodes: int | None
) -> tuple[Row, ...]:
    """One row for each evaluation that all clients have reported."""
    combined = {
        round: row
        for row in history
        if isinstance(row, dict) and (round := whole(row.get("round"))) is not None
    }
    whole_rounds = {r for r, of_round in reports.items() if nodes in (None, len(of_round))}
    rows = [
        read_row(round, combined.get(round, {}), list(reports.get(round, {}).values()))
        for round in sorted(combined.keys() | whole_rounds)
    ]
    return tuple(rows)


def read_row(round: int, combined: dict[str, Any], reports: Sequence[dict[str, Any]]) -> Row:
    """The coordinator's figures, and what only the clients' own reports tell."""
    told = {name: read_figure(combined.get(name), reports, name) for name in FIGURES}
    return Row(
        round=round,
        reported={name: spread for name, spread in told.items() if spread is not None},
        consensus=positive(combined.get("consensus")),
        conservation=positive(combined.get("conservation")),
        metrics=read_metrics(combined, reports),
    )


def read_figure(content: Any, reports: Sequence[dict[str, Any]], name: str) -> Spread | None:
    """A reported figure; of one that is combined to its mean, the reports know the spread."""
    mean = number(content)
    alone = None if mean is None else Spread(mean, mean, mean)
    return read_spread(content) or over_clients(reports, name) or alone


def read_spread(content: Any) -> Spread | None:
    """A figure as the coordinator has it over all clients."""
    mean, least, most = (number(mapping(content).get(name)) for name in ("mean", "min", "max"))
    if mean is None or least is None or most is None:
        return None
    return Spread(mean, least, most)


def read_metrics(combined: dict[str, Any], reports: Sequence[dict[str, Any]]) -> dict[str, Spread]:
    """What else the models are judged by, by name."""
    told = mapping(combined.get("metrics"))
    of_clients = [mapping(report.get("metrics")) for report in reports]
    names = dict.fromkeys([*told, *(name for one in of_clients for name in one)])
    found = {name: read_spread(told.get(name)) or over_clients(of_clients, name) for name in names}
    return {name: spread for name, spread in found.items() if spread is not None}


def over_clients(reports: Sequence[dict[str, Any]], name: str) -> Spread | None:
    """A figure over clients; None unless all have it."""
    return spread_of([number(report.get(name)) for report in reports])


def phases(seconds: Any) -> dict[str, float]:
    """Seconds by phase."""
    known = {phase: positive(mapping(seconds).get(phase)) for phase in PHASES}
    return {phase: value or 0.0 for phase, value in known.items()}


def mean_split(splits: Iterable[dict[str, float]]) -> dict[str, float]:
    """Seconds by phase of a client on average; nothing if no client has reported."""
    known = list(splits)
    return {p: sum(split[p] for split in known) / len(known) for p in PHASES} if known else {}


def sent_bytes(summary: dict[str, Any], latest: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Bytes of noise and state that all clients sent."""
    known = numbers(summary.get("bytes"))
    if known:
        return known
    totals: dict[str, float] = {}
    for report in latest:
        for kind, count in numbers(report.get("bytes")).items():
            totals[kind] = totals.get(kind, 0.0) + count
    return totals


def read_graph(content: dict[str, Any], files: Files) -> Graph | None:
    """topology.json; None if there is no matrix in it that could be drawn."""
    if not content:
        return None
    try:
        W = np.asarray(content.get("W"), dtype=float)
    except (TypeError, ValueError, OverflowError):
        W = np.zeros(0)
    square = W.ndim == 2 and W.shape[0] == W.shape[1] and W.size > 0
    if not square or not (np.abs(W) < 1e6).all():  # false for NaN too
        files.problems.append("topology.json has no square matrix W, and is left out")
        return None
    edges = read_edges(items(content.get("edges")), len(W))
    name = text(content.get("name")) or "unnamed"
    return Graph(name, edges, W, positive(content.get("spectral_gap")))


def read_edges(pairs: list[Any], nodes: int) -> np.ndarray:
    """Edges between clients that there are; all at once, for there may be very many."""
    try:
        edges = np.asarray(pairs, dtype=float).reshape(-1, 2)
    except (TypeError, ValueError, OverflowError):
        return np.zeros((0, 2), dtype=int)
    with np.errstate(invalid="ignore"):
        inside = ((edges >= 0) & (edges < nodes) & (edges == np.floor(edges))).all(1)
    known = edges[inside & (edges[:, 0] != edges[:, 1])].astype(int)
    return np.unique(known, axis=0)


def read_partition(content: dict[str, Any]) -> tuple[tuple[int, ...], ...] | None:
    """Samples by client and class; None if there are none."""
    labels = items(content.get("labels"))
    table = [[whole(count) or 0 for count in items(row)] for row in labels]
    classes = max((len(row) for row in table), default=0)
    if not classes or not any(map(any, table)):
        return None
    return tuple(tuple(row + [0] * (classes - len(row))) for row in table)


def read_labels(content: dict[str, Any], classes: int) -> tuple[str, ...]:
    """The names of so many classes, their numbers if they have none; nothing in regression."""
    if content.get("classes") == 0:
        return ()
    names = texts(content.get("names"))
    return names if len(names) == classes else tuple(map(str, range(classes)))
