"""`lppa reproduce`: runs what is missing of the paper's tables and figures, and shows them all."""

from __future__ import annotations

import json
import logging
import platform
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from lppa.options import json_option, out_option
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically
from lppa.reproduce import figures, paper, table, tables
from lppa.reproduce.cells import Cell, Results, Store, read_results
from lppa.reproduce.costs import in_time
from lppa.reproduce.experiments import EXPERIMENTS, Plan, all_cells
from lppa.reproduce.page import claims_page, overview, page, plan_lines, weigher
from lppa.reproduce.pool import cores_here, run_cells
from lppa.reproduce.progress import choose_progress
from lppa.reproduce.readings import DEFAULT, READINGS
from lppa.reproduce.sizes import FULL, QUICK, TINY, Size, default_datasets
from lppa.running.rundir import PACKAGES
from lppa.shell import is_quiet, show_errors, verbosity

log = logging.getLogger("lppa.reproduce")

WIDE = 160  # columns, where nobody says how many there are
DATASETS = (*paper.DATASETS, "digits")
Made = table.Table | figures.Figure


@click.command(
    epilog="Example: lppa reproduce table1 fig-training --datasets mnist,adult --seeds 3"
)
@click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    type=click.Choice([*EXPERIMENTS, "all"]),
)
@click.option("--quick", is_flag=True, help="All of it in minutes, on digits and a little MNIST.")
@click.option("--tiny", is_flag=True, hidden=True)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    help="Seeds 1 to K.  [default: 5 for table 1, else 3; --quick: 2 and 1]",
)
@click.option(
    "--datasets", help=f"Some of {', '.join(DATASETS)}, comma-separated.  [default: the paper's]"
)
@click.option(
    "--reading",
    type=click.Choice(list(READINGS)),
    default=DEFAULT,
    show_default=True,
    help="How the paper's setting is read. "
    + " ".join(f"{name}: {reading.about}." for name, reading in READINGS.items()),
)
@out_option(
    "Where finished work, tables and figures go.",
    kind="folder",
    default=Path("reproduction"),
    show_default=True,
)
@click.option(
    "--deviation",
    type=click.Choice(table.DEVIATIONS),
    default=table.DEVIATIONS[0],
    show_default=True,
    help="What ± is: the standard deviation of a sample, or of the population.",
)
@click.option("--show", is_flag=True, help="Run nothing; write and show what is there.")
@click.option(
    "--plan", "only_plan", is_flag=True, help="Run nothing; say what there is to run, and how long."
)
@json_option("Print the results as JSON.")
@verbosity
@show_errors
def reproduce(
    names: tuple[str, ...],
    quick: bool,
    tiny: bool,
    seeds: int | None,
    datasets: str | None,
    reading: str,
    out: Path,
    deviation: str,
    show: bool,
    only_plan: bool,
    as_json: bool,
) -> None:
    """Reproduce tables and figures of the paper: one of these, several, or all.

    table1 to table4, readings (the first table in every reading), fig-training, fig-dlg-curve,
    fig-dlg-images, fig-noise, fig-local-epoch, fig-clients. Whatever is finished is kept in --out
    and never run again, so that a run that was interrupted goes on where it was. Each table is
    printed beside the paper's values; `all` also writes README.md: what of the paper holds.
    """
    size = TINY if tiny else QUICK if quick else FULL
    plan = replace(make_plan(size, reading, seeds, datasets), deviation=deviation)
    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    cells = all_cells(plan, wanted)
    failed: list[tuple[Cell, str]] = []
    if only_plan:
        results = read_results(out / "cells.jsonl")
        click.echo("\n".join(plan_lines(plan, results, wanted, cores_here())))
        return
    if show:
        results = read_results(out / "cells.jsonl")
    else:
        with Store(out / "cells.jsonl") as store:
            results = store.results
            missing = [cell for cell in cells if cell.key not in results]
            if missing:
                done = len(cells) - len(missing)
                progress = choose_progress(missing, done, is_quiet(), weigher(plan, results))
                failed = run_cells(missing, store, out, progress)
    made = [make(name, plan, results) for name in wanted]
    suffix = suffix_of(plan)
    for one in made:
        if any(cell.key in results for cell in EXPERIMENTS[one.name](plan)):
            write(one, out, suffix)
    if "all" in names and any(cell.key in results for cell in cells):
        write_page(plan, results, out, suffix)
    if not show:
        about = json.dumps(about_record(plan, wanted, len(cells)), indent=2)
        write_atomically(out / f"about{suffix}.json", about + "\n")
    missing = [cell for cell in cells if cell.key not in results]
    if as_json:
        shown = {"missing": [cell.key for cell in missing], **as_plain(made)}
        click.echo(json.dumps(shown, indent=2))
    else:
        print_all(made, out, suffix)
        if missing:
            nominal = in_time(sum(map(weigher(plan, results), missing)))
            log.info(
                "%d of %d cells are missing, very roughly %s of one core",
                len(missing),
                len(cells),
                nominal,
            )
    if failed:
        cell, reason = failed[0]
        click.echo(f"error: {len(failed)} cells failed, the first {cell.name}: {reason}", err=True)
        sys.exit(1)


