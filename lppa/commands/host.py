"""`lppa host`: a host's part of a run. Started by `lppa run --engine`, not by people."""

from __future__ import annotations

import signal

import click

from lppa.shell import show_errors, verbosity


@click.command(hidden=True)
@click.option("--spared", is_flag=True, help="A polite kill is not for this host, nor its nodes.")
@verbosity
@show_errors
def host(spared: bool) -> None:
    """Run the nodes of a parcel that comes on standard input; news goes to standard output."""
    if spared:
        # The nodes inherit that.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Imported late: only here are pipes taken.
    from lppa.engines.serving import own_pipes, serve

    serve(*own_pipes())
