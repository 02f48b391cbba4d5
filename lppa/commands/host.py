"""`lppa host`: a host's part of a run. Started by `lppa run --engine`, not by people."""

from __future__ import annotations

import click

from lppa.shell import show_errors, verbosity


@click.command(hidden=True)
@verbosity
@show_errors
def host() -> None:
    """Run the nodes of a parcel that comes on standard input; news goes to standard output."""
    # Imported late: only here are pipes taken.
    from lppa.engines.serving import own_pipes, serve

    serve(*own_pipes())
