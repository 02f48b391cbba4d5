"""What an engine is: something that knows hosts, and makes a launcher for a run's nodes on them.

Also what can be asked of engines: every option once, for the command and for `lppa.run`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from lppa.engines.parcel import Order
from lppa.protocol.checks import checked, option
from lppa.protocol.errors import WrongUse
from lppa.running.launcher import Launcher

LOCAL, RAY, SLURM, SSH = "local", "ray", "slurm", "ssh"
HOST, CLIENT = "host", "client"  # what has a step of a Slurm job


@dataclass(frozen=True)
class Wanted:
    """What was asked of an engine; each takes what concerns it and refuses the rest."""

    nodes: int
    engine: str = option(
        LOCAL,
        "What starts the clients: this machine alone, or an engine on other hosts.",
        choices=(LOCAL, RAY, SLURM, SSH),
    )
    hosts: str | None = option(
        None,
        "For ssh: a file with one host on each line, [USER@]HOST[:PORT] [slots=N] [python=PATH] "
        "[data=PATH].",
    )
    interface: str | None = option(
        None,
        "Where processes listen: an interface's name, or a net like 10.0.0.0/8; an address is the "
        "coordinator's.  [default: the address that hosts reach each other by]",
    )
    address: str | None = option(
        None,
        "For ray: the cluster's HOST:PORT, or auto for the Ray that runs on this machine.  "
        "[default: a Ray of the run's own]",
    )
    cpus_per_node: float | None = option(
        None, "CPUs to ask for, for each client.", kind=float, least=0
    )
    gpus_per_node: float | None = option(
        None, "GPUs to ask for, for each client.", kind=float, least=0
    )
    ssh: str | None = option(
        None, "For ssh: how it is called, as in 'ssh -F FILE'.  [default: ssh]"
    )
    slurm_options: str | None = option(
        None, "For slurm: options of sbatch, as in '--partition=gpu --nodes=2 --time=4:00:00'."
    )
    slurm_tasks: str | None = option(
        None,
        "For slurm: a step of the job for each host, or for each client.  [default: host]",
        choices=(HOST, CLIENT),
    )


OPTIONS = tuple(about for about in fields(Wanted) if about.metadata)
NAMES = tuple(about.name for about in OPTIONS)


def make_wanted(nodes: int, given: Mapping[str, Any]) -> Wanted:
    """What somebody asked for by these options; every value is checked, None means "not given"."""
    known = {about.name: about for about in OPTIONS}
    told: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise WrongUse(f"unknown option {name!r} of an engine; known: {', '.join(known)}")
        if value is not None:
            path = isinstance(value, os.PathLike)
            told[name] = checked(known[name], os.fspath(value) if path else value)
    return Wanted(nodes, **told)


class Engine(Protocol):
    """Places a run's nodes. Made before anything starts: wrong use is told then.

    `address` is where on this machine the coordinator listens.
    """

    @property
    def address(self) -> str:
        """One of this machine's own."""

    def launcher(self, order: Order) -> Launcher:
        """What starts the order's nodes on the engine's hosts."""
