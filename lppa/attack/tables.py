"""Results of attacks as tables: a row for each, and totals over victims, runs and seeds.

Only the columns that some row has something for. Nothing is computed here but counts and means.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lppa.attack.results import AttackResult
from lppa.models.rules import facts_of

Line = Mapping[str, Any]
"""A result with its figures, or totals: what a table has a row for."""
Column = tuple[str, Callable[[Line], str | None]]

SUCCESS = 25.0
"""Decibels above which a person recognises every detail of an image."""
ALIKE = (
    *("attack", "round", "dataset", "model", "batch", "batches"),
    *("nodes", "topology", "rule", "beta", "noise_every"),
)
"""What results must have in common to be counted together."""
WIDTH = 110
FOLDED = ("round", "rule", "data", "clients")
"""Columns that go to the heading of a terminal's table where all rows agree."""


def noise(line: Line) -> str:
    """Rule and noise in a few words."""
    if facts_of(line["rule"]).noiseless:
        return str(line["rule"])
    every = line["noise_every"]
    often = "" if not every else " in every round" if every == 1 else f" every {every} rounds"
    return f"{line['rule']}, β {line['beta']:g}{often}"


def counts_labels(result: AttackResult) -> bool:
    """Whether the attack was on the labels of a whole batch, and so has a histogram's error."""
    return result.histogram_error is not None and result.batch > 1


def figures(result: AttackResult) -> dict[str, float | None]:
    """What is worth showing of a result: for images, tables and labels each its own figures."""
    counted = counts_labels(result)
    image = result.of_score("psnr") is not None
    cosine = None if image else result.of_score("cosine")
    return {
        "psnr": result.of_score("psnr"),
        "mean_image": result.of_guess("mean", "psnr") if image else None,
        "ssim": result.of_score("ssim"),
        "cosine": cosine,
        "mean_row": None if cosine is None else result.of_guess("mean", "cosine"),
        "labels": None if counted else result.of_score("label_accuracy"),
        "label_error": result.histogram_error if counted else None,
        "uniform": result.histogram_error_uniform if counted else None,
    }


def total(group: Sequence[AttackResult]) -> dict[str, Any]:
    """Counts and means over results of one kind."""
    shown = [figures(result) for result in group]
    images = [f["psnr"] for f in shown if f["psnr"] is not None]
    pairs = [(f["psnr"], f["mean_image"]) for f in shown]
    return {
        **{name: group[0][name] for name in ALIKE},
        **{name: mean([f[name] for f in shown]) for name in shown[0]},
        "median": mean(images, statistics.median),
        "seconds": mean([result.seconds for result in group]),
        "count": len(group),
        "images": len(images),
        "successes": sum(psnr > SUCCESS for psnr in images),
        "below": sum(p < guess for p, guess in pairs if p is not None and guess is not None),
    }


def totals(results: Sequence[AttackResult]) -> list[dict[str, Any]]:
    """Totals over the results that differ only in run, victim and attacker."""
    groups: dict[tuple[Any, ...], list[AttackResult]] = {}
    for result in results:
        groups.setdefault(tuple(result[name] for name in ALIKE), []).append(result)
    return [total(group) for group in groups.values()]


def mean(
    values: Sequence[float | None], of: Callable[[list[float]], float] = statistics.fmean
) -> float | None:
    """The mean of the values that there are."""
    there = [value for value in values if value is not None]
    return of(there) if there else None


def number(name: str, shape: str) -> Callable[[Line], str | None]:
    """A column's figure in its shape."""
    return lambda row: None if row[name] is None else shape.format(row[name])


def part(name: str) -> Callable[[Line], str | None]:
    """A column that counts images."""
    return lambda row: f"{row[name]} of {row['images']}" if row["images"] else None


COMMON: tuple[Column, ...] = (
    ("cosine", number("cosine", "{:.3f}")),
    ("mean row", number("mean_row", "{:.3f}")),
    ("labels", number("labels", "{:.0%}")),
    ("label error", number("label_error", "{:.3f}")),
    ("uniform guess", number("uniform", "{:.3f}")),
    ("s", number("seconds", "{:.1f}")),
)
EACH: tuple[Column, ...] = (
    ("run", lambda row: row.get("run_name")),
    ("attack", lambda row: row["attack"]),
    ("by", lambda row: "+".join(map(str, row["attackers"]))),
    ("on", lambda row: str(row["victim"])),
    ("round", lambda row: str(row["round"])),
    ("PSNR", number("psnr", "{:.1f} dB")),
    ("mean image", number("mean_image", "{:.1f} dB")),
    ("SSIM", number("ssim", "{:.2f}")),
    *COMMON,
)
TOTALS: tuple[Column, ...] = (
    ("attack", lambda row: row["attack"]),
    ("round", lambda row: str(row["round"])),
    ("rule", noise),
    (
        "data",
        lambda row: f"{row['dataset']}, {row['model']}, batch {row['batch']}, {row['batches']}",
    ),
    ("clients", lambda row: f"{row['topology']} {row['nodes']}"),
    (f"above {SUCCESS:g} dB", part("successes")),
    ("below mean image", part("below")),
    ("PSNR median", number("median", "{:.1f}")),
    ("PSNR mean", number("psnr", "{:.1f}")),
    ("mean image", number("mean_image", "{:.1f}")),
    *COMMON,
    ("attacks", lambda row: None if row["images"] else str(row["count"])),
)


def grid(columns: Sequence[Column], rows: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells, without the columns that no row has anything for."""
    cells = [[value(row) for _, value in columns] for row in rows]
    used = [k for k in range(len(columns)) if any(line[k] is not None for line in cells)]
    lines = [[line[k] or "–" for k in used] for line in cells]
    return [columns[k][0] for k in used], lines


def print_tables(results: Sequence[AttackResult], title: str, runs: Sequence[str] = ()) -> None:
    """On the terminal: a row for each result, and totals where there are several of a kind.

    `runs` names the run of each result, where there are several.
    """
    from rich.console import Console

    # A pipe has no width; 80 columns, which rich takes it to have, would cut rows off.
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    named: Sequence[str | None] = runs or [None] * len(results)
    rows = [
        {**result, **figures(result), "run_name": run}
        for result, run in zip(results, named, strict=True)
    ]
    console.print(_rich(title, *grid(EACH, rows)))
    counted = totals(results)
    if len(counted) < len(results):
        shown = [column for column in TOTALS if column[0] != "s"]  # to fit 80 columns
        console.print(_rich("together", *grid(shown, counted)))


def markdown(results: Sequence[AttackResult]) -> str:
    """The totals as a table for a document."""
    headings, lines = grid(TOTALS, totals(results))
    rule = ["---"] * len(headings)
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, rule, *lines))


def _rich(title: str, headings: list[str], lines: list[list[str]]) -> Any:
    from rich.table import Table

    columns = dict(zip(headings, zip(*lines, strict=True), strict=True))
    for name in FOLDED:
        if len(set(columns.get(name, ()))) == 1:
            (value,) = set(columns.pop(name))
            title += f"; round {value}" if name == "round" else f"; {value}"
    table = Table(title=title)
    for name, cells in columns.items():
        left = name in ("run", "attack", "by", *FOLDED)
        # What tells rows apart is never cut off; figures are short anyway.
        least = max(map(len, cells)) if name == "attack" else None
        heading = name if left else name.replace(" ", "\n")
        table.add_column(heading, justify="left" if left else "right", min_width=least)
    for line in zip(*columns.values(), strict=True):
        table.add_row(*line)
    return table
