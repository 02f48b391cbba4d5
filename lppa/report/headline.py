"""The headline figures of a run, and side by side those of several, with what tells them apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lppa.coordinator.metrics import EPSILON, rounding_bound
from lppa.models.rules import facts_of
from lppa.report.formats import MISSING, figure, percent, plural, seconds
from lppa.report.grades import kind_of, overall_words, reason
from lppa.report.markup import Markup, join, no_wrap, scrolling, tag
from lppa.report.record import COMPLETED, DOUBTFUL, RUNNING, Audit, RunRecord
from lppa.report.values import whole
from lppa.running.display import in_bytes

MOST_LETTERS = 10
NOT_SOUND = "it came to its end, but is not what it seems"
MEASURED = "‖Σγ − Σg‖ ÷ scale"


@dataclass(frozen=True)
class Figure:
    """One figure with what stands below it; `kind` colours it: bad red, fair amber, good green."""

    name: str
    value: str
    note: str = ""
    kind: str = ""


def figures(run: RunRecord) -> list[Figure]:
    """What somebody wants to know first."""
    last = run.last
    accuracy, loss = last.accuracy, last.loss
    shown = [Figure("progress", _progress(run), plural(run.nodes, "client") if run.nodes else "")]
    if run.metric is not None:
        shown.append(metric(run, run.metric))
    elif accuracy or not loss:
        spread = (
            f"clients {percent(accuracy.min)} to {percent(accuracy.max)}, best mean "
            f"{percent(run.best)}"
            if accuracy
            else ""
        )
        mean = accuracy.mean if accuracy else None
        shown.append(Figure("test accuracy", percent(mean, 2), spread))
    shown += [
        Figure("test loss", figure(loss.mean if loss else None), "mean over clients"),
        *(protection(run.audit) if run.audit else []),
        Figure("consensus distance", figure(last.consensus), "0: one model"),
        conservation(run),
        Figure("noise ÷ gradient", figure(last.ratio), "norms, mean over clients"),
        Figure("sent by all", _sent(run, "state"), f"state; noise {_sent(run, 'noise')}"),
        Figure("time", seconds(run.seconds.get("total")), _pace(run)),
    ]
    return shown


def metric(run: RunRecord, name: str) -> Figure:
    """What stands in the place of accuracy; the others are in its note."""
    found = dict(run.last.metrics)
    spread = found.pop(name)
    note = [f"clients {no_wrap(figure(spread.min))} to {no_wrap(figure(spread.max))}"]
    note += [f"{other} {no_wrap(figure(of.mean))}" for other, of in found.items()]
    return Figure(f"test {name}", figure(spread.mean), "; ".join(note))


def protection(audit: Audit) -> list[Figure]:
    """The audit's grade, and the ε of the whole run where one is stated."""
    shown = [Figure("audit grade", overall_words(audit), reason(audit), kind_of(audit.grade))]
    if audit.epsilon:
        told = audit.epsilon
        note = f"δ {no_wrap(figure(told.delta))}; one release ε {no_wrap(figure(told.release))}"
        value = "none" if told.run is None else figure(told.run)
        shown.append(Figure("ε, whole run", value, note))
    return shown


def conservation(run: RunRecord) -> Figure:
    """The residual beside what rounding explains of it in a run of this kind."""
    residual, dtype = run.last.conservation, run.setting("dtype")
    name, value = "conservation residual", figure(residual)
    if residual is None or run.nodes is None or dtype not in EPSILON:
        return Figure(name, value, MEASURED)
    bound = rounding_bound(dtype, run.last.round, run.nodes, run.last.ratio, _steps(run))
    explained = f"{no_wrap(figure(bound))} in {dtype}"
    if residual <= bound:
        return Figure(name, value, f"{MEASURED}; rounding explains up to {explained}")
    if facts_of(str(run.setting("rule"))).own_noise or run.settings.get("beta_own"):
        why = f"the clients' own noise stays in the sum; rounding explains up to {explained} only"
        return Figure(name, value, f"{MEASURED}; {why}")
    why = f"more than rounding explains, which is {explained}"
    return Figure(name, value, f"{MEASURED}; {why}", "bad")


