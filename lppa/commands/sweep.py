"""`lppa sweep`: all combinations of some settings. A thin shell over `sweep` and `pool`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from lppa.options import json_option, out_option
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically
from lppa.report.csv_text import to_csv
from lppa.reproduce.cells import Store
from lppa.reproduce.pool import run_cells
from lppa.reproduce.progress import choose_progress
from lppa.running.display import print_whole
from lppa.shell import is_quiet, show_errors, verbosity
from lppa.sweep.grid import Sweep, read_grid
from lppa.sweep.table import Row, columns, front, make_rows, markdown, notes, plain_rows, text_rows

LEFT = ("grade",)


@click.command(
    epilog="Example: lppa sweep grid.toml --out sweeps/first",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("grid", metavar="GRID", type=click.Path(path_type=Path, dir_okay=False))
@out_option(
    "Where finished runs, the table and the picture go.  [default: sweeps/ and GRID's name]",
    kind="folder",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Runs at once, each with all its clients.  [default: one for each core]",
)
@json_option("Print the table as JSON.")
@verbosity
@show_errors
def sweep(grid: Path, out: Path | None, jobs: int | None, as_json: bool) -> None:
    """Run all combinations of settings in GRID, each under several seeds.

    \b
    GRID is a TOML file:
      nodes = 5                       # or a list
      seeds = [1, 2, 3]
      [base]                          # for all, spelled as in lppa run --config
      rounds = 20
      [grid]                          # every combination of these
      rule = ["dsgt", "lppa"]
      topology = ["full", "ring"]

    What is finished is kept in --out and never run again: call it again after an interruption, or
    with more values. The runs themselves are in runs/ there, without their models. At the end:
    table.md, table.csv, and front.png, accuracy against protection.
    """
    wanted = read_grid(grid)
    out = out or Path("sweeps") / grid.stem
    cells = wanted.cells()
    try:
        store = Store(out / "cells.jsonl")
    except OSError as error:
        raise WrongUse(f"cannot write to --out {out}: {error.strerror}") from None
    failed = []
    with store:
        write_atomically(out / "grid.toml", grid.read_bytes())
        missing = [cell for cell in cells if cell.key not in store.results]
        if missing:
            progress = choose_progress(missing, len(cells) - len(missing), is_quiet())
            failed = run_cells(missing, store, out, progress, jobs)
        rows = make_rows(wanted, store.results)
        written = write(wanted, rows, grid.stem, out)
        lacking = [cell.key for cell in cells if cell.key not in store.results]
    if as_json:
        best = [row.combination.varied for row in front(rows)]
        about = {"out": str(out), "seeds": list(wanted.seeds), "missing": lacking}
        about |= {"files": [str(path) for path in written]}
        click.echo(json.dumps({**about, "rows": plain_rows(rows), "front": best}, indent=2))
    else:
        print_table(wanted, rows, grid.stem, written)
    if failed:
        cell, reason = failed[0]
        click.echo(f"error: {len(failed)} runs failed, the first {cell.name}: {reason}", err=True)
        sys.exit(1)


def write(wanted: Sweep, rows: Sequence[Row], title: str, out: Path) -> list[Path]:
    """The table as Markdown and CSV, and the picture where there is something to draw."""
    from lppa.sweep.front import draw_front

    written = [out / "table.md", out / "table.csv"]
    write_atomically(written[0], markdown(wanted, rows, f"Sweep {title}"))
    write_atomically(written[1], to_csv(plain_rows(rows)))
    picture = out / "front.png"
    if draw_front(picture, rows, f"{title}: accuracy against protection"):
        return [*written, picture]
    # One of an earlier grid would be taken for this one's.
    picture.unlink(missing_ok=True)
    return written


def print_table(wanted: Sweep, rows: Sequence[Row], title: str, written: Sequence[Path]) -> None:
    """The same table on the terminal."""
    from rich.table import Table

    table = Table(title=f"sweep {title}")
    for name in columns(wanted, rows):
        left = name in wanted.axes or name in LEFT
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for row in text_rows(wanted, rows):
        table.add_row(*row)
    print_whole(table)
    for text in [*notes(wanted, rows), f"written: {', '.join(map(str, written))}"]:
        click.echo(text)
