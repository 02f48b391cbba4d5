"""`lppa bench`: prints the measures of speed. A thin shell over `bench`."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import click

from lppa.bench.measures import ASKED, MEASURES
from lppa.options import json_option, out_option
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically
from lppa.running.launch import stop_fork_server
from lppa.shell import show_errors, verbosity

log = logging.getLogger("lppa.bench")


@click.command(epilog="Example: lppa bench --only exchange,overhead --out bench.json")
@click.option(
    "--only", help=f"Some of the measures, comma-separated: {', '.join([*MEASURES, *ASKED])}."
)
@out_option("Write the results as JSON.", kind="file")
@json_option("Print the results as JSON.")
@verbosity
@show_errors
def bench(only: str | None, out: Path | None, as_json: bool) -> None:
    """Measure speed as ratios of two things timed side by side on this machine.

    exchange: our links against bare ZeroMQ, for 10^6 and 10^7 parameters, in clear and with both
    encrypted. small: a round of small models against a bare loop over raw frames. overhead: a
    round against the same work without communication. expansion: noise from seeds against the
    generator alone. seeded: a round with fresh seeded noise against one without noise;
    seeded-mlp-full and -ring: the same for an MLP on small batches. gradient: a client's gradient
    against plain PyTorch's. lossless: acknowledgements, checkpoints and heartbeats against a round
    without. start-N: launching N nodes against one import of PyTorch. attack: our DLG against the
    same written plainly. launcher: memory of the process that launches a run against one that
    imports PyTorch. growth: the processor's time per node and round for 8 to 256 nodes. Only where
    they are named: growth-1000, for 8 to 1,000 nodes, growth-degree, for 32 nodes from a ring to a
    full graph, and growth-parameters, copies of a model in memory for 10^5 to 10^8 parameters.
    """
    names = list(MEASURES) if only is None else [name.strip() for name in only.split(",")]
    known = {**MEASURES, **ASKED}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise WrongUse(f"unknown measure {unknown[0]!r}; known: {', '.join(known)}")
    results = {}
    try:
        for name in names:
            log.info("measuring %s", name)
            results[name] = known[name]()
    finally:
        stop_fork_server()
    if out:
        write_atomically(out, json.dumps(results, indent=2) + "\n")
    if as_json:
        click.echo(json.dumps(results, indent=2))
    else:
        print_table(results)


def print_table(results: dict[str, Any]) -> None:
    """The ratios, and the figures that they are made of."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="lppa bench")
    for column in ("measure", "ratio", "goal", "figures"):
        table.add_column(column)
    for name, result in results.items():
        rest = {k: v for k, v in result.items() if k not in ("ratio", "goal", "sizes")}
        figures = ", ".join(f"{key} {value:.4g}" for key, value in rest.items())
        for row in result.get("sizes", ()):
            figures += "\n" + ", ".join(
                f"{key} {value:,}" if isinstance(value, int) else f"{key} {value:.4g}"
                for key, value in row.items()
                if value is not None
            )
        table.add_row(name, f"{result['ratio']:.2f}", result["goal"], figures.strip())
    Console().print(table)
