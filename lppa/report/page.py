"""The whole page from the records of one run or several: sections in order, and the frame.

Self-contained: style, drawings and pictures are inside, and its own policy forbids the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lppa.report.attacks import gallery
from lppa.report.audit import audit_section
from lppa.report.bars import NAMED_PHASES, partition_bars, time_split
from lppa.report.curves import charts
from lppa.report.formats import figure, plural
from lppa.report.headline import attention, cards, comparison, settings_table, state
from lppa.report.markup import Markup, join, tag
from lppa.report.network import Drawing, describe, draw_graph, draw_weights
from lppa.report.record import PHASES, Graph, RunRecord
from lppa.report.style import STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_page(runs: Sequence[RunRecord]) -> str:
    """The file that opens from disk."""
    return frame(render_main(runs), title_of(runs), POLICY)


def frame(main: Markup, title: str, policy: str, script: str = "") -> str:
    """The document around the content; `script` is ours, never from a file."""
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    ]
    ending = tag("script", Markup(script)) if script else None
    body = tag("body", tag("main", main, id="report"), ending)
    return "<!doctype html>\n" + tag("html", tag("head", head), body, lang="en") + "\n"


def title_of(runs: Sequence[RunRecord]) -> str:
    """What the window is called."""
    return f"lppa: {', '.join(run.name for run in runs[:3])}{' …' if len(runs) > 3 else ''}"


def render_main(runs: Sequence[RunRecord]) -> Markup:
    """All sections; one that has nothing to show is left out."""
    names = distinct_names(runs)
    return join(
        [
            heading(runs, names),
            curves_section(runs, names),
            world_section(runs, names),
            _each(runs, names, "What a curious client can learn", lambda run: None
                  if run.audit is None else audit_section(run.audit)),
            _each(runs, names, "Attacks", lambda run: gallery(
                run.attacks, run.pictures, run.classes, run.audit)
                if run.attacks or run.pictures else None),
            tag("section", [settings_table(run, f"settings-{k}") for k, run in enumerate(runs)]),
        ]
    )  # fmt: skip


def distinct_names(runs: Sequence[RunRecord]) -> list[str]:
    """Runs by name; those that share one are numbered."""
    names = [run.name for run in runs]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: k + 1].count(name)})"
        for k, name in enumerate(names)
    ]


def heading(runs: Sequence[RunRecord], names: Sequence[str]) -> Markup:
    """What was run, how it ended, what is wrong with it, and its figures."""
    if len(runs) > 1:
        # The table first: it marks the runs that the box below is about.
        top = [tag("h1", f"{len(runs)} runs side by side"), comparison(runs, names)]
        return tag("header", top, attention(runs, names))
    (run,) = runs
    kind, words = state(run)
    status = tag("p", run.name, " ", tag("span", words, class_=f"status {kind}"))
    return tag("header", tag("h1", what(run)), status, attention(runs, names), cards(run))


def what(run: RunRecord) -> str:
    """A run in a line."""
    rule, dataset = run.setting("rule") or "a run", run.setting("dataset") or "unknown data"
    where = f", {plural(run.nodes, 'client')}" if run.nodes else ""
    topology = run.graph.name if run.graph else run.setting("topology")
    return f"{rule} on {dataset}{where}" + (f", {topology}" if topology else "")


def legend(parts: Sequence[tuple[str, str]]) -> Markup:
    """Colours by name; each part is (name, colour)."""
    shown = [tag("li", tag("span", class_="dot", style=f"--c:{c}"), name) for name, c in parts]
    return tag("ul", shown, class_="legend")


def curves_section(runs: Sequence[RunRecord], names: Sequence[str]) -> Markup:
    """Curves over rounds, and where the time went."""
    key = None
    if len(runs) > 1:
        key = legend([(name, f"var(--run{k % 8})") for k, name in enumerate(names)])
    shown = [
        _figure(chart.name, chart.note, chart.drawing, key)
        for chart in charts(runs, names)
        if chart.drawing is not None or chart.name != "Test accuracy"
    ]
    phases = legend([(NAMED_PHASES[p], f"var(--phase{k})") for k, p in enumerate(PHASES)])
    split = time_split(runs, names)
    shown.append(_figure("Time", "Where a client's time went.", split, phases if split else None))
    return tag("section", tag("h2", "Training"), tag("div", shown, class_="charts"))


def _figure(name: str, note: str, drawing: Markup | None, key: Markup | None) -> Markup:
    head = tag("figcaption", tag("h3", name), tag("p", note, class_="note"), key)
    return tag("figure", head, drawing or tag("p", "No figures yet.", class_="note missing"))


def world_section(runs: Sequence[RunRecord], names: Sequence[str]) -> Markup | None:
    """Who sends to whom, and who has which data."""
    shown = [*topology_figures(runs, names), *partition_figures(runs, names)]
    if not shown:
        return None
    return tag("section", tag("h2", "Network and data"), tag("div", shown, class_="charts"))


def topology_figures(runs: Sequence[RunRecord], names: Sequence[str]) -> list[Markup]:
    """The graph and its weights, once for all runs that share them."""
    shown = []
    for graph, who in _shared(runs, names, lambda run: run.graph, _same_graph):
        gap = f" Spectral gap {figure(graph.gap)}." if graph.gap is not None else ""
        of = f"{who}: " if len(runs) > 1 else ""
        drawing = draw_graph(graph)
        note = " ".join(filter(None, (of + describe(graph) + gap, drawing.left_out)))
        if drawing.picture is not None:
            shown.append(_figure("Topology", note, drawing.picture, graph_key(drawing)))
        about = "Rows receive, columns send; every row and every column sums to 1."
        about = about if drawing.picture is not None else f"{note} {about}"
        shown.append(_figure("Weights W", about, draw_weights(graph), None))
    return shown


def graph_key(drawing: Drawing) -> Markup:
    """What circles, lines and arrows mean."""
    parts = [tag("li", tag("span", class_="ball"), "client")]
    parts += [
        tag("li", tag("span", class_=f"stroke e{style}"), f"weight {words}")
        for style, words in drawing.key
    ]
    if drawing.arrows:
        parts.append(tag("li", "arrow: from sender to receiver; no arrow: both ways"))
    return tag("ul", parts, class_="legend")


def _same_graph(one: Graph, other: Graph) -> bool:
    return one.W.shape == other.W.shape and bool((one.W == other.W).all())


def partition_figures(runs: Sequence[RunRecord], names: Sequence[str]) -> list[Markup]:
    """Which client has which classes, or how much, once for all runs that share it."""
    shown = []
    for (table, labels), who in _shared(runs, names, _partition, lambda a, b: a == b):
        samples = plural(sum(map(sum, table)), "training sample")
        of = f"{who}: " if len(runs) > 1 else ""
        classes = f" of {plural(len(labels), 'class', 'classes')}" if labels else ""
        note = f"{of}{samples}{classes}."
        shown.append(_figure("Data partition", note, partition_bars(table, labels), None))
    return shown


def _partition(run: RunRecord) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]] | None:
    return (run.partition, run.labels) if run.partition else None


def _shared(
    runs: Sequence[RunRecord],
    names: Sequence[str],
    of: Callable[[RunRecord], Any],
    same: Callable[[Any, Any], bool],
) -> list[tuple[Any, str]]:
    """What runs have in common is shown once, with all their names."""
    groups: list[tuple[Any, list[str]]] = []
    for name, run in zip(names, runs, strict=True):
        value = of(run)
        if value is None:
            continue
        for known, who in groups:
            if same(known, value):
                who.append(name)
                break
        else:
            groups.append((value, [name]))
    return [(value, ", ".join(who)) for value, who in groups]


def _each(
    runs: Sequence[RunRecord],
    names: Sequence[str],
    title: str,
    content: Callable[[RunRecord], list[Markup] | None],
) -> Markup | None:
    """A section with a part for each run that has one."""
    parts = []
    for name, run in zip(names, runs, strict=True):
        shown = content(run)
        if shown:
            parts.append(tag("div", tag("h3", name) if len(runs) > 1 else None, *shown))
    return tag("section", tag("h2", title), parts) if parts else None
