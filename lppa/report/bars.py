"""Stacked bars: where the time went, and which classes each client has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lppa.report.chart import LETTER, with_room
from lppa.report.formats import plural
from lppa.report.formats import seconds as in_seconds
from lppa.report.markup import Markup, short, tag
from lppa.report.pixels import embedded, encode_png, heat_pixels
from lppa.report.record import PHASES, RunRecord
from lppa.report.scales import linear

WIDTH = 320.0
TOP, BOTTOM = 6.0, 40.0
LONGEST = 14  # letters of a bar's name; more are cut off
MOST_BARS = 32
MOST_PARTS = 1500
NAMED_PHASES = {"compute": "compute", "exchange": "exchange", "eval": "evaluation"}
Bar = tuple[str, Sequence[float]]


def stacked(
    name: str,
    unit: str,
    parts: Sequence[str],
    bars: Sequence[Bar],
    show: Callable[[float], str],
    colours: Sequence[str],
    write_inside: bool = False,
) -> Markup:
    """Horizontal bars, one above another, each of the same parts."""
    names = [label if len(label) <= LONGEST else label[: LONGEST - 1] + "…" for label, _ in bars]
    left = 12 + LETTER * max(map(len, names), default=0)
    thick = 22.0 if len(bars) <= 12 else 15.0
    scale = linear([0.0, *(sum(values) for _, values in bars)], lambda v, d: f"{v:,.{d}f}")
    right = WIDTH - max(6.0, 2 + LETTER / 2 * len(scale.ticks[-1][1]))
    height = TOP + thick * len(bars) + BOTTOM
    bottom = height - BOTTOM

    def x(value: float) -> float:
        return left + (right - left) * scale.place(value)

    drawn: list[Markup] = []
    for value, _ in scale.ticks:
        drawn.append(
            tag("path", d=f"M{short(x(value))} {short(TOP)}V{short(bottom)}", class_="grid")
        )
    drawn += [
        tag("text", label, x=x(value), y=bottom + 15, text_anchor="middle")
        for value, label in with_room(scale.ticks, right - left)
    ]
    for k, (label, values) in enumerate(bars):
        y, start = TOP + thick * k, 0.0
        drawn.append(tag("text", names[k], x=left - 6, y=y + thick / 2 + 4, text_anchor="end"))
        for part, value, colour in zip(parts, values, colours, strict=True):
            if value <= 0:
                continue
            wide = x(start + value) - x(start)
            drawn.append(
                tag(
                    "rect",
                    tag("title", f"{label}, {part}: {show(value)}"),
                    x=x(start),
                    y=y + 2,
                    width=f"{max(0.3, wide - 0.7):.1f}",
                    height=thick - 4,
                    style=f"fill:{colour}",
                )
            )
            if write_inside and wide > LETTER * len(part) + 2 and thick > 15:
                middle = {"x": x(start + value / 2), "y": y + thick / 2 + 3.5}
                drawn.append(tag("text", part, text_anchor="middle", class_="inside", **middle))
            start += value
    drawn.append(
        tag("text", unit, x=(left + right) / 2, y=height - 6, text_anchor="middle",
            class_="unit")
    )  # fmt: skip
    return tag(
        "svg",
        drawn,
        viewBox=f"0 0 {short(WIDTH)} {short(height)}",
        role="img",
        aria_label=_in_words(name, parts, bars, show),
        class_="chart",
        data_chart=name,
    )


def _in_words(
    name: str, parts: Sequence[str], bars: Sequence[Bar], show: Callable[[float], str]
) -> str:
    said = [
        f"{label}: " + ", ".join(f"{p} {show(v)}" for p, v in zip(parts, values, strict=True) if v)
        for label, values in bars[:8]
    ]
    rest = f"; and {len(bars) - 8} more" if len(bars) > 8 else ""
    return f"{name}. " + "; ".join(said) + rest + "."


def time_split(runs: Sequence[RunRecord], names: Sequence[str]) -> Markup | None:
    """Seconds of a client by phase: of each run on average, or of each client of a single run."""
    known = [
        (name, [run.seconds.get(phase, 0.0) for phase in PHASES])
        for name, run in zip(names, runs, strict=True)
        if any(run.seconds.get(phase) for phase in PHASES)
    ]
    if not known:
        return None
    if len(runs) == 1 and 1 < len(runs[0].seconds_by_node) <= 16:
        known = [("mean", known[0][1])]
        known += [
            (f"client {node}", [split.get(phase, 0.0) for phase in PHASES])
            for node, split in runs[0].seconds_by_node.items()
        ]
    parts = [NAMED_PHASES[phase] for phase in PHASES]
    colours = [f"var(--phase{k})" for k in range(len(PHASES))]
    return stacked("Time split", "seconds of a client", parts, known, in_seconds, colours)


def class_colour(index: int, classes: int) -> str:
    """A colour of its own for each class; with ten or fewer they are far apart."""
    return f"hsl({360 * index / classes:.0f} {'62%' if index % 2 else '48%'} 62%)"


def partition_bars(table: tuple[tuple[int, ...], ...], labels: Sequence[str]) -> Markup:
    """Samples of each client by class, or at all where there are no labels.

    A heat map where bars would be too many.
    """
    clients, classes = len(table), len(table[0])
    if clients > MOST_BARS or clients * classes > MOST_PARTS:
        return _partition_map(table, labels)
    return stacked(
        "Data partition",
        "training samples, by class" if labels else "training samples",
        labels or ["all"],
        [(f"client {i}", row) for i, row in enumerate(table)],
        lambda value: plural(int(value), "sample"),
        [class_colour(k, classes) for k in range(classes)] if labels else ["var(--run0)"],
        write_inside=bool(labels),
    )


def _partition_map(table: tuple[tuple[int, ...], ...], labels: Sequence[str]) -> Markup:
    counts = np.array(table, dtype=float)
    columns = f" by {len(labels)} classes (columns)" if labels else ""
    told = (
        f"Data partition: {len(table)} clients (rows){columns}; from "
        f"{int(counts.sum(1).min())} to {plural(int(counts.sum(1).max()), 'sample')} a client."
    )
    picture = encode_png(heat_pixels(counts / counts.max()))
    return embedded(picture, told, class_="matrix stretched", data_chart="Data partition")
