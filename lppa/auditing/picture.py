"""The audit as a picture: attackers down, victims across, one panel for each target.

Draws what is in audit.json, so that a report can draw the same later. Matplotlib is loaded when a
picture is drawn and not before.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from lppa.auditing.findings import AuditDocument, Pair, PerRound

TITLES = {
    "g0": "first gradient g⁰",
    "g1": "second gradient g¹",
    "change": "change g$^{t+1}$ − g$^t$, best t",
    "telescoped": "change g$^T$ − g⁰",
    "gradient": "gradient g$^t$, best t",
    "mean": "mean of all g$^t$",
}
EXACT, UNKNOWN, SELF, INK = "#c0392b", "#d9d9d9", "#ffffff", "#222222"
WRITTEN = 12  # nodes up to which there is room for a number in each cell


def draw_audit(path: Path, found: AuditDocument) -> None:
    """The heat maps of an audit, as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    rows = sorted({tuple(pair.attackers) for pair in found.pairs})
    victims = sorted({pair.victim for pair in found.pairs})
    numbers = [
        value for pair in found.pairs for value in pair.noise.values() if isinstance(value, float)
    ]
    # From 0, so that a colour means the same distance from EXACT in every audit's scale.
    scale = Normalize(0.0, max(numbers, default=1.0))
    across = 2 if len(found.targets) == 4 else 3
    down = math.ceil(len(found.targets) / across)
    cell = 0.62 if len(victims) <= WRITTEN else 0.13
    width = max(3.3, cell * len(victims) + 1.1)
    height = max(1.9, cell * len(rows) + 1.0)
    figure = Figure(
        figsize=(width * across + 1.0, height * down + 1.0), dpi=150, layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis, target in zip(axes, found.targets, strict=False):
        shown = _panel(axis, found.pairs, target, rows, victims, scale)
        axis.set_title(TITLES[target], fontsize=10, color=INK)
    for axis in axes[len(found.targets) :]:
        axis.axis("off")
    bar = figure.colorbar(shown, ax=list(axes), shrink=0.8)
    bar.set_label("least standard deviation of the attacker's estimate, in units of β")
    keys = [
        Patch(facecolor=EXACT, label="EXACT"),
        Patch(facecolor=UNKNOWN, label="mixed: not told apart from others by linear means"),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    schedule = f"noise every {found.noise_every}" if found.noise_every else "start-only noise"
    figure.suptitle(
        f"{found.rule}, {found.topology} with {found.nodes} nodes, {schedule}, "
        f"rounds 0 to {found.rounds} overheard",
        fontsize=11,
        color=INK,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white")


def draw_rounds(path: Path, found: AuditDocument, told: PerRound) -> None:
    """Round by round, what is in the way of the pair that hides least."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    bounds = found.thresholds
    figure = Figure(figsize=(7.0, 4.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    rounds = [row.round for row in told.rounds]
    # Exact is shown at the bottom: a logarithmic axis has no place for nothing.
    shown = [row.ratio for row in told.rounds if row.ratio]
    floor = min([*shown, bounds.open_below]) / 10
    tall = max([*shown, bounds.hidden_from]) * 5
    for low, high, colour, name in (
        (floor, bounds.open_below, "#f6d5d1", "open"),
        (bounds.open_below, bounds.hidden_from, "#fbeecb", "weak"),
        (bounds.hidden_from, tall, "#d8eedd", "hidden"),
    ):
        axis.axhspan(low, high, color=colour, label=name, zorder=0)
    values = [math.nan if row.ratio is None else max(row.ratio, floor) for row in told.rounds]
    axis.plot(rounds, values, "o-", color=INK, label="noise ÷ example's share")
    exact = [row.round for row in told.rounds if row.ratio == 0]
    axis.plot(exact, [floor] * len(exact), "X", color=EXACT, markersize=10, label="exact")
    axis.set_yscale("log")
    axis.set_ylim(floor * 0.8, tall)
    axis.set_xticks(rounds[:: max(1, len(rounds) // 12)])
    axis.set_xlabel("round")
    axis.set_ylabel("noise left ÷ example's share")
    by = ", ".join(map(str, told.attackers))
    axis.set_title(f"node {by} on node {told.victim}: {found.rule}, {found.topology}")
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.savefig(path, facecolor="white")


def _panel(
    axis: Any,
    pairs: list[Pair],
    target: str,
    rows: list[tuple[int, ...]],
    victims: list[int],
    scale: Any,
) -> Any:
    """One target; returns what the colour bar belongs to."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import to_rgb

    colours: Any = ScalarMappable(scale, colormaps["viridis"])
    picture = np.ones((len(rows), len(victims), 3)) * to_rgb(SELF)
    few = len(victims) <= WRITTEN and len(rows) <= WRITTEN
    for pair in pairs:
        at = rows.index(tuple(pair.attackers)), victims.index(pair.victim)
        value = pair.noise[target]
        colour: Any
        if value == "mixed":
            colour, text = to_rgb(UNKNOWN), "mixed"
        elif isinstance(value, str):
            colour, text = to_rgb(EXACT), "EXACT"
        else:
            colour, text = colours.to_rgba(value)[:3], f"{value:.3g}"
        picture[at] = colour
        if few:
            dark = sum(colour) < 1.5
            axis.text(
                at[1],
                at[0],
                text,
                ha="center",
                va="center",
                fontsize=7,
                color="white" if dark else INK,
            )
    axis.imshow(picture, aspect="auto", interpolation="nearest")
    every = max(1, math.ceil(len(victims) / 12))
    axis.set_xticks(range(0, len(victims), every), [str(v) for v in victims[::every]])
    step = max(1, math.ceil(len(rows) / 12))
    axis.set_yticks(range(0, len(rows), step), [", ".join(map(str, who)) for who in rows[::step]])
    axis.tick_params(labelsize=8)
    axis.set_xlabel("victim", fontsize=9)
    axis.set_ylabel("attacker" if all(len(r) == 1 for r in rows) else "attackers", fontsize=9)
    return colours
