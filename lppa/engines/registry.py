"""The engines by name. Another one is a line here, and a module beside this one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from lppa.engines.engine import Engine, Wanted
from lppa.engines.ray import RayEngine
from lppa.engines.slurm import SlurmEngine, in_job
from lppa.engines.slurm_job import SlurmJob
from lppa.engines.ssh import SshEngine
from lppa.protocol.checks import flag
from lppa.protocol.errors import WrongUse

LOCAL, SLURM = "local", "slurm"

# name -> how it is made, and which of the options it takes
ENGINES: dict[str, tuple[Callable[[Wanted], Engine | SlurmJob], tuple[str, ...]]] = {
    "ray": (RayEngine, ("address", "cpus_per_node", "gpus_per_node", "interface")),
    # Outside a job there are no hosts yet, but only a job to ask for.
    SLURM: (
        lambda wanted: SlurmEngine(wanted) if in_job() else SlurmJob(wanted),
        ("interface", "cpus_per_node", "slurm_options", "slurm_tasks"),
    ),
    "ssh": (SshEngine, ("hosts", "interface", "ssh")),
}


def make_engine(name: str, wanted: Wanted) -> Engine | SlurmJob | None:
    """The engine of a name, None for this machine alone; refuses what it has no use for."""
    make, taken = (None, ()) if name == LOCAL else ENGINES[name]
    for one in fields(Wanted):
        if one.name not in ("nodes", *taken) and getattr(wanted, one.name) is not None:
            raise WrongUse(f"{flag(one.name)} is of no use with --engine {name}: leave it out")
    return None if make is None else make(wanted)
