"""The engines by name. Another one is a line here, and a module beside this one."""

from __future__ import annotations

from collections.abc import Callable

from lppa.engines.engine import LOCAL, NAMES, RAY, SLURM, SSH, Engine, Wanted
from lppa.engines.ray import RayEngine
from lppa.engines.slurm import SlurmEngine, in_job
from lppa.engines.slurm_job import SlurmJob
from lppa.engines.ssh import SshEngine
from lppa.protocol.checks import flag
from lppa.protocol.errors import WrongUse

# name -> how it is made, and which of the options it takes
ENGINES: dict[str, tuple[Callable[[Wanted], Engine | SlurmJob], tuple[str, ...]]] = {
    RAY: (RayEngine, ("address", "cpus_per_node", "gpus_per_node", "interface")),
    # Outside a job there are no hosts yet, but only a job to ask for.
    SLURM: (
        lambda wanted: SlurmEngine(wanted) if in_job() else SlurmJob(wanted),
        ("interface", "cpus_per_node", "slurm_options", "slurm_tasks"),
    ),
    SSH: (SshEngine, ("hosts", "interface", "ssh")),
}


def make_engine(wanted: Wanted) -> Engine | SlurmJob | None:
    """What was asked for, None for this machine alone; refuses what that has no use for."""
    name = wanted.engine
    make, taken = (None, ()) if name == LOCAL else ENGINES[name]
    for one in NAMES:
        if one not in ("engine", *taken) and getattr(wanted, one) is not None:
            raise WrongUse(f"{flag(one)} is of no use with --engine {name}: leave it out")
    return None if make is None else make(wanted)
