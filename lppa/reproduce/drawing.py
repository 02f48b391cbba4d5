"""Draws figures as PNG and SVG. Matplotlib is loaded when something is drawn and not before."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from lppa.protocol.files import write_atomically
from lppa.reproduce.figures import Curve, Figure, Panel

INK, FAINT = "#222222", "#777777"
# Apart for colour-blind eyes, too, and in every figure the same.
COLOURS = {
    "DSGT": "#222222",
    "DP, at the start": "#d55e00",
    "DP, every round": "#e69f00",
    "LPPA": "#0072b2",
    "LPPA, every round": "#56b4e9",
    "LPPA; subtracting": "#009e73",
}
MARKS = {
    "DSGT": "s",
    "DP, at the start": "^",
    "DP, every round": "v",
    "LPPA": "o",
    "LPPA, every round": "P",
}
SMALLEST = 1e-12  # what a logarithmic axis shows in place of zero
STYLES = {"DSGT": "-", "mean of public data": ":"}


def draw(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Writes <stem>.png and <stem>.svg; `folder` is where the figure's pictures are found, too."""
    from matplotlib import rc_context

    drawing = _pictures(figure, folder) if figure.pictures else _panels(figure)
    drawn = []
    for kind, options in (("png", {"dpi": 160}), ("svg", {"metadata": {"Date": None}})):
        content = io.BytesIO()
        with rc_context({"svg.hashsalt": stem}):
            drawing.savefig(content, format=kind, bbox_inches="tight", facecolor="white", **options)
        drawn.append(folder / f"{stem}.{kind}")
        whole = content.getvalue()
        write_atomically(drawn[-1], plainly_named(whole) if kind == "svg" else whole)
    return drawn


def plainly_named(svg: bytes) -> bytes:
    """With names of clip paths and marks that are numbers in their order.

    Matplotlib makes them of places to the last bit, which differs between processors: the same
    results are to give the same file.
    """
    names: dict[bytes, bytes] = {}

    def number(found: re.Match[bytes]) -> bytes:
        return names.setdefault(found[0], b"%c%d" % (found[0][0], len(names)))

    return re.sub(rb'(?<=[#"])[a-z][0-9a-f]{10}(?=[")])', number, svg)


def _new(width: float, height: float) -> Any:
    # Not through pyplot: it keeps every figure alive and may want a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing


def _panels(figure: Figure) -> Any:
    wide = 8.0 if any(panel.ticks for panel in figure.panels) else 5.0
    drawing = _new(wide * len(figure.panels) + 0.6, 4.3)
    drawing.suptitle(_title(figure), color=INK, fontsize=12)
    axes = drawing.subplots(1, len(figure.panels), squeeze=False)[0]
    for axis, panel in zip(axes, figure.panels, strict=True):
        _panel(axis, panel)
    # One for all panels, and outside of them: there is no place that no curve may need.
    entries = {name: line for axis in axes for line, name in zip(*_entries(axis), strict=True)}
    place = {"loc": "outside lower center", "ncols": max(1, len(entries))}
    drawing.legend(entries.values(), entries.keys(), fontsize=9, frameon=False, **place)
    return drawing


def _title(figure: Figure) -> str:
    return figure.title + (f" ({figure.missing} cells missing)" if figure.missing else "")


def _panel(axis: Any, panel: Panel) -> None:
    for line in panel.levels:
        (_hollow if panel.ticks else _level)(axis, panel, line)
    for line in panel.curves:
        (_points if panel.ticks else _curve)(axis, panel, line)
    axis.set_title(panel.title, fontsize=10, color=INK)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    if panel.ticks:
        axis.set_xticks(range(len(panel.ticks)), panel.ticks)
    elif panel.log_x:
        _log_ticks(axis, panel)
    else:
        axis.xaxis.get_major_locator().set_params(integer=True)
    if panel.log_y:
        axis.set_yscale("log")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    if not any(_entries(axis)):
        axis.text(0.5, 0.5, "nothing is finished yet", ha="center", transform=axis.transAxes)


