"""`lppa watch`: a run in the browser while it grows. A thin shell over `live`."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from lppa.shell import show_errors, verbosity

log = logging.getLogger("lppa.watch")


@click.command(
    epilog="Example: lppa watch runs/first --open",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default="any free one",
    help="Where to listen, on this machine only.",
)
@click.option("--open/--no-browser", "open_it", help="Open the page in the browser.")
@verbosity
@show_errors
def watch(run: Path, port: int, open_it: bool) -> None:
    """Show the report of a run in the browser while it grows. Ctrl-C ends it.

    RUN is a run's directory; one that is not there yet is waited for.
    """
    from lppa.report.live import open_server

    with open_server(run, port) as server:
        log.info("watching %s at %s (Ctrl-C ends this)", run, server.url)
        if open_it:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            log.info("no longer watching")
