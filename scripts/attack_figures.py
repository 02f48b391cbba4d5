"""What attacks show, case by case: runs with fixed seeds, attacks on what was recorded, one table.

Usage: python scripts/attack_figures.py [digits] [mnist] [adult] [--out FOLDER] [--only WORDS]
Cells as those of `lppa reproduce`, run by the same workers: what is finished is kept in FOLDER and
not run again. mnist and adult need LPPA_DATA. --only makes the cases whose name has these words.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from lppa.attack.results import AttackResult, read_results
from lppa.attack.tables import markdown
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically
from lppa.protocol.settings import PRESETS, make_settings
from lppa.reproduce.cells import Attack, Cell, Store
from lppa.reproduce.pool import run_cells
from lppa.reproduce.progress import choose_progress
from lppa.shell import show_errors
from lppa.sweep.grid import make_cell

# The paper's setting with one step a round: noise at the start only, unless a case says otherwise.
PAPER: dict[str, Any] = {
    **PRESETS["paper"],
    "noise_every": 0,
    "noise_exchange": "tensor",
    "beta": 0.025,
    "local_steps": 1,
    "rounds": 3,
    "reveal_batches": True,
    "eval_samples": 100,
}
ONE = {**PAPER, "batch": 1}
LENET = {**ONE, "model": "lenet"}
MANY = {**PAPER, "batch": 256, "partition": "dirichlet:0.5"}
RESTARTS = 4
SEEDS = (1, 2, 3)
FIRST = (1,)
# Each node of a directed ring hears only the one before it: six pairs of attacker and victim.
RING, ODD = {**LENET, "topology": "directed-ring"}, (1, 3, 5, 7, 9, 11)


def cases(
    name: str,
    attacks: str,
    settings: dict[str, Any],
    seeds: tuple[int, ...] = SEEDS,
    nodes: int = 5,
    attackers: tuple[int, ...] = (),
) -> Iterator[Cell]:
    """The same run for each seed, with attacks on all that an attacker hears; by default the last.

    A cell's label is the name of its case.
    """
    spies = attackers or (nodes - 1,)
    attack = Attack(tuple(attacks.split(",")), spies, None, (0,), RESTARTS)
    for seed in seeds:
        told = make_settings({**settings, "seed": seed})
        yield make_cell(told, nodes, name, settings.keys(), attack)


def images(data: str) -> Iterator[Cell]:
    """What is shown on images."""
    of = {"dataset": data}
    lppa, dsgt = {**of, "rule": "lppa"}, {**of, "rule": "dsgt"}
    yield from cases(f"{data}-dsgt-lenet", "naive/dlg", {**LENET, **dsgt}, FIRST, 11)
    cnn = {**ONE, **dsgt, "model": "cnn"}
    yield from cases(f"{data}-dsgt-cnn", "naive/cosine", cnn, FIRST, 11)
    three = "naive/dlg,neighbour/likelihood,difference/dlg"
    yield from cases(f"{data}-lppa-next", three, {**LENET, **lppa})
    same = {**LENET, **lppa, "batches": "same"}
    yield from cases(f"{data}-lppa-same", "difference/dlg", same)
    often = {**LENET, **lppa, "noise_every": 1}
    yield from cases(f"{data}-lppa-every-round", "difference/dlg", often)
    for rule in ("lppa", "dp"):
        ring = {**RING, **of, "rule": rule}
        name = f"{data}-directed-ring-{rule}"
        yield from cases(name, "neighbour/likelihood", ring, FIRST, 12, ODD)
    yield from cases(f"{data}-labels-dsgt", "naive/labels", {**MANY, **dsgt})
    labels = "naive/labels,neighbour/labels,difference/labels"
    yield from cases(f"{data}-labels-lppa", labels, {**MANY, **lppa})


def rows(data: str) -> Iterator[Cell]:
    """What is shown on rows of a table."""
    of = {**ONE, "dataset": data}
    yield from cases(f"{data}-svd-dsgt", "naive/svd", {**of, "rule": "dsgt"})
    several = "naive/svd,neighbour/svd,neighbour/likelihood,difference/svd"
    yield from cases(f"{data}-svd-lppa", several, {**of, "rule": "lppa"})


CASES = {"digits": images, "mnist": images, "adult": rows}


def results_of(cell: Cell, out: Path) -> list[AttackResult]:
    """What a finished cell's run has kept."""
    return read_results(out / "runs" / cell.key)


@click.command()
@click.argument("datasets", nargs=-1, type=click.Choice(list(CASES)))
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/attack-figures"))
@click.option("--only", default="", help="Cases whose name has these words.")
@show_errors
def main(datasets: tuple[str, ...], out: Path, only: str) -> None:
    """Make what is missing, and print totals over all cases."""
    every = [cell for data in datasets or ("digits",) for cell in CASES[data](data)]
    cells = [cell for cell in every if only in cell.label]
    if not cells:
        raise WrongUse(f"no case has {only!r} in its name")
    with Store(out / "cells.jsonl") as store:
        missing = [cell for cell in cells if cell.key not in store.results]
        progress = choose_progress(missing, len(cells) - len(missing), quiet=False)
        failed = run_cells(missing, store, out, progress) if missing else []
    for cell, reason in failed:
        click.echo(f"{cell.name}: {reason}", err=True)
    lost = {cell.key for cell, _ in failed}
    there = [result for cell in cells if cell.key not in lost for result in results_of(cell, out)]
    table = markdown(there)
    write_atomically(out / "totals.md", table + "\n")
    click.echo(table)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
