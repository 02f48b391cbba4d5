"""Table 2: what attackers get out of one message, in the paper's likely unit and in ours.

The paper's "MSE" is most likely ‖x̂ − x‖₂: the distances of guesses that need no message, measured
on the data, say which of its figures are those of a search that never moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lppa.reproduce import paper
from lppa.reproduce.cells import Cell, Results
from lppa.reproduce.experiments import (
    ATTACKERS,
    DIFFERENCE,
    EXPERIMENTS,
    NAIVE,
    POOLED,
    PRIOR,
    Plan,
    Variant,
)
from lppa.reproduce.summaries import Spread, attack_figures, spread
from lppa.reproduce.table import NONE, Table, called, count_missing, row_notes

TITLE = "Table 2: ‖x̂ − x‖₂ between what an attack rebuilds and the truth"
WHO = {
    NAIVE: "the paper's attacker",
    DIFFERENCE: "subtracting",
    PRIOR: "with a prior",
    POOLED: "two pooled",
}
GUESSES = {"start": "start", "mean": "mean row", "zeros": "zeros"}
FIGURES = ("distance", "mse_raw", "mse_clamped", "psnr", "cosine")
LIKENESS = "PSNR or cosine, in this order"


def privacy_table(plan: Plan, results: Results) -> Table:
    """A row for each rule; the attackers that the paper does not have are further columns."""
    rows: list[dict[str, Any]] = []
    data: list[dict[str, Any]] = []
    checks: list[str] = []
    for dataset in plan.datasets:
        name = dataset
        for variant in ATTACKERS:
            cells = attacked_cells(plan, dataset, variant)
            name = called(dataset, results, cells)
            rows.append(people_row(plan, results, name, dataset, variant, cells))
            for who in ATTACKERS[variant]:
                found = program_row(results, cells, who)
                data.append({"data set": name, "rule": variant.title, "attacker": who, **found})
        checks += never_moved(plan, results, dataset)
    cells = EXPERIMENTS["table2"](plan)
    others = [who for who in WHO if who != NAIVE]
    notes = [
        "Distances are of what networks are given, not clamped: pixels between 0 and 1, columns of "
        "Adult and Covtype standardised. Columns without ± are medians.",
        "`start` is the random point that a search begins at, `mean row` the mean of public data, "
        "`zeros` nothing at all: none of them needs a message. Above the start, a search ran away.",
        "`MSE` is the mean square in parts of an input's range, not clamped; PSNR is of clamped "
        "images (25 dB: every detail is there), and rows of tables have a cosine instead.",
        f"Not in the paper: {', '.join(WHO[who] for who in others)}. The first looks at two "
        "messages, the others at one; they know β, and take out the noise that they exchanged.",
        *checks,
        *row_notes(results, cells),
    ]
    columns = (
        *("data set", "rule", "paper", "distance", "distance, median", "MSE"),
        *(f"distance of {guess}" for guess in GUESSES.values()),
        *(WHO[who] for who in others),
        LIKENESS,
        "attacks",
    )
    missing = count_missing(results, cells)
    return Table(
        "table2", TITLE, columns, rows, notes, missing, data, ".3g", deviation=plan.deviation
    )


def attacked_cells(plan: Plan, dataset: str, variant: Variant) -> list[Cell]:
    """The cells of a row."""
    return [plan.attacked(dataset, variant, seed) for seed in plan.seeds_of("table2")]


def middle(
    results: Results, cells: Sequence[Cell], who: str, figure: str, guess: str | None = None
) -> float | None:
    """The median over all attacks of a kind."""
    found = spread(attack_figures(results, cells, who, figure, guess=guess))
    return None if found is None else found.median


def people_row(
    plan: Plan, results: Results, name: str, dataset: str, variant: Variant, cells: Sequence[Cell]
) -> dict[str, Any]:
    """All attackers of a rule, side by side."""
    away = spread(attack_figures(results, cells, NAIVE, "distance"))
    theirs = None if variant.noise_every else paper.TABLE2.get(dataset, {}).get(variant.rule)
    row: dict[str, Any] = {
        "data set": name,
        "rule": variant.title,
        "paper": None if theirs is None else f"{theirs:.3f}",
        "distance": away,
        "distance, median": None if away is None else away.median,
        "MSE": middle(results, cells, NAIVE, "mse_raw"),
        "attacks": 0 if away is None else away.count,
    }
    for guess, title in GUESSES.items():
        row[f"distance of {title}"] = middle(results, cells, NAIVE, "distance", guess)
    for who, title in WHO.items():
        if who != NAIVE:
            row[title] = middle(results, cells, who, "distance")
    row[LIKENESS] = " / ".join(likeness(results, cells, who) for who in ATTACKERS[variant])
    return row


def likeness(results: Results, cells: Sequence[Cell], who: str) -> str:
    """How much of the truth can be seen: decibels for images, the cosine for rows of tables."""
    decibels = middle(results, cells, who, "psnr")
    if decibels is not None:
        return f"{decibels:.1f} dB"
    cosine = middle(results, cells, who, "cosine")
    return NONE if cosine is None else f"{cosine:.3f}"


def program_row(results: Results, cells: Sequence[Cell], who: str) -> dict[str, Any]:
    """All figures of one attacker: mean and deviation of the distance, medians of all."""
    away: Spread | None = spread(attack_figures(results, cells, who, "distance"))
    row: dict[str, Any] = {"distance": away}
    row |= {f"{figure}, median": middle(results, cells, who, figure) for figure in FIGURES}
    for guess in GUESSES:
        row[f"distance of {guess}, median"] = middle(results, cells, who, "distance", guess)
    return {**row, "attacks": 0 if away is None else away.count}


def never_moved(plan: Plan, results: Results, dataset: str) -> list[str]:
    """Which of the paper's figures are the distance of a random start, by arithmetic alone."""
    theirs = paper.TABLE2.get(dataset)
    measured = next(
        (
            results[cell.key].distances
            for variant in ATTACKERS
            for cell in attacked_cells(plan, dataset, variant)
            if cell.key in results and results[cell.key].distances
        ),
        None,
    )
    if theirs is None or measured is None:
        return []
    return [moved_in_words(dataset, theirs, kind, of["start"]) for kind, of in measured.items()]


def moved_in_words(
    dataset: str, theirs: Mapping[str, float], kind: str, start: Sequence[float]
) -> str:
    """The arithmetic for one form of a data set."""
    mean, least, most = start
    there = [f"{rule.upper()} {far:g}" for rule, far in theirs.items() if least <= far <= most]
    rows = "raw rows, unscaled" if kind == "raw" else "rows as networks are given them"
    said = (
        f"{dataset}, {rows}: a random start N(0, 1) is {mean:.2f} away "
        f"({least:.2f} to {most:.2f}). "
    )
    if not there:
        return said + "None of the paper's figures is such a distance."
    apart = max(theirs.values()) / min(theirs.values()) - 1
    said += f"Of the paper's figures {', '.join(there)} {'is' if len(there) == 1 else 'are'}"
    return said + f"; its three rules differ by {100 * apart:.2g} %."
