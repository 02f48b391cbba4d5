"""`lppa models`: the networks, and how large each is on each data set."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from lppa.node.datasets.catalogue import CATALOGUE
from lppa.options import json_option
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import DEFAULT_MODELS
from lppa.shell import show_errors, verbosity


@click.command(epilog="Example: lppa models --json")
@json_option()
@verbosity
@show_errors
def models(as_json: bool) -> None:
    """List the networks with their number of parameters on each data set.

    A star marks the one that a data set gets when --model is not given.
    """
    sizes = {name: network_sizes(s.shape, s.classes) for name, s in CATALOGUE.items()}
    if as_json:
        click.echo(json.dumps(sizes, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    names = list(next(iter(sizes.values())))
    table = Table(title="parameters of each network")
    table.add_column("data set")
    table.add_column("input", justify="right")
    for name in names:
        table.add_column(name, justify="right")
    for dataset, row in sizes.items():
        shape = " x ".join(map(str, CATALOGUE[dataset].shape))
        default = DEFAULT_MODELS.get(dataset, "mlp")
        cells = [
            "–" if row[name] is None else f"{row[name]:,}{'*' if name == default else ''}"
            for name in names
        ]
        table.add_row(dataset, shape, *cells)
    Console().print(table)


def network_sizes(shape: Sequence[int], classes: int) -> dict[str, int | None]:
    """Parameters of every network on such data; None where it does not fit."""
    import torch

    from lppa.models.networks import NETWORKS

    sizes: dict[str, int | None] = {}
    with torch.device("meta"):
        for name, network in NETWORKS.items():
            try:
                sizes[name] = sum(p.numel() for p in network(shape, classes).parameters())
            except WrongUse:
                sizes[name] = None
    return sizes
