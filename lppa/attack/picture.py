"""Pictures of attacks: the truth, the way to the result, and curves over rounds or over β.

Draws what it is given; scores and baselines come from `score`. Matplotlib is loaded when a
picture is drawn and not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from lppa.attack.score import match
from lppa.attack.target import Victim

COLUMNS = 9
ROWS = 4
CELL = 1.15  # inches
NARROWEST = 6.0  # inches; what a caption needs
INK, FAINT = "#222222", "#777777"
TRUTH, RESULT = "#1b7837", "#2166ac"
COLOURS = ("#2166ac", "#b2182b", "#1b7837", "#762a83", "#e08214", "#35978f")
STYLES = {"zeros": ":", "mean": "--", "start": "-."}
NAMES = {"zeros": "all zeros", "mean": "mean image", "start": "unoptimised start"}
FIGURES = {
    "psnr": "PSNR (dB), higher is a better attack",
    "ssim": "SSIM (1 is identical)",
    "mse_clamped": "mean squared error (pixel range = 1)",
    "mse_raw": "mean squared error, not clamped (pixel range = 1)",
    "cosine": "cosine similarity to the truth",
    "label_accuracy": "share of right labels",
}


def draw_grid(
    path: Path,
    victim: Victim,
    images: Tensor,
    truth: Tensor | None,
    snapshots: Sequence[tuple[int, Tensor]] = (),
    caption: str = "",
    figure: str = "",
    note: str = "",
) -> None:
    """One row per example of a batch: truth (if known), snapshots by iteration, result.

    `images` and `truth` are (batch size, *shape), as is each snapshot. A batch of more than four
    shows its first four. Where the truth is not known, its place is left empty. `figure` is the
    score that stands over the result.
    """
    order = np.arange(len(images))
    if truth is not None:  # as the score has it
        order = match(images.clamp(victim.low, victim.high), truth).numpy()
    order = order[:ROWS]
    shown = _thin(snapshots, COLUMNS - 2)
    columns: list[tuple[str, Tensor | None, str]] = [("truth", truth, TRUTH)]
    columns += [(f"step {k}" if k else "start", part[order], INK) for k, part in shown]
    columns.append(("result", images[order], RESULT))
    height = CELL * len(order) + 0.85 + (0.2 if note else 0)
    drawing = _figure(max(CELL * len(columns), NARROWEST), height)
    axes = drawing.subplots(len(order), len(columns), squeeze=False)
    for row, line in enumerate(axes):
        for axis, (title, part, colour) in zip(line, columns, strict=True):
            axis.set_xticks([])
            axis.set_yticks([])
            emphasised = title in ("truth", "result")
            for side in axis.spines.values():
                side.set_color(colour if emphasised else "#cccccc")
                side.set_linewidth(2.0 if emphasised else 0.6)
            if part is None:
                axis.text(0.5, 0.5, "not\nrevealed", ha="center", va="center", color=FAINT)
            else:
                _show(axis, part[row], victim, (images if truth is None else truth)[row])
            if row == 0:
                label = f"result\n{figure}" if title == "result" and figure else title
                weight = "bold" if emphasised else "normal"
                axis.set_title(label, fontsize=9, color=colour, fontweight=weight)
    top = 1 - 0.62 / height
    drawing.suptitle(caption, fontsize=11, y=1 - 0.06 / height, va="top", color=INK)
    if note:
        drawing.text(0.5, 0.06 / height, note, ha="center", va="bottom", fontsize=8, color=FAINT)
    bottom = (0.3 if note else 0.1) / height
    drawing.subplots_adjust(0.01, bottom, 0.99, top - 0.1 / height, wspace=0.06, hspace=0.08)
    _save(drawing, path)


def draw_curves(
    path: Path,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    over: str,
    figure: str = "psnr",
    baselines: Mapping[str, float] | None = None,
    title: str = "",
) -> None:
    """A figure over rounds (`over="round"`) or over the noise's scale (`over="beta"`).

    `curves` maps a name to points (x, y); several points at one x are drawn as dots around the
    line through their medians. Baselines are level lines: what a guess without any message gets.
    """
    drawing = _figure(7.2, 4.2, layout="constrained")
    axis = drawing.subplots()
    positive = [x for points in curves.values() for x, _ in points if x > 0]
    count = sum(map(len, curves.values()))
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        xs = sorted({x for x, _ in points})
        middle = [float(np.median([y for at, y in points if at == x])) for x in xs]
        if len(points) > len(xs):
            axis.plot(*zip(*points, strict=True), ".", color=colour, alpha=0.3, ms=5)
        axis.plot(xs, middle, "o-", color=colour, label=name, lw=1.8, ms=4.5)
    for name, level in (baselines or {}).items():
        style = STYLES.get(name, "--")
        axis.axhline(level, color=FAINT, ls=style, lw=1.2, label=NAMES.get(name, name))
    if over == "beta":
        axis.set_xlabel("scale β of the noise (units of the gradient)")
        if (
            positive
        ):  # zero noise belongs on the picture too, which a plain log axis has no room for
            axis.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
            axis.set_xticks(sorted({x for points in curves.values() for x, _ in points}))
            axis.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            axis.minorticks_off()
            axis.set_xlim(left=-0.2 * min(positive) if len(positive) < count else None)
    else:
        axis.set_xlabel("round")
        axis.xaxis.get_major_locator().set_params(integer=True)
    if figure.startswith("mse"):
        axis.set_yscale("log")
    axis.set_ylabel(FIGURES.get(figure, figure))
    axis.set_title(title, fontsize=11)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(drawing, path)


def _thin(snapshots: Sequence[tuple[int, Tensor]], most: int) -> list[tuple[int, Tensor]]:
    """At most so many, the first and the last among them, evenly spread between."""
    if len(snapshots) <= most:
        return list(snapshots)
    picks = np.unique(np.linspace(0, len(snapshots) - 1, most).round().astype(int))
    return [snapshots[k] for k in picks]


def _show(axis: Any, image: Tensor, victim: Victim, like: Tensor) -> None:
    """An image as it looks, or a table's row as bars, with room for those of the row `like`."""
    image = image.detach().float().cpu()
    if len(victim.shape) != 3:
        axis.bar(range(image.numel()), image.reshape(-1).tolist(), width=1.0, color=RESULT)
        reach = float(like.abs().max().nan_to_num(0.0)) or 1.0
        axis.set_ylim(-1.15 * reach, 1.15 * reach)
        axis.axhline(0, color="#cccccc", lw=0.5)
        return
    pixels = ((image - victim.low) / (victim.high - victim.low)).clamp(0, 1).nan_to_num(0.5)
    if pixels.shape[0] == 3:
        axis.imshow(pixels.permute(1, 2, 0).numpy(), interpolation="nearest")
    else:
        axis.imshow(pixels[0].numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")


def _figure(width: float, height: float, **options: Any) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, **options)
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white")
