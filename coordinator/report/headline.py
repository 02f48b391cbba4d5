"""The headline figures of a run, and side by side those of several, with what tells them apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lppa.coordinator.display import in_bytes
from lppa.coordinator.report.formats import MISSING, figure, percent, plural, seconds
from lppa.coordinator.report.markup import Markup, no_wrap, tag
from lppa.coordinator.report.record import RUNNING, RunRecord

Figure = tuple[str, str, str]  # name, value, note


def figures(run: RunRecord) -> list[Figure]:
    """What somebody wants to know first."""
    last = run.last
    accuracy, loss = last.accuracy, last.loss
    shown = [("progress", _progress(run), plural(run.nodes, "client") if run.nodes else "")]
    if accuracy or not loss:
        shown.append(
            (
                "test accuracy",
                percent(accuracy.mean if accuracy else None, 2),
                f"clients {percent(accuracy.low)} to {percent(accuracy.high)}, best mean "
                f"{percent(run.best)}"
                if accuracy
                else "",
            )
        )
    shown += [
        ("test loss", figure(loss.mean if loss else None), "mean over clients"),
        ("consensus distance", figure(last.consensus), "0: one model"),
        ("conservation residual", figure(last.conservation), "about 10⁻⁷: rounding"),
        ("noise ÷ gradient", figure(last.ratio), "norms, mean over clients"),
        ("sent by all", _sent(run, "state"), f"state; noise {_sent(run, 'noise')}"),
        ("time", seconds(run.seconds.get("total")), _pace(run)),
    ]
    if run.audit:
        found = "exact leak" if run.audit.bad else "no exact leak"
        shown.append(("audit", found, "to a single client, by linear means"))
    return shown


def _progress(run: RunRecord) -> str:
    if run.rounds is None:
        return f"round {run.last.round}"
    return f"round {run.last.round} of {run.rounds}"


def _sent(run: RunRecord, kind: str) -> str:
    return in_bytes(int(run.sent[kind])) if kind in run.sent else MISSING


def _pace(run: RunRecord) -> str:
    pace = run.seconds.get("round")
    return f"{seconds(pace)} a round" if pace is not None else ""


def cards(run: RunRecord) -> Markup:
    """The figures of one run."""
    shown = [
        tag("div", tag("dt", name), tag("dd", no_wrap(value)), tag("dd", note, class_="note"))
        for name, value, note in figures(run)
    ]
    return tag("dl", shown, class_="cards")


def comparison(runs: Sequence[RunRecord], names: Sequence[str]) -> Markup:
    """The figures of several runs as one table: a row each, a column for each run."""
    heads = [
        tag("th", tag("span", class_=f"dot c{k % 8}"), name, scope="col")
        for k, name in enumerate(names)
    ]
    columns = [{name: (value, note) for name, value, note in figures(run)} for run in runs]
    rows = [tag("tr", tag("th", "status", scope="row"), [tag("td", run.status) for run in runs])]
    rows += [
        tag("tr", tag("th", name, scope="row"), [tag("td", value) for value in values])
        for name, values in differences(runs)
    ]
    cost = tag("th", f"accuracy against {names[0]}", scope="row")
    rows.append(tag("tr", cost, [tag("td", no_wrap(value)) for value in against_first(runs)]))
    for name in dict.fromkeys(name for column in columns for name in column):
        known = [column.get(name, (MISSING, "")) for column in columns]
        same = len({note for _, note in known}) == 1  # a note that is no news
        cells = [
            tag("td", no_wrap(value), None if same else [tag("br"), tag("small", note)])
            for value, note in known
        ]
        rows.append(tag("tr", tag("th", name, scope="row"), cells))
    head = tag("tr", tag("th", "figure", scope="col"), heads)
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="figures")
    return tag("div", table, class_="wide")


def against_first(runs: Sequence[RunRecord]) -> list[str]:
    """What each run's test accuracy is above or below that of the first: what noise costs, say."""
    means = [run.last.accuracy.mean if run.last.accuracy else None for run in runs]
    return [
        MISSING if None in (mean, means[0]) else f"{(mean - means[0]) * 100:+.2f} points"
        for mean in means
    ]


def differences(runs: Sequence[RunRecord]) -> list[tuple[str, list[str]]]:
    """Settings that are not the same in all runs."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    rows = [(name, [in_words(run.settings.get(name)) for run in runs]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def in_words(value: Any) -> str:
    """A setting as it is written down."""
    if value is None:
        return MISSING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def settings_table(run: RunRecord, key: str) -> Markup | None:
    """All settings and versions, folded away."""
    known = {**run.settings, **{k: v for k, v in run.about.items() if not isinstance(v, dict)}}
    versions = run.about.get("versions")
    known |= versions if isinstance(versions, dict) else {}
    if not known:
        return None
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", in_words(value)))
        for name, value in known.items()
    ]
    return tag(
        "details",
        tag("summary", f"Settings and versions of {run.name}"),
        tag("div", tag("table", tag("tbody", rows)), class_="wide"),
        id=key,
    )


def state(run: RunRecord) -> tuple[str, str]:
    """How a run stands: a kind for its colour, and words."""
    if run.status == RUNNING:
        return RUNNING, "no end on record: still running, or stopped without a word"
    reason = f": {run.reason}" if run.reason else ""
    return run.status, f"{run.status}{reason}"
