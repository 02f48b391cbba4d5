"""The bubble chart of a partition: one column per client, one row per label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lppa.protocol.errors import WrongUse

BLUE = "#3b6fb6"
# Points from one grid line to the next, and how much of that the largest bubble takes.
CELL = 31.0
FILL = 0.87
# Beyond this a plot is drawn with smaller cells: picture formats have a largest size.
MOST_INCHES = 40.0


def draw_partition(path: Path, title: str, labels: Sequence[int | str], counts: np.ndarray) -> None:
    """Writes the chart of counts [client, label] to a file whose ending says the format."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    clients = len(counts)
    cell = min(CELL, MOST_INCHES * 72 / max(clients, len(labels)))
    plot = np.array([max(clients, 5), max(len(labels), 3)]) * cell / 72
    # Around the plot: room for names, title and legend that does not depend on the plot's size.
    left, right, below, above = 0.75, 1.45, 0.65, 0.55
    width, height = plot[0] + left + right, max(plot[1], 2.6) + below + above
    figure = Figure(figsize=(width, height), dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_axes(
        (left / width, below / height, plot[0] / width, 1 - (below + above) / height)
    )
    largest = max(int(counts.max()), 1)
    client, label = np.nonzero(counts)
    axes.scatter(
        client,
        label,
        s=_areas(counts[client, label], largest, cell),
        color=BLUE,
        alpha=0.8,
        linewidths=0,
        zorder=2,
    )
    axes.set(xlabel="client", ylabel="label")
    # From the left edge: a long title then has the legend's width as well.
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlim(-0.6, clients - 0.4)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.set_xticks(_ticks(clients))
    rows = _ticks(len(labels))
    axes.set_yticks(rows, [str(labels[row]) for row in rows])
    axes.grid(color="#dddddd", linewidth=0.6, zorder=1)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_color("#bbbbbb")
    for size in _examples(largest):
        axes.scatter(
            [],
            [],
            s=_areas(np.array([size]), largest, cell),
            color=BLUE,
            alpha=0.8,
            linewidths=0,
            label=f"{size:,}",
        )
    axes.legend(
        title="samples",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.6,
        labelspacing=1.8,
        handletextpad=1.0,
        frameon=False,
    )
    try:
        # Told the kind, matplotlib writes to this very file, and adds no ending of its own.
        figure.savefig(path, format=path.suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise WrongUse(f"{path}: the chart cannot be written ({error})") from None


def _areas(counts: np.ndarray, largest: int, cell: float) -> np.ndarray:
    """Areas proportional to the counts; the smallest are kept visible."""
    return np.maximum(counts / largest, 0.005) * (FILL * cell) ** 2


def _ticks(count: int) -> list[int]:
    """At most about forty, so that names never run into each other."""
    return list(range(0, count, -(-count // 40)))


def _examples(largest: int) -> list[int]:
    """Round sizes for the legend: the largest below the maximum, then about a third of each."""
    digits = 10 ** (len(str(largest)) - 1)
    top = largest // digits * digits
    sizes = [top, *(s for s in (5 * digits, 2 * digits, digits, digits // 2, digits // 5) if s)]
    below = [size for size in dict.fromkeys(sizes) if size <= top]
    return below[:1] + [size for size in below[1:] if size <= top / 2][:3]
