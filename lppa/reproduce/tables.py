"""The paper's tables, from finished cells: mean ± standard deviation beside the paper's values.

A table is columns and rows of plain values; as text it is Markdown, as CSV it has more digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lppa.report.csv_text import to_csv as to_csv  # how tables and points are written
from lppa.reproduce import paper
from lppa.reproduce.cells import Cell, Results
from lppa.reproduce.experiments import (
    ATTACKS,
    DSGT,
    NAIVE,
    Plan,
    Variant,
    rows_of,
    variants_of,
)
from lppa.reproduce.summaries import Spread, accuracy, attack_figures, loss, spread

NONE = "–"
TITLES = {
    "table1": "Table 1: accuracy (%) under homogeneous data partitioning",
    "table2": "Table 2: mean squared error under the DLG attack",
    "table3": "Table 3: accuracy (%) under quantity distribution skew",
    "table4": "Table 4: accuracy (%) under label distribution skew",
}
ACCURACY_COLUMNS = (
    "data set",
    "partition",
    "rule",
    "highest",
    "paper",
    "difference",
    "loss",
    "paper's loss",
    "last round",
    "seeds",
)
PRIVACY_COLUMNS = (
    "data set",
    "rule",
    "attack",
    "raw MSE",
    "paper",
    "raw MSE, median",
    "start, median",
    "clamped MSE, median",
    "mean guess, median",
    "PSNR, median",
    "attacks",
)
LOSS_ROW = "all"


@dataclass(frozen=True)
class Table:
    """A table with its notes; `missing` counts cells that are not finished."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    missing: int = 0


def accuracy_table(plan: Plan, results: Results, name: str) -> Table:
    """Tables 1, 3 and 4. Loss is DSGT minus the rule, over pairs with the same seed."""
    rows, notes = [], []
    keys = rows_of(name, plan.datasets)
    for row in keys:
        for variant in variants_of(name):
            made, said = _accuracy_row(plan, results, name, row, variant)
            rows.append(made)
            notes += said
    rows += [_loss_row(name, keys, rows, variant) for variant in variants_of(name)[1:]]
    cells = [
        plan.training(dataset, variant, seed, split)
        for dataset, split in keys
        for variant in variants_of(name)
        for seed in plan.seeds_of(name)
    ]
    notes += row_notes(results, cells) + paper.doubts(name)
    return Table(name, TITLES[name], ACCURACY_COLUMNS, rows, notes, count_missing(results, cells))


def _accuracy_row(
    plan: Plan, results: Results, name: str, row: paper.Row, variant: Variant
) -> tuple[dict[str, Any], list[str]]:
    dataset, split = row
    cells = [plan.training(dataset, variant, seed, split) for seed in plan.seeds_of(name)]
    plain = [plan.training(dataset, DSGT, seed, split) for seed in plan.seeds_of(name)]
    found = accuracy(results, cells)
    theirs = _theirs(name, row, variant)
    base = _theirs(name, row, DSGT)
    other = variant is not DSGT
    made = {
        "data set": dataset,
        "partition": split,
        "rule": variant.title,
        "highest": found.best,
        "paper": theirs,
        "difference": found.best.mean - theirs.mean if found.best and theirs else None,
        "loss": loss(results, zip(plain, cells, strict=True)) if other else None,
        "paper's loss": base.mean - theirs.mean if other and theirs and base else None,
        "last round": found.final,
        "seeds": found.best.count if found.best else 0,
    }
    return made, _diverged_notes(f"{dataset}, {split}, {variant.title}", found)


def _diverged_notes(where: str, found: Any) -> list[str]:
    if not found.diverged:
        return []
    text = f"{where}: {found.diverged} diverged; they count with the best that they reached"
    if found.untested:
        text += f", but for {found.untested} that never came to a test"
    return [text + "."]


def _theirs(name: str, row: paper.Row, variant: Variant) -> paper.Value | None:
    """The paper's value; it has none for data and rules that only we look at."""
    values = paper.ACCURACIES[name].get(row)
    return None if values is None or variant.noise_every else values[variant.rule]


def _loss_row(
    name: str, keys: Sequence[paper.Row], rows: Sequence[dict[str, Any]], variant: Variant
) -> dict[str, Any]:
    """The paper's last row: the mean loss over all rows, and the paper's for the same rows."""
    ours = {
        (row["data set"], row["partition"]): row["loss"].mean
        for row in rows
        if row["rule"] == variant.title and row["loss"] is not None
    }
    there = [key for key in keys if key in ours]
    theirs = None if variant.noise_every else paper.loss_of_rows(name, variant.rule, there)
    return {
        "data set": LOSS_ROW,
        "rule": variant.title,
        "loss": spread(list(ours.values())),
        "paper's loss": theirs,
    }