def _steps(run: RunRecord) -> int:
    """Gradients that a client takes in a round; 1 where the files do not tell."""
    steps, batch = run.settings.get("local_steps"), whole(run.settings.get("batch"), 1)
    if steps == "epoch" and batch and run.partition:
        return max(1, max(map(sum, run.partition)) // batch)
    return whole(steps, 1) or 1


def _progress(run: RunRecord) -> str:
    done = max(run.last.round, run.done)
    return f"round {done}" if run.rounds is None else f"round {done} of {run.rounds}"


def _sent(run: RunRecord, kind: str) -> str:
    return in_bytes(int(run.sent[kind])) if kind in run.sent else MISSING


def _pace(run: RunRecord) -> str:
    pace = run.seconds.get("round")
    return f"{seconds(pace)} a round" if pace is not None else ""


def cards(run: RunRecord) -> Markup:
    """The figures of one run."""
    shown = [
        tag(
            "div",
            tag("dt", one.name),
            tag("dd", _unbroken(one.value), class_=one.kind or None),
            tag("dd", one.note, class_="note"),
        )
        for one in figures(run)
    ]
    return tag("dl", shown, class_="cards")


def _unbroken(value: str) -> str:
    """On one line, if that is not wider than a card on a phone."""
    return no_wrap(value) if len(value) <= MOST_LETTERS else value


def attention(runs: Sequence[RunRecord], names: Sequence[str]) -> Markup | None:
    """All that is wrong with the runs, in a red box: none of it may be overlooked."""
    several = len(runs) > 1
    said = [
        f"{name}: {line}" if several else line
        for name, run in zip(names, runs, strict=True)
        for line in alarms(run)
    ]
    if not said:
        return None
    affected = sum(bool(alarms(run)) for run in runs)
    title = "This run needs attention"
    if several:
        title = f"{affected} of {len(runs)} runs need attention"
    lines = tag("ul", [tag("li", line) for line in said])
    return tag("div", tag("h2", title), lines, class_="attention")


def alarms(run: RunRecord) -> list[str]:
    """What is wrong with a run: a bad end, its own warnings, files that could not be read."""
    ended_badly = run.over and run.status != COMPLETED
    return [*([state(run)[1]] if ended_badly else []), *run.warnings, *run.problems]


def comparison(runs: Sequence[RunRecord], names: Sequence[str]) -> Markup:
    """The figures of several runs as one table: a row each, a column for each run."""
    heads = [
        tag("th", tag("span", class_=f"dot c{k % 8}"), name, _mark(run), scope="col")
        for k, (name, run) in enumerate(zip(names, runs, strict=True))
    ]
    columns = [{one.name: one for one in figures(run)} for run in runs]
    statuses = [tag("td", run.status, class_=f"ended {state(run)[0]}") for run in runs]
    rows = [tag("tr", tag("th", "status", scope="row"), statuses)]
    rows += [
        tag("tr", tag("th", name, scope="row"), [tag("td", value) for value in values])
        for name, values in differences(runs)
    ]
    # Runs may be judged by different figures: then what the first is judged by tells.
    judged = runs[0].metric or "accuracy"
    cost = tag("th", f"{judged} against {names[0]}", scope="row")
    rows.append(tag("tr", cost, [tag("td", no_wrap(value)) for value in against_first(runs)]))
    # In the order of the run that has most: what the first has not does not come last.
    longest = sorted(columns, key=len, reverse=True)
    for name in dict.fromkeys(name for column in longest for name in column):
        known = [column.get(name, Figure(name, MISSING)) for column in columns]
        same = len({one.note for one in known}) == 1  # a note that is no news
        cells = [
            tag(
                "td",
                tag("span", no_wrap(one.value), class_=one.kind or None),
                None if same else [tag("br"), tag("small", one.note)],
            )
            for one in known
        ]
        rows.append(tag("tr", tag("th", name, scope="row"), cells))
    head = tag("tr", tag("th", "figure", scope="col"), heads)
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="figures")
    hint = tag("p", f"Swipe the table sideways to see all {len(runs)} runs.", class_="note swipe")
    return join([hint, scrolling(table)])


def _mark(run: RunRecord) -> Markup | None:
    count = len(alarms(run))
    return tag("span", f"⚠ {plural(count, 'warning')}", class_="mark") if count else None


def against_first(runs: Sequence[RunRecord]) -> list[str]:
    """What each run's test accuracy is above or below that of the first: what noise costs, say.

    Without accuracy, the same of the figure that stands in its place.
    """
    name = runs[0].metric
    if name is not None:
        spreads = [run.last.metrics.get(name) for run in runs]
    else:
        spreads = [run.last.accuracy for run in runs]
    first = spreads[0]
    if first is None:
        return [MISSING] * len(runs)
    apart = [None if one is None else one.mean - first.mean for one in spreads]
    if name is not None:
        return [MISSING if value is None else _signed(value) for value in apart]
    return [MISSING if value is None else f"{value * 100:+.2f} points" for value in apart]


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{figure(abs(value))}"


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
        scrolling(tag("table", tag("tbody", rows))),
        id=key,
    )


def state(run: RunRecord) -> tuple[str, str]:
    """How a run stands: a kind for its colour, and words."""
    if run.status == RUNNING:
        return RUNNING, "no end on record: still running, or stopped without a word"
    why = run.reason or (NOT_SOUND if run.status == DOUBTFUL else "")
    return run.status, f"{run.status}: {why}" if why else run.status
