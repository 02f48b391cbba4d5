"""The picture of a sweep: accuracy against protection, and the front that no combination beats.

Matplotlib is loaded when a picture is drawn and not before.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lppa.auditing.grade import HIDDEN_FROM, OPEN_BELOW
from lppa.protocol.files import write_atomically
from lppa.reproduce.summaries import Spread
from lppa.sweep.grid import in_short
from lppa.sweep.table import Row, front

INK, FAINT, LINE = "#222222", "#555555", "#0072b2"
BANDS = {"open": "#f6d5d0", "weak": "#fbecc4", "hidden": "#d8ecd6"}
CROWD = 14  # of more points than this, only those of the front may have their names far away
GUTTER = 3.0  # how far left of the least ratio stands what has no noise in the way at all
# Where a name may stand, in points from its own: near places first, to the right before the left.
NEAR = ((9, -4), (9, 7), (9, -15), (-9, -4), (-9, 7), (-9, -15), (0, 11), (0, -20))
FARTHER = (1.0, 2.0, 3.2, 4.6, 6.2, 8.0)
BESIDE = 24  # points from which on a line leads from a name to its point


@dataclass(frozen=True)
class Point:
    """Combinations that are the same runs, and so one point; `x` is its place on the axis."""

    name: str
    x: float
    ratio: float
    accuracy: Spread
    best: bool


def draw_front(path: Path, rows: Sequence[Row], title: str) -> bool:
    """Writes the picture; False, and nothing written, where no combination has a place in it."""
    points = make_points(rows)
    if not points:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 6.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _scales(axes, points)
    _bands(axes)
    line = _front_line(axes, points)
    _marks(axes, points)
    axes.set_title(title, loc="left", fontsize=13, color=INK)
    what = "noise in the best-placed attacker's way ÷ an example's share of the gradient"
    axes.set_xlabel(what, fontsize=11)
    axes.set_ylabel("test accuracy (%): mean, least and best seed", fontsize=11)
    left_out = [row.label for row in rows if row.accuracy is not None and row.ratio is None]
    if left_out:
        text = f"no ratio, and so not drawn: {'; '.join(left_out)}"
        figure.supxlabel(_shortened(text, 130), fontsize=9, color=FAINT)
    figure.draw_without_rendering()  # so that it is known where things stand
    nameless = _names(figure, axes, points, line)
    if nameless:
        text = f"{nameless} points without a name: see table.csv"
        corner: dict[str, Any] = {"ha": "right", "va": "bottom", "transform": axes.transAxes}
        axes.text(0.99, 0.01, text, fontsize=9, color=FAINT, **corner)
    content = io.BytesIO()
    figure.savefig(content, format="png", facecolor="white")
    write_atomically(path, content.getvalue())
    return True


def make_points(rows: Sequence[Row]) -> list[Point]:
    """What is drawn; a setting that made no difference is left out of a point's name."""
    same: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.accuracy is not None and row.ratio is not None:
            same.setdefault(tuple(cell.key for cell in row.combination.cells), []).append(row)
    ratios = [some[0].ratio for some in same.values() if some[0].ratio]
    least = min([*ratios, OPEN_BELOW]) / GUTTER
    best = {id(row) for row in front(rows)}
    points = []
    for some in same.values():
        ratio, accuracy = some[0].ratio, some[0].accuracy
        if ratio is not None and accuracy is not None:
            name = name_of([row.combination.varied for row in some])
            x = ratio if ratio > 0 else least
            points.append(Point(name, x, ratio, accuracy, id(some[0]) in best))
    return points


def name_of(varied: Sequence[Mapping[str, Any]]) -> str:
    """What several combinations have in common; a word speaks for itself, a number does not."""
    first = varied[0]
    common = [name for name in first if all(one[name] == first[name] for one in varied)]
    words = [
        in_short(first[name]) if isinstance(first[name], str) else f"{name} {first[name]}"
        for name in common
    ]
    return ", ".join(words)


def _scales(axes: Any, points: Sequence[Point]) -> None:
    axes.set_xscale("log")
    # All three bands are in sight, so that it can be seen how far from them something is.
    places = [point.x for point in points]
    least, most = min(*places, OPEN_BELOW / 2), max(*places, HIDDEN_FROM * 2)
    right = most * (most / least) ** 0.2  # a name needs room to the right of its point
    axes.set_xlim(least / 1.4, right)
    low = min(point.accuracy.least for point in points)
    high = max(point.accuracy.most for point in points)
    around = max(0.1 * (high - low), 0.6)
    # Above the best there is room for the names of the bands.
    bottom, top = low - around, high + 1.6 * around
    axes.set_ylim(bottom, top)
    axes.set_yticks([tick for tick in axes.get_yticks() if bottom <= tick <= min(top, 100)])
    # What has no noise is not on the scale: left of all ratios the axis has no numbers.
    from_here = min([point.ratio for point in points if point.ratio > 0] + [OPEN_BELOW / 2])
    ticks = [tick for tick in _ones_twos_fives(least, right) if tick >= from_here * 0.7]
    words = [f"{tick:g}" for tick in ticks]
    if any(point.ratio == 0 for point in points):
        ticks, words = [min(places), *ticks], ["none", *words]
    axes.set_xticks(ticks, words)
    axes.minorticks_off()
    axes.tick_params(labelsize=10)
    axes.grid(axis="y", color="#ffffff", lw=1.2)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _ones_twos_fives(least: float, most: float) -> list[float]:
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    steps = (1, 2, 5) if math.log10(most / least) < 3 else (1,)
    values = [step * 10.0**power for power in powers for step in steps]
    return [value for value in values if least <= value <= most]


