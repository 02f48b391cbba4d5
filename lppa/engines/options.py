"""The command line's options for engines; what each engine makes of them is its own matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lppa.engines.engine import Engine, Wanted
from lppa.engines.registry import ENGINES, LOCAL, make_engine
from lppa.engines.slurm import TASKS
from lppa.engines.slurm_job import SlurmJob
from lppa.shell import Command

OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice([LOCAL, *ENGINES]),
        default=LOCAL,
        show_default=True,
        help="What starts the clients: this machine alone, or an engine on other hosts.",
    ),
    click.option(
        "--hosts",
        type=click.Path(path_type=Path),
        help="For ssh: a file with one host on each line, [USER@]HOST[:PORT] [slots=N] "
        "[python=PATH] [data=PATH].",
    ),
    click.option(
        "--interface",
        help="Where processes listen: an interface's name, or a net like 10.0.0.0/8; an address is "
        "the coordinator's.  [default: the address that hosts reach each other by]",
    ),
    click.option(
        "--address",
        help="For ray: the cluster's HOST:PORT, or auto for the Ray that runs on this machine.  "
        "[default: a Ray of the run's own]",
    ),
    click.option(
        "--cpus-per-node", type=click.FloatRange(min=0), help="CPUs to ask for, for each client."
    ),
    click.option(
        "--gpus-per-node", type=click.FloatRange(min=0), help="GPUs to ask for, for each client."
    ),
    click.option("--ssh", help="For ssh: how it is called, as in 'ssh -F FILE'.  [default: ssh]"),
    click.option(
        "--slurm-options",
        help="For slurm: options of sbatch, as in '--partition=gpu --nodes=2 --time=4:00:00'.",
    ),
    click.option(
        "--slurm-tasks",
        type=click.Choice(TASKS),
        help="For slurm: a step of the job for each host, or for each client.  [default: host]",
    ),
)


def engine_options(command: Command) -> Command:
    """Adds them all; `chosen_engine` has what they say."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def chosen_engine(nodes: int, engine: str, **wanted: Any) -> Engine | SlurmJob | None:
    """What was asked for with these options, None for this machine alone."""
    return make_engine(engine, Wanted(nodes, **wanted))