def make_plan(size: Size, reading: str, seeds: int | None, datasets: str | None) -> Plan:
    """What is asked for, checked."""
    chosen = default_datasets(size)
    if datasets is not None:
        chosen = tuple(dict.fromkeys(name.strip() for name in datasets.split(",")))
        unknown = [name for name in chosen if name not in DATASETS]
        if unknown:
            raise WrongUse(f"--datasets: unknown {unknown[0]!r}; known: {', '.join(DATASETS)}")
    return Plan(size, reading, seeds, chosen)


def make(name: str, plan: Plan, results: Results) -> Made:
    """A table or a figure from what is finished."""
    makers: dict[str, Callable[[Plan, Results], Made]] = {**tables.MAKERS, **figures.MAKERS}
    return makers[name](plan, results)


def suffix_of(plan: Plan) -> str:
    """Results of another reading or size stand beside the others, under names of their own."""
    reading = "" if plan.reading == DEFAULT else f"-{plan.reading}"
    return reading + ("" if plan.size.name == "full" else f"-{plan.size.name}")


def write(made: Made, out: Path, suffix: str) -> None:
    """Tables as Markdown and CSV; figures as PNG and SVG, with their points as CSV."""
    stem = made.name + suffix
    if isinstance(made, table.Table):
        write_atomically(out / f"{stem}.md", table.markdown(made))
        write_atomically(out / f"{stem}.csv", table.to_csv(table.plain_rows(made)))
        return
    from lppa.reproduce.drawing import draw

    draw(made, out, stem)
    write_atomically(out / f"{stem}.csv", table.to_csv(figures.plain_points(made)))


def write_page(plan: Plan, results: Results, out: Path, suffix: str) -> None:
    """README.md, which answers in a minute, with its figure and the criteria of its verdicts."""
    from lppa.reproduce.drawing import draw

    draw(overview(plan, results), out, f"overview{suffix}")
    write_atomically(out / f"README{suffix}.md", page(plan, results, suffix))
    write_atomically(out / f"claims{suffix}.md", claims_page(plan, results, suffix))


def about_record(plan: Plan, names: list[str], cells: int) -> dict[str, Any]:
    """What is needed to make the same again."""
    return {
        "command": shlex.join(["lppa", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "names": names,
        "size": plan.size.name,
        "reading": plan.reading,
        "seeds": {name: len(plan.seeds_of(name)) for name in names},
        "datasets": list(plan.datasets),
        "cells": cells,
        "python": platform.python_version(),
        "versions": {package: metadata.version(package) for package in PACKAGES},
    }


def as_plain(made: list[Made]) -> dict[str, Any]:
    """All results as plain values."""
    plain: dict[str, Any] = {"tables": {}, "figures": {}}
    for one in made:
        about = {"title": one.title, "notes": one.notes, "missing": one.missing}
        if isinstance(one, table.Table):
            plain["tables"][one.name] = {**about, "rows": table.plain_rows(one)}
        else:
            plain["figures"][one.name] = {**about, "points": figures.plain_points(one)}
    return plain


def print_all(made: list[Made], out: Path, suffix: str) -> None:
    """Tables in full; of figures where they are and what is to be said of them."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    for one in made:
        if isinstance(one, table.Table):
            shown = Table(title=one.title)
            for name in one.columns:
                left = name in ("data set", "partition", "rule", "whose", "reading")
                shown.add_column(name, justify="left" if left else "right", overflow="fold")
            for row in table.text_cells(one):
                shown.add_row(*row)
            console.print(shown)
        else:
            path = out / f"{one.name}{suffix}.png"
            say(f"{one.title}: {path if path.exists() else 'not drawn yet'}")
        for note in [f"{one.missing} cells missing"] * bool(one.missing) + one.notes:
            say(f"  {note}")
        say("")