def _bands(axes: Any) -> None:
    left, right = axes.get_xlim()
    edges = (left, OPEN_BELOW, HIDDEN_FROM, right)
    place = {"ha": "center", "va": "top", "transform": axes.get_xaxis_transform()}
    for (grade, colour), low, high in zip(BANDS.items(), edges, edges[1:], strict=False):
        axes.axvspan(low, high, color=colour, lw=0, zorder=0)
        middle = math.sqrt(low * high)
        axes.text(middle, 0.985, grade, fontsize=11, color=FAINT, style="italic", **place)


def _front_line(axes: Any, points: Sequence[Point]) -> list[tuple[float, float]]:
    """Draws the front as steps and returns their corners.

    Nothing is known of what lies between two points; but with as much protection or more, no more
    accuracy was seen. So it begins at the left edge, and falls to the ground at its last point.
    """
    best = sorted((point.x, point.accuracy.mean) for point in points if point.best)
    corners = [(axes.get_xlim()[0], best[0][1])]
    for x, height in best:
        corners += [(corners[-1][0], height), (x, height)]
    corners.append((best[-1][0], axes.get_ylim()[0]))
    axes.plot(*zip(*corners, strict=True), color=LINE, lw=1.8, alpha=0.8, zorder=2)
    return corners


def _marks(axes: Any, points: Sequence[Point]) -> None:
    for point in points:
        mean, least, most = point.accuracy.mean, point.accuracy.least, point.accuracy.most
        axes.errorbar(
            point.x,
            mean,
            # Not a deviation: of few seeds that fall into two camps it would reach beyond 100 %.
            yerr=[[mean - least], [most - mean]],
            fmt="o" if point.best else "s",
            ms=8 if point.best else 6,
            color=LINE if point.best else FAINT,
            elinewidth=1.0,
            capsize=3,
            zorder=3,
        )


def _names(
    figure: Any, axes: Any, points: Sequence[Point], line: Sequence[tuple[float, float]]
) -> int:
    """Writes each name where it covers no point, line or other name, if there is such a place.

    Returns how many points have none.
    """
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    scale = figure.dpi / 72
    inside = axes.get_window_extent()
    room = Bbox([(inside.x0, inside.y0), (inside.x1, inside.y1 - 16 * scale)])

    def box_of(one: tuple[float, float], other: tuple[float, float], around: float) -> Bbox:
        (x0, y0), (x1, y1) = axes.transData.transform([one, other])
        box = Bbox([(min(x0, x1), min(y0, y1)), (max(x0, x1), max(y0, y1))])
        return box.padded(around * scale)

    taken = [box_of(one, other, 1.0) for one, other in itertools.pairwise(line)]
    for point in points:
        low, high = (point.x, point.accuracy.least), (point.x, point.accuracy.most)
        taken.append(box_of(low, high, around=2.0))
    nameless, middles = 0, [(point.x, point.accuracy.mean) for point in points]
    for point in sorted(points, key=lambda point: (not point.best, -point.accuracy.mean)):
        text = axes.annotate(
            point.name,
            (point.x, point.accuracy.mean),
            xytext=NEAR[0],
            textcoords="offset points",
            fontsize=10,
            color=INK if point.best else FAINT,
            zorder=4,
            arrowprops={"arrowstyle": "-", "color": FAINT, "lw": 0.6, "shrinkB": 4},
            path_effects=[withStroke(linewidth=2.0, foreground="#ffffffcc")],
        )
        # A name that ends at another's point would be taken for that one's, unless both are one.
        mine = axes.transData.transform((point.x, point.accuracy.mean))
        apart = [math.dist(axes.transData.transform(one), mine) > 30 * scale for one in middles]
        marks = [
            box_of(one, one, around=16.0 if far else 5.0)
            for one, far in zip(middles, apart, strict=True)
        ]
        near = len(points) > CROWD and not point.best
        farther = FARTHER[:1] if near else FARTHER
        box = _place(text, figure.canvas.get_renderer(), room, [*taken, *marks], farther)
        if box is not None:
            taken.append(box)
        elif near:
            text.remove()
            nameless += 1
    return nameless


def _place(
    text: Any, renderer: Any, room: Any, taken: Sequence[Any], farther: Sequence[float]
) -> Any:
    """Moves a name to the first place that is free and returns its box.

    If none is, the name is left beside its point, and there is no box.
    """
    from matplotlib.text import Text

    def at(dx: float, dy: float) -> Any:
        text.set_position((dx, dy))
        text.set_horizontalalignment("left" if dx > 0 else "right" if dx < 0 else "center")
        text.arrow_patch.set_visible(abs(dy) >= BESIDE)
        text.update_positions(renderer)
        # Without the line to its point, which an annotation counts in.
        return Text.get_window_extent(text, renderer).padded(2)

    for far in farther:
        for dx, dy in NEAR:
            box = at(dx, dy * far)
            held = room.x0 <= box.x0 and box.x1 <= room.x1
            held = held and room.y0 <= box.y0 and box.y1 <= room.y1
            if held and not any(box.overlaps(other) for other in taken):
                return box
    at(*NEAR[0])
    return None


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
