"""Draws the two pictures of docs/architecture.md. Usage: python scripts/architecture_figures.py"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

DOCS = Path(__file__).parent.parent / "docs"
LPPA = "running, audit, attack, report, watch, reproduce, sweep, bench"
INK, PALE, EDGE, STRONG = "#1b2a3a", "#eef3f8", "#7c93a8", "#1565c0"


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A drawing whose units are hundredths of an inch, with y downwards."""
    figure = plt.figure(figsize=(width / 100, height / 100))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def box(axes: Axes, x: float, y: float, width: float, height: float, fill: str = PALE) -> None:
    """A box by its upper left corner."""
    style = "round,pad=0,rounding_size=8"
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=fill, edgecolor=EDGE)
    )


def write(axes: Axes, x: float, y: float, text: str, size: float = 10, **how: Any) -> None:
    """Text at its middle."""
    told = {"ha": "center", "va": "center", "color": INK, **how}
    axes.text(x, y, text, fontsize=size, **told)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **how: Any) -> None:
    """An arrow from here to there."""
    told = {"arrowstyle": "-|>", "color": INK, "lw": 1.4, "shrinkA": 0, "shrinkB": 0, **how}
    axes.annotate("", xy=end, xytext=start, arrowprops=told)


def folders() -> Figure:
    """Which folder imports which."""
    figure, axes = canvas(800, 400)
    places = {
        "lppa/": (20, 20, 760, "what people use: import lppa, commands,", LPPA),
        "node/": (80, 160, 290, "one client: state, round loop,", "updates, noise, learner, data"),
        "coordinator/": (430, 160, 290, "topology, weights, views,", "bootstrap, metrics"),
        "models/": (20, 300, 350, "networks, the learning problem,", "Algorithm 1 in matrices"),
        "protocol/": (430, 300, 350, "messages, codec, views, keys,", "links, sockets, settings"),
    }
    for name, (x, y, width, *lines) in places.items():
        box(axes, x, y, width, 80, "#dbe9f6" if name == "lppa/" else PALE)
        write(axes, x + width / 2, y + 18, name, 13, weight="bold", family="monospace")
        for k, line in enumerate(lines):
            write(axes, x + width / 2, y + 41 + 19 * k, line)
    for start, end in (
        ((225, 100), (225, 158)),
        ((575, 100), (575, 158)),
        ((50, 100), (50, 298)),
        ((750, 100), (750, 298)),
        ((205, 240), (205, 298)),
        ((595, 240), (595, 298)),
        ((330, 240), (460, 298)),
        ((470, 240), (340, 298)),
    ):
        arrow(axes, start, end)
    arrow(axes, (370, 350), (428, 350), linestyle="dashed")
    write(axes, 399, 330, "errors", 9, style="italic")
    write(axes, 400, 130, "an arrow means: imports", 9, style="italic")
    return figure


def one_round() -> Figure:
    """What two neighbours do and send in round t."""
    figure, axes = canvas(800, 560)
    for x, name in ((10, "client i"), (540, "client l")):
        box(axes, x, 15, 250, 530)
        write(axes, x + 125, 34, name, 13, weight="bold")
    for x in (135, 665):
        write(axes, x, 72, "after round t − 1:  θ, γ, ḡ")
        write(axes, x, 152, "expand the seeds of all edges")
        write(axes, x, 190, "γ ← γ + Σ sent − Σ received", weight="bold")
        write(axes, x, 208, "the noise difference", 9, style="italic")
        write(axes, x, 300, "mix θ and γ with row of W,", 10)
        write(axes, x, 317, "in the order of the senders", 10)
        write(axes, x, 357, "θ ← mix(θ) − Kλ · mix(γ)", weight="bold")
        write(axes, x, 397, "ḡ′: mean gradient along a")
        write(axes, x, 414, "private path of K steps from θ")
        write(axes, x, 454, "γ ← mix(γ) + ḡ′ − ḡ", weight="bold")
        write(axes, x, 494, "now and then: test θ,")
        write(axes, x, 511, "Metrics to the coordinator")
        for top, bottom in ((84, 142), (219, 290), (327, 347), (367, 387), (424, 444), (464, 484)):
            arrow(axes, (x, top), (x, bottom), color=EDGE, lw=1.0)
    messages = (
        (104, "Seed: 32 bytes, commitment", "once in an epoch, before round 0"),
        (240, "State: θ, and γ with its noise", "every round"),
    )
    for y, name, when in messages:
        write(axes, 400, y - 14, name, 10, color=STRONG, weight="bold")
        arrow(axes, (260, y), (540, y), color=STRONG)
        arrow(axes, (540, y + 14), (260, y + 14), color=STRONG)
        write(axes, 400, y + 30, when, 9, style="italic")
    lines = ("never sent:", "data, ḡ, the private path,", "noise (seeds stand for it)")
    for k, line in enumerate(lines):
        write(axes, 400, 380 + 18 * k, line, 10, weight="bold" if k == 0 else "normal")
    return figure


def main() -> None:
    """Writes both; the same bytes each time."""
    plt.rcParams.update({"svg.hashsalt": "lppa", "svg.fonttype": "path", "font.size": 10})
    for name, figure in (("folders", folders()), ("round", one_round())):
        path = DOCS / f"architecture-{name}.svg"
        figure.savefig(path, facecolor="white", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
