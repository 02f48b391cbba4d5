"""`lppa export`: the figures of runs as CSV. A thin shell over `running.export`."""

from __future__ import annotations

from pathlib import Path

import click

from lppa.options import runs_argument
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically
from lppa.report.csv_text import to_csv
from lppa.running.export import NodeRow, RunRow, history_rows, summary_row
from lppa.running.naming import find_runs
from lppa.shell import show_errors, verbosity

STDOUT = "-"


@click.command(
    epilog="Example: lppa export latest --csv figures.csv",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@runs_argument
@click.option(
    "--csv",
    "csv_file",
    metavar="[FILE]",
    is_flag=False,
    flag_value=STDOUT,
    default=STDOUT,
    help="Write CSV, to standard output if no FILE is named.",
)
@click.option("--summary", is_flag=True, help="One row for each RUN: its settings and results.")
@verbosity
@show_errors
def export(runs: tuple[str, ...], csv_file: str, summary: bool) -> None:
    """Write the figures of runs as one tidy table.

    A row for each RUN, round and node, with all figures that the nodes wrote down; with --summary
    one for each RUN. RUN is a run's directory, its name in runs/, or latest.
    """
    if csv_file != STDOUT and Path(csv_file).is_dir():
        raise WrongUse(f"--csv {csv_file} is a folder; is it a RUN? Then name it before --csv")
    folders = find_runs(runs)
    rows: list[NodeRow] | list[RunRow]
    if summary:
        rows = [summary_row(folder) for folder in folders]
    else:
        rows = [row for folder in folders for row in history_rows(folder)]
    text = to_csv([row.columns() for row in rows])
    if csv_file == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        write_atomically(Path(csv_file), text)
    except OSError as error:
        raise WrongUse(f"--csv {csv_file} cannot be written: {error.strerror}") from None
    click.echo(f"{csv_file}: {len(rows)} rows of {len(folders)} run{'s' * (len(folders) > 1)}")
