"""`lppa report`: a page about runs. A thin shell over `write`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lppa.shell import show_errors, verbosity


@click.command(
    epilog="Example: lppa report runs/first runs/second --out comparison.html",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The file to write.  [default: RUN/report.html; report.html here for several runs]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@verbosity
@show_errors
def report(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Write one self-contained page about a run, or several runs side by side.

    RUN is a run's directory; it may be unfinished. The page needs no network and opens from disk.
    """
    from lppa.report.reading import read_run
    from lppa.report.write import REPORT, write_page

    records = [read_run(folder) for folder in runs]
    path = out or (runs[0] / REPORT if len(runs) == 1 else Path(REPORT))
    size = write_page(records, path)
    if as_json:
        known = [
            {"name": run.name, "directory": str(run.folder), "status": run.status}
            for run in records
        ]
        click.echo(json.dumps({"report": str(path), "bytes": size, "runs": known}, indent=2))
    else:
        click.echo(str(path))
