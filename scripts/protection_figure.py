"""Tables and picture of docs/protection.md, from what scripts/protection_curve.py measured.

Usage: python scripts/protection_figure.py      prints the tables, draws docs/protection-curve.png
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from protection_curve import CURVE, LABELS, PLACES, read

from lppa.attack.protection import CLASS_PRIOR
from lppa.auditing.grade import HIDDEN_FROM, OPEN_BELOW

CLEAR, RECOGNISED, LEAK, MEAN_LEAK = 6.0, 20.0, 3.0, 1.0
"""Decibels: a median gain and a PSNR that mean rebuilt; most for one image, and in the mean."""
COLOURS = dict(zip(PLACES, ("#2166ac", "#e08214", "#b2182b", "#35978f", "#762a83"), strict=True))
BANDS = (("open", "#fbd5d0"), ("weak", "#fdf0c8"), ("hidden", "#d9efd8"))
TOP = 45.0  # decibels; above, more is only more digits of the same pixels

Row = dict[str, Any]


def gain(row: Row) -> float:
    """Decibels over the guess that the attack begins with: the mean image, or that of the class."""
    return row["psnr"] - row["class_psnr" if row["attack"] == CLASS_PRIOR else "mean_psnr"]


def best(rows: Iterable[Row], key: Any = gain) -> list[Row]:
    """Of all attacks on an image the one with the largest gain."""
    found: dict[tuple, Row] = {}
    for row in rows:
        at = tuple(row[k] for k in ("dataset", "network", "ratio", "victim", "image"))
        if at not in found or key(row) > key(found[at]):
            found[at] = row
    return list(found.values())


def over_mean(row: Row) -> float:
    """Decibels over the mean image, whatever the label alone was worth."""
    return row["psnr"] - row["mean_psnr"]


def ratios(rows: Iterable[Row]) -> list[float]:
    """Those that were measured, in order."""
    return sorted({row["ratio"] for row in rows})


def at(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows that agree with what is wanted."""
    return [row for row in rows if all(row[k] == v for k, v in wanted.items())]


def table(rows: Sequence[Row], key: Any = gain) -> str:
    """Median and largest gain of the best attack for each place, a line for each ratio."""
    lines = [["r", *(f"{d} {n}" for d, n in PLACES), "all: mean", "all: largest", "above 20 dB"]]
    lines.append(["---"] * len(lines[0]))
    for ratio in ratios(rows):
        here = best(at(rows, ratio=ratio), key)
        cells = []
        for dataset, network in PLACES:
            some = [key(row) for row in at(here, dataset=dataset, network=network)]
            cells.append(f"{statistics.median(some):.1f} / {max(some):.1f}" if some else "–")
        gains = [key(row) for row in here]
        clear = sum(row["psnr"] > RECOGNISED for row in here)
        cells += [f"{statistics.fmean(gains):.1f}", f"{max(gains):.1f}", f"{clear} of {len(here)}"]
        lines.append([f"{ratio:g}", *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def thresholds(rows: Sequence[Row]) -> tuple[float | None, float | None]:
    """The largest ratio at which images are rebuilt; the one from which on no more than a guess.

    Both are measured ratios, without any safety factor.
    """
    rebuilt, hidden = None, None
    for ratio in ratios(rows):
        here = best(at(rows, ratio=ratio))
        groups = [[gain(r) for r in at(here, dataset=d, network=n)] for d, n in PLACES]
        medians = [statistics.median(group) for group in groups if group]
        if max(medians) >= CLEAR or max(row["psnr"] for row in here) > RECOGNISED:
            rebuilt = ratio
        means = [statistics.fmean(group) for group in groups if group]
        leaks = max(gain(row) for row in here) > LEAK or max(means) > MEAN_LEAK
        hidden = None if leaks else hidden or ratio
    return rebuilt, hidden


def draw(rows: Sequence[Row], labels: Sequence[Row]) -> None:
    """Gain against the ratio, a dot per image and a line of medians; below, labels read."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 7.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    edges = (0.0022, OPEN_BELOW, HIDDEN_FROM, 140.0)
    for axis in (upper, lower):
        for (name, colour), left, right in zip(BANDS, edges, edges[1:], strict=False):
            axis.axvspan(left, right, color=colour, lw=0, zorder=0)
            if axis is upper:
                axis.text((left * right) ** 0.5, TOP - 2, name, ha="center", weight="bold")
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xscale("log")
        axis.set_xlim(edges[0], edges[-1])
        axis.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    chosen = best(rows)
    for number, place in enumerate(PLACES):
        dataset, network = place
        own = at(chosen, dataset=dataset, network=network)
        xs = ratios(own)
        # Side by side, so that dots of different networks do not hide each other.
        shift = 1.035 ** (number - 2)
        upper.plot(
            [row["ratio"] * shift for row in own],
            [min(gain(row), TOP) for row in own],
            ".",
            color=COLOURS[place],
            alpha=0.45,
            ms=6,
        )
        middle = [statistics.median(gain(row) for row in at(own, ratio=x)) for x in xs]
        upper.plot(xs, middle, "-", color=COLOURS[place], lw=1.8, label=f"{network} on {dataset}")
        read_off = at(labels, dataset=dataset, network=network)
        shares = [100 * row["right"] / row["victims"] for row in read_off]
        lower.plot(
            [row["ratio"] for row in read_off], shares, "o-", color=COLOURS[place], lw=1.5, ms=3
        )
    upper.axhline(0, color="#222222", lw=1)
    upper.axhline(LEAK, color="#222222", lw=1, ls="--")
    upper.text(0.0025, LEAK + 0.5, "3 dB", fontsize=9)
    upper.text(0.0025, -1.9, "the mean image that it starts from", fontsize=9)
    upper.set_ylim(-6, TOP)
    upper.set_ylabel("gain of the best attack over a guess (dB)")
    upper.legend(
        frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.93), title="median of victims"
    )
    upper.set_title("Batch 1, first gradient: what is rebuilt from it under noise", fontsize=11)
    lower.axhline(10, color="#222222", lw=1, ls=":")
    lower.text(0.0025, 13, "a guess", fontsize=9)
    lower.set_ylim(0, 105)
    lower.set_ylabel("labels read (%)")
    lower.set_xlabel("r = deviation of the noise that is left ÷ rms of the gradient")
    figure.savefig(CURVE.with_suffix(".png"), facecolor="white")


def main() -> None:
    """Prints what docs/protection.md quotes, and draws the picture."""
    rows, labels = read(CURVE), read(LABELS)
    single, change = at(rows, observation="gradient"), at(rows, observation="difference")
    print("gain over the attack's own guess: median / largest\n" + table(single))
    plain = [row for row in single if row["attack"] != CLASS_PRIOR]
    print("\nwithout the prior of the class\n" + table(plain))
    print("\ngain over the mean image, label included\n" + table(single, over_mean))
    if change:
        print("\ndifference\n" + table(change))
    print("\nlargest ratio with rebuilt images, smallest with none:", thresholds(single))
    worth = {(r["dataset"], r["victim"]): r["class_psnr"] - r["mean_psnr"] for r in single}
    print("the mean of the class over the mean image:", worth)
    draw(single, labels)


if __name__ == "__main__":
    main()
