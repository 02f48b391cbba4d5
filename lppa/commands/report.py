"""`lppa report`: a page about runs. A thin shell over `write`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lppa.options import json_option, out_option, runs_argument
from lppa.running.naming import find_runs
from lppa.shell import show_errors, verbosity


@click.command(
    epilog="Example: lppa report runs/first runs/second --out comparison.html",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@runs_argument
@out_option("The file to write.  [default: RUN/report.html; report.html here for several runs]")
@json_option()
@verbosity
@show_errors
def report(runs: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Write one self-contained page about a run, or several runs side by side.

    RUN is a run's directory, its name in runs/, or latest; it may be unfinished. The page needs no
    network and opens from disk.
    """
    from lppa.report.reading import read_run
    from lppa.report.write import REPORT, write_page

    folders = find_runs(runs)
    records = [read_run(folder) for folder in folders]
    path = out or (folders[0] / REPORT if len(folders) == 1 else Path(REPORT))
    size = write_page(records, path)
    if as_json:
        known = [
            {"name": run.name, "directory": str(run.folder), "status": run.status}
            for run in records
        ]
        click.echo(json.dumps({"report": str(path), "bytes": size, "runs": known}, indent=2))
    else:
        click.echo(str(path))