def _entries(axis: Any) -> tuple[list[Any], list[str]]:
    handles, labels = axis.get_legend_handles_labels()
    return handles, labels


def _log_ticks(axis: Any, panel: Panel) -> None:
    """The values that were run stand at the axis, and no others."""
    values = sorted({x for line in (*panel.curves, *panel.levels) for x, _ in line.points})
    if not values:
        return
    axis.set_xscale("log")
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.minorticks_off()


def _curve(axis: Any, panel: Panel, line: Curve) -> None:
    if not line.points:
        return
    colour = COLOURS.get(line.name, FAINT)
    xs = [x for x, _ in line.points]
    ys = _heights(panel, line)
    mark = MARKS.get(line.name, "D")
    axis.plot(xs, ys, f"{mark}-", color=colour, label=line.name, lw=1.6, ms=4.5, alpha=0.9)
    # From the least seed to the best: few seeds, and some fall into two camps, so that a deviation
    # would reach beyond what can be. Of attacks that may run away it would say nothing.
    if panel.middle == "mean" and any(s.count > 1 for _, s in line.points):
        low, high = ([getattr(s, end) for _, s in line.points] for end in ("least", "most"))
        axis.fill_between(xs, low, high, color=colour, alpha=0.15, lw=0)


def _points(axis: Any, panel: Panel, line: Curve) -> None:
    """Each for itself, from the least seed to the best."""
    if not line.points:
        return
    colour, mark = COLOURS.get(line.name, FAINT), MARKS.get(line.name, "D")
    xs, ys = [x for x, _ in line.points], _heights(panel, line)
    axis.plot(xs, ys, mark, color=colour, label=line.name, ms=5.5)
    low, high = ([getattr(s, end) for _, s in line.points] for end in ("least", "most"))
    axis.vlines(xs, low, high, color=colour, lw=1.2)


def _hollow(axis: Any, panel: Panel, line: Curve) -> None:
    """What stands beside ours: without a legend of its own."""
    name = line.name.removesuffix(" (paper)")
    xs, ys = [x + 0.07 for x, _ in line.points], _heights(panel, line)
    axis.plot(xs, ys, MARKS.get(name, "D"), mfc="none", mec=COLOURS.get(name, FAINT), ms=5.5)


def _heights(panel: Panel, line: Curve) -> list[float]:
    heights = [getattr(s, panel.middle) for _, s in line.points]
    return [max(height, SMALLEST) for height in heights] if panel.log_y else heights


def _level(axis: Any, panel: Panel, line: Curve) -> None:
    if not line.points:
        return
    xs, ys = [x for x, _ in line.points], _heights(panel, line)
    style, colour = STYLES.get(line.name, "--"), COLOURS.get(line.name, FAINT)
    if len(set(xs)) == 1:
        axis.axhline(ys[0], ls=style, color=colour, lw=1.4, label=line.name)
    else:
        axis.plot(xs, ys, ls=style, color=colour, lw=1.4, label=line.name)


def _pictures(figure: Figure, folder: Path) -> Any:
    from matplotlib.image import imread

    files = [(title, folder / file if file else None) for title, file in figure.pictures]
    images = [(t, imread(f) if f and f.exists() else None) for t, f in files]
    # As high as each picture is at a width of nine inches.
    heights = [0.6 if i is None else 9 * i.shape[0] / i.shape[1] for _, i in images]
    drawing = _new(9.0, sum(heights) + 0.35 * len(images) + 0.4)
    drawing.suptitle(_title(figure), color=INK, fontsize=12)
    axes = drawing.subplots(len(images), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (title, image) in zip(axes, images, strict=True):
        axis.set_axis_off()
        axis.set_title(title, loc="left", fontsize=10, color=INK)
        if image is None:
            axis.text(0.5, 0.5, "not there", ha="center", va="center", color=FAINT)
        else:
            axis.imshow(image, interpolation="none")
    return drawing
