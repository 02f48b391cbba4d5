"""`lppa watch`: a run in the browser while it grows. A thin shell over `live`."""

from __future__ import annotations

import logging

import click

from lppa.options import run_argument
from lppa.running.naming import find_or_await
from lppa.shell import show_errors, verbosity

log = logging.getLogger("lppa.watch")


@click.command(
    epilog="Example: lppa watch runs/first --open",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@run_argument
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
def watch(run: str, port: int, open_it: bool) -> None:
    """Show the report of a run in the browser while it grows. Ctrl-C ends it.

    RUN is a run's directory, its name in runs/, or latest; one that is not there yet is waited for.
    """
    from lppa.report.live import open_server

    folder = find_or_await(run)
    with open_server(folder, port) as server:
        log.info("watching %s at %s (Ctrl-C ends this)", folder, server.url)
        if open_it:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            log.info("no longer watching")
