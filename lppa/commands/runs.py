"""`lppa runs`: lists runs and removes them. A thin shell over `listing`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from lppa.options import json_option, runs_argument
from lppa.protocol.errors import WrongUse
from lppa.running.display import print_whole
from lppa.running.listing import Listed, check_removable, list_run, list_runs, remove_run
from lppa.running.naming import RUNS
from lppa.shell import show_errors, verbosity

NONE = "–"
COLOURS = {"completed": "green", "doubtful": "yellow", "failed": "red"}
COLUMNS = ("name", "status", "rule", "data", "clients", "topology", "accuracy", "grade", "age")
RIGHT = ("clients", "accuracy", "age")

dir_option = click.option(
    "--dir",
    "base",
    type=click.Path(path_type=Path),
    help=f"The folder that the runs are in.  [default: {RUNS}]",
)


@click.group(
    invoke_without_command=True,
    epilog="Example: lppa runs, or lppa runs rm first second",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@dir_option
@json_option("Print the runs as JSON.")
@verbosity
@show_errors
@click.pass_context
def runs(context: click.Context, base: Path | None, as_json: bool) -> None:
    """List the runs in a folder, the newest first.

    A run without a summary is still going or was killed: running? if it has written something
    lately, else unfinished.
    """
    if context.invoked_subcommand is not None:
        # Options may stand before the subcommand as well as after it.
        context.obj = {"base": base, "as_json": as_json}
        return
    base = base or RUNS
    if base.exists() and not base.is_dir():
        raise WrongUse(f"--dir {base} is a file, not a folder")
    listed = list_runs(base)
    if as_json:
        click.echo(
            json.dumps({"dir": str(base), "runs": [asdict(run) for run in listed]}, indent=2)
        )
    elif listed:
        print_table(listed)
    else:
        click.echo(f"no run is in {base}/: `lppa run` makes one")


@runs.command("rm", epilog="Example: lppa runs rm first second --yes")
@runs_argument
@dir_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option("Print what was removed as JSON.")
@verbosity
@show_errors
@click.pass_context
def remove(
    context: click.Context, runs: tuple[str, ...], base: Path | None, yes: bool, as_json: bool
) -> None:
    """Remove runs with all that they hold.

    RUN is a name, or latest. Only directories that `lppa` made for a run are removed; if any of
    those named is none, nothing is.
    """
    before = context.obj or {}
    base = base or before.get("base") or RUNS
    folders = list(dict.fromkeys(check_removable(named, base) for named in runs))
    if not yes:
        now = time.time()
        for run in [list_run(folder, now) for folder in folders]:
            click.echo(f"{run.directory}: {run.status}, {in_age(run.age)} old", err=True)
        what = "this run" if len(folders) == 1 else f"these {len(folders)} runs"
        if not click.confirm(f"Remove {what}?", err=True):
            click.echo("nothing was removed", err=True)
            sys.exit(1)
    for folder in folders:
        remove_run(folder)
    if as_json or before.get("as_json"):
        click.echo(json.dumps({"removed": [str(folder) for folder in folders]}, indent=2))
    else:
        for folder in folders:
            click.echo(f"removed {folder}")


def print_table(listed: Sequence[Listed]) -> None:
    """One line for each run."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in RIGHT else "left", no_wrap=True)
    for run in listed:
        row = [Text(word) for word in in_words(run)]
        row[COLUMNS.index("status")].stylize(COLOURS.get(run.status, ""))
        table.add_row(*row)
    print_whole(table)


def in_words(run: Listed) -> list[str]:
    """What stands in a line, in the order of the columns."""
    accuracy = NONE if run.accuracy is None else f"{run.accuracy:.1%}"
    grade = run.grade or NONE
    if run.grade is not None and run.noise_to_example is not None:
        grade = f"{run.grade} {run.noise_to_example:.3g}×"
    dataset = NONE if run.dataset is None else Path(run.dataset).name
    clients = NONE if run.nodes is None else str(run.nodes)
    topology = NONE if run.topology is None else Path(run.topology).name
    rule = run.rule or NONE
    return [
        *(run.name, run.status, rule, dataset, clients, topology, accuracy, grade),
        in_age(run.age),
    ]


def in_age(seconds: float) -> str:
    """A length of time in the unit that suits it."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
