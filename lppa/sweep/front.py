"""The picture of a sweep: accuracy against protection, and the front that no combination beats.

Matplotlib is loaded when a picture is drawn and not before.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lppa.audit.grade import HIDDEN_FROM, OPEN_BELOW
from lppa.protocol.files import write_atomically
from lppa.sweep.table import Row, front

INK, FAINT, LINE = "#222222", "#666666", "#0072b2"
BANDS = {"open": "#f6d5d0", "weak": "#fbecc4", "hidden": "#d8ecd6"}
LABELLED = 24  # beyond so many points only those of the front are named
GUTTER = 3.0  # how far left of the least ratio stands what has no noise in the way at all
# Where a name may stand, in points from its own: near places first, to the right before the left.
NEAR = ((9, -4), (9, 7), (9, -15), (-9, -4), (-9, 7), (-9, -15), (0, 11), (0, -20))
FARTHER = (1.0, 2.0, 3.2, 4.6, 6.2, 8.0)


def draw_front(path: Path, rows: Sequence[Row], title: str) -> bool:
    """Writes the picture; False, and nothing written, where no combination has a place in it."""
    placed = [row for row in rows if row.accuracy is not None and row.ratio is not None]
    if not placed:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 6.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    best = front(placed)
    x = _places(placed)
    _scales(axes, placed, x)
    _bands(axes)
    _points(axes, placed, best, x)
    axes.set_title(title, loc="left", fontsize=13, color=INK)
    axes.set_xlabel("noise in the best-placed attacker's way ÷ an example's share", fontsize=11)
    axes.set_ylabel("test accuracy (%), mean over seeds ± deviation", fontsize=11)
    left_out = [row.label for row in rows if row.accuracy is not None and row.ratio is None]
    if left_out:
        text = f"no ratio, and so not drawn: {'; '.join(left_out)}"
        figure.supxlabel(_shortened(text, 130), fontsize=9, color=FAINT)
    figure.draw_without_rendering()  # so that it is known where things stand
    named = placed if len(placed) <= LABELLED else best
    _names(figure, axes, placed, named, best, x)
    content = io.BytesIO()
    figure.savefig(content, format="png", facecolor="white")
    write_atomically(path, content.getvalue())
    return True


def _places(rows: Sequence[Row]) -> dict[int, float]:
    """Where each row stands on the logarithmic axis; no noise at all is left of everything."""
    ratios = [row.ratio for row in rows if row.ratio > 0]
    least = min([*ratios, OPEN_BELOW]) / GUTTER
    return {id(row): row.ratio if row.ratio > 0 else least for row in rows}


def _scales(axes: Any, rows: Sequence[Row], x: dict[int, float]) -> None:
    axes.set_xscale("log")
    # All three bands are in sight, so that it can be seen how far from them something is.
    least, most = min(*x.values(), OPEN_BELOW / 2), max(*x.values(), HIDDEN_FROM * 2)
    # A name needs room to the right of its point.
    axes.set_xlim(least / 1.4, most * (most / least) ** 0.18)
    low = min(row.accuracy.mean - (row.accuracy.deviation or 0.0) for row in rows)
    high = max(row.accuracy.mean + (row.accuracy.deviation or 0.0) for row in rows)
    around = max(0.12 * (high - low), 0.6)
    axes.set_ylim(low - around, min(high + 1.6 * around, 100 + around))
    ticks = [t for t in _ones_twos_fives(least, most) if t >= min(_positive(rows, least))]
    words = [f"{t:g}" for t in ticks]
    if any(row.ratio == 0 for row in rows):
        ticks, words = [min(x.values()), *ticks], ["none", *words]
    axes.set_xticks(ticks, words)
    axes.minorticks_off()
    axes.tick_params(labelsize=10)
    axes.grid(axis="y", color="#ffffff", lw=1.2)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _positive(rows: Sequence[Row], otherwise: float) -> list[float]:
    # Left of all ratios the axis has no numbers: what has no noise is not on the scale.
    known = [row.ratio for row in rows if row.ratio > 0]
    return [*known, OPEN_BELOW] if known else [OPEN_BELOW, otherwise * 2]


def _ones_twos_fives(least: float, most: float) -> list[float]:
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    steps = (1, 2, 5) if math.log10(most / least) < 3 else (1,)
    return [step * 10.0**power for power in powers for step in steps if step * 10.0**power <= most]


def _bands(axes: Any) -> None:
    left, right = axes.get_xlim()
    edges = {"open": (left, OPEN_BELOW), "weak": (OPEN_BELOW, HIDDEN_FROM)}
    edges["hidden"] = (HIDDEN_FROM, right)
    for grade, (low, high) in edges.items():
        axes.axvspan(low, high, color=BANDS[grade], lw=0, zorder=0)
        middle = math.sqrt(max(low, left) * high)
        place = {"ha": "center", "va": "top", "transform": axes.get_xaxis_transform()}
        axes.text(middle, 0.985, grade, fontsize=11, color=FAINT, style="italic", **place)


def _points(axes: Any, rows: Sequence[Row], best: Sequence[Row], x: dict[int, float]) -> None:
    # Steps, since nothing is known of what lies between two points: with as much protection or
    # more, no more accuracy was seen.
    if len(best) > 1:
        xs, ys = [x[id(row)] for row in best], [row.accuracy.mean for row in best]
        axes.plot(xs, ys, drawstyle="steps-pre", color=LINE, lw=1.8, zorder=2, label="front")
    on_front = {id(row) for row in best}
    for row in rows:
        first = id(row) in on_front
        axes.errorbar(
            x[id(row)],
            row.accuracy.mean,
            yerr=row.accuracy.deviation,
            fmt="o" if first else "s",
            ms=8 if first else 6,
            color=LINE if first else FAINT,
            ecolor=LINE if first else FAINT,
            elinewidth=1.0,
            capsize=3,
            zorder=3,
        )


def _names(
    figure: Any,
    axes: Any,
    rows: Sequence[Row],
    named: Sequence[Row],
    best: Sequence[Row],
    x: dict[int, float],
) -> None:
    """Writes each name where it covers no point and no other name, if there is such a place."""
    from matplotlib.transforms import Bbox

    renderer = figure.canvas.get_renderer()
    scale = figure.dpi / 72
    points = [axes.transData.transform((x[id(row)], row.accuracy.mean)) for row in rows]
    taken = [Bbox.from_bounds(px - 6, py - 6, 12, 12) for px, py in points]
    inside = axes.get_window_extent(renderer)
    on_front = {id(row) for row in best}
    for row in sorted(named, key=lambda row: -row.accuracy.mean):
        text = axes.annotate(
            row.label,
            (x[id(row)], row.accuracy.mean),
            xytext=NEAR[0],
            textcoords="offset points",
            fontsize=10,
            color=INK if id(row) in on_front else FAINT,
            zorder=4,
            arrowprops={"arrowstyle": "-", "color": FAINT, "lw": 0.6, "shrinkB": 4},
        )
        chosen = None
        for (dx, dy), far in ((near, far) for far in FARTHER for near in NEAR):
            # Names go up and down far, but stay beside their points.
            text.set_position((dx, dy * far if far > 1 else dy))
            text.set_horizontalalignment("left" if dx > 0 else "right" if dx < 0 else "center")
            box = _extent(text, renderer).padded(1.5 * scale)
            if chosen is None:
                chosen = (text.get_position(), text.get_horizontalalignment(), box)
            held = inside.x0 <= box.x0 and box.x1 <= inside.x1
            held = held and inside.y0 <= box.y0 and box.y1 <= inside.y1 - 14 * scale
            if held and not any(box.overlaps(other) for other in taken):
                chosen = (text.get_position(), text.get_horizontalalignment(), box)
                break
        place, side, box = chosen
        text.set_position(place)
        text.set_horizontalalignment(side)
        if abs(place[1]) < 24:
            text.arrow_patch.set_visible(False)
        taken.append(box)


def _extent(text: Any, renderer: Any) -> Any:
    """The room that a name takes, without the line to its point."""
    from matplotlib.text import Text

    text.update_positions(renderer)
    return Text.get_window_extent(text, renderer)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