def privacy_table(plan: Plan, results: Results) -> Table:
    """Table 2. Means, as in the paper, are ruled by searches that ran away: medians follow."""
    rows, cells = [], []
    for dataset in plan.datasets:
        for variant, attack in ATTACKS:
            own = [plan.attacked(dataset, variant, seed) for seed in plan.seeds_of("table2")]
            cells += own
            rows.append(_privacy_row(results, dataset, variant, attack, own))
    notes = [
        "Errors are in parts of the range of an input: for images 1 is from black to white. The "
        "paper does not give its unit.",
        "`start` is the point that the search starts from, `mean guess` the mean of public data: "
        "neither needs any message. Where the raw error is above the start's, the search ran away.",
        "The attacker that subtracts what it knows (`difference`) is not in the paper.",
    ]
    notes += row_notes(results, cells)
    missing = count_missing(results, cells)
    return Table("table2", TITLES["table2"], PRIVACY_COLUMNS, rows, notes, missing)


def _privacy_row(
    results: Results, dataset: str, variant: Variant, attack: str, cells: Sequence[Cell]
) -> dict[str, Any]:
    raw = spread(attack_figures(results, cells, attack, "mse_raw"))
    names = [name for cell in cells[:1] if cell.attack for name in cell.attack.names]

    def median(figure: str, guess: str | None = None) -> float | None:
        found = spread(attack_figures(results, cells, attack, figure, guess=guess))
        return None if found is None else found.median

    return {
        "data set": dataset,
        "rule": variant.title,
        "attack": next(name for name in names if name.startswith(attack)),
        "raw MSE": raw,
        "paper": paper.TABLE2.get(dataset, {}).get(variant.rule) if attack == NAIVE else None,
        "raw MSE, median": None if raw is None else raw.median,
        "start, median": median("mse_raw", "start"),
        "clamped MSE, median": median("mse_clamped"),
        "mean guess, median": median("mse_clamped", "mean"),
        "PSNR, median": median("psnr"),
        "attacks": 0 if raw is None else raw.count,
    }


def count_missing(results: Results, cells: Sequence[Cell]) -> int:
    """Cells that are not finished, each counted once."""
    return len({cell.key for cell in cells} - results.keys())


def row_notes(results: Results, cells: Sequence[Cell]) -> list[str]:
    """How many rows each data set had: files may be incomplete, and small sizes use copies."""
    seen: dict[str, set[tuple[int, int]]] = {}
    for cell in cells:
        rows_there = results[cell.key].rows if cell.key in results else None
        if rows_there is not None:
            seen.setdefault(cell.dataset, set()).add(rows_there)
    return [
        f"{dataset}: "
        + " and ".join(f"{a:,} training and {b:,} test rows" for a, b in sorted(rows))
        for dataset, rows in seen.items()
    ]


MAKERS = {
    "table1": lambda plan, results: accuracy_table(plan, results, "table1"),
    "table2": privacy_table,
    "table3": lambda plan, results: accuracy_table(plan, results, "table3"),
    "table4": lambda plan, results: accuracy_table(plan, results, "table4"),
}


def text_cells(table: Table) -> list[list[str]]:
    """The rows as a person reads them."""
    precise = table.name == "table2"
    return [[_text(name, row.get(name), precise) for name in table.columns] for row in table.rows]


def _text(column: str, value: Any, precise: bool) -> str:
    if value is None:
        return NONE
    if isinstance(value, str | int):
        return str(value)
    shape = ".3g" if precise else ".2f"
    if isinstance(value, float):
        return _number(column, value, shape)
    text = _number(column, value.mean, shape)
    return text if value.deviation is None else f"{text} ± {value.deviation:{shape}}"


def _number(column: str, value: float, shape: str) -> str:
    if column.startswith("PSNR"):
        return f"{value:.1f} dB"
    signed = column in ("difference", "loss", "paper's loss")
    return f"{value:{'+' if signed else ''}{shape}}"


def markdown(table: Table) -> str:
    """Title, table and notes."""
    lines = [f"## {table.title}", ""]
    lines.append("| " + " | ".join(table.columns) + " |")
    lines.append("|" + "---|" * len(table.columns))
    lines += ["| " + " | ".join(row) + " |" for row in text_cells(table)]
    lines.append("")
    if table.missing:
        lines += [f"**Not complete: {table.missing} cells are missing.**", ""]
    lines += [f"- {note}" for note in table.notes]
    return "\n".join(lines).rstrip() + "\n"


def plain_rows(table: Table) -> list[dict[str, Any]]:
    """The rows as numbers: a value with a deviation takes two columns."""
    kinds = (Spread, paper.Value)
    wide = {n for n in table.columns if any(isinstance(row.get(n), kinds) for row in table.rows)}
    made = []
    for row in table.rows:
        plain: dict[str, Any] = {}
        for name in table.columns:
            value = row.get(name)
            plain[name] = value.mean if isinstance(value, kinds) else value
            if name in wide:
                plain[f"{name} ±"] = getattr(value, "deviation", None)
        made.append(plain)
    return made
