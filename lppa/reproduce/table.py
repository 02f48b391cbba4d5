"""A table as a value: columns and rows of plain values, and how they become text.

What stands in the paper's tables is the matter of `accuracy` and `privacy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lppa.report.csv_text import to_csv as to_csv  # how tables and points are written
from lppa.reproduce import paper
from lppa.reproduce.cells import Cell, Results
from lppa.reproduce.costs import known_rows
from lppa.reproduce.summaries import Spread

NONE = "–"
SIGNED = ("loss", "difference")  # how columns begin that have a sign
DEVIATIONS = ("sample", "population")


@dataclass(frozen=True)
class Table:
    """A table with its notes; `missing` counts cells that are not finished.

    `data` is the same for programs, one value a column, where that is not how people read it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    missing: int = 0
    data: list[dict[str, Any]] = field(default_factory=list)
    shape: str = ".2f"
    """Of numbers."""
    deviation: str = "sample"


def count_missing(results: Results, cells: Sequence[Cell]) -> int:
    """Cells that are not finished, each counted once."""
    return len({cell.key for cell in cells} - results.keys())


def rows_seen(results: Results, cells: Sequence[Cell]) -> dict[str, set[tuple[int, int]]]:
    """How many rows for training and testing there were, by data set."""
    seen: dict[str, set[tuple[int, int]]] = {}
    for cell in cells:
        rows_there = results[cell.key].rows if cell.key in results else None
        if rows_there is not None:
            seen.setdefault(cell.dataset, set()).add(rows_there)
    return seen


def row_notes(results: Results, cells: Sequence[Cell]) -> list[str]:
    """How many rows each data set had: files may be incomplete, and small sizes use copies."""
    return [
        f"{dataset}: "
        + " and ".join(f"{a:,} training and {b:,} test rows" for a, b in sorted(rows))
        + (", a sample" if is_sample(dataset, rows) else "")
        for dataset, rows in rows_seen(results, cells).items()
    ]


def is_sample(dataset: str, rows: set[tuple[int, int]]) -> bool:
    """Whether there were fewer rows than are published."""
    whole = known_rows(dataset)
    return any(train < whole[0] or test < whole[1] for train, test in rows)


def called(dataset: str, results: Results, cells: Sequence[Cell]) -> str:
    """A data set's name in a table: whoever reads it must see that it is a sample."""
    seen = rows_seen(results, cells)
    sample = any(is_sample(name, rows) for name, rows in seen.items())
    return f"{dataset} (sample)" if sample else dataset


def text_cells(table: Table) -> list[list[str]]:
    """The rows as a person reads them."""
    return [[text(table, name, row.get(name)) for name in table.columns] for row in table.rows]


def text(table: Table, column: str, value: Any) -> str:
    """One value of a table."""
    if value is None:
        return NONE
    if isinstance(value, str | int):
        return str(value)
    shape = ("+" if column.startswith(SIGNED) else "") + table.shape
    if isinstance(value, float):
        return f"{value:{shape}}"
    around = deviation(value, table.deviation)
    return f"{value.mean:{shape}}" + ("" if around is None else f" ± {around:{table.shape}}")


def deviation(value: Spread | paper.Value, kind: str) -> float | None:
    """The ± of a value; of the paper's as it stands there."""
    if isinstance(value, Spread) and kind == "population":
        return value.population
    return value.deviation


def markdown(table: Table) -> str:
    """Title, table and notes."""
    lines = [f"## {table.title}", "", *markdown_rows(table.columns, text_cells(table)), ""]
    if table.missing:
        lines += [f"**Not complete: {table.missing} cells are missing.**", ""]
    lines += [f"- {note}" for note in table.notes]
    return "\n".join(lines).rstrip() + "\n"


def markdown_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def plain_rows(table: Table) -> list[dict[str, Any]]:
    """The rows as numbers: a value with a deviation takes two columns."""
    rows = table.data or table.rows
    columns = list(table.data[0]) if table.data else list(table.columns)
    kinds = (Spread, paper.Value)
    wide = {n for n in columns if any(isinstance(row.get(n), kinds) for row in rows)}
    made = []
    for row in rows:
        plain: dict[str, Any] = {}
        for name in columns:
            value = row.get(name)
            if isinstance(value, kinds):
                plain |= {name: value.mean, f"{name} ±": deviation(value, table.deviation)}
            else:
                plain |= {name: value, **({f"{name} ±": None} if name in wide else {})}
        made.append(plain)
    return made
