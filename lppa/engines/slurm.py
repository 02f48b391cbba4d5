"""Slurm from inside a job: its hosts, and a step of the job on each, reached through srun's pipe.

The coordinator is the job's own script; `slurm_job` has what goes on outside: one job is submitted
and followed. Which GPUs a step may use is Slurm's to say, by CUDA_VISIBLE_DEVICES in the step.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lppa.engines.engine import HOST, SLURM, Wanted
from lppa.engines.interface import is_address, own_address
from lppa.engines.parcel import Order
from lppa.engines.piped import PipedHosts
from lppa.engines.placing import place
from lppa.protocol.errors import WrongUse
from lppa.running.naming import is_run
from lppa.shell import LPPA

PATIENCE = 60.0  # seconds for an answer of Slurm's
# Frames are no lines, which srun would wait for. The coordinator's own step holds the CPUs too.
STEP = (
    *("srun", "--overlap", "--nodes=1", "--ntasks=1", "--unbuffered", "--cpu-bind=none"),
    "--job-name=lppa-host",
)
NO_CLUSTER = "configuration source"  # what Slurm's programs say where there is none
READ_MORE = 'Try "'  # begins the line after the one about an option that is none
REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def in_job() -> bool:
    """Whether this process is part of a job, or of an allocation by salloc."""
    return "SLURM_JOB_ID" in os.environ


def was_requeued() -> bool:
    """Whether Slurm has started this very job before."""
    return in_job() and os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def begun_before(engine: str | None, out: Path | None) -> Path | None:
    """The run of a job that Slurm has started again: it goes on, by the same words."""
    if engine != SLURM or out is None or not was_requeued():
        return None
    return out if is_run(out) else None


@dataclass(frozen=True)
class Allocation:
    """What a job has: its hosts by name, where each is found, and how many clients suit each."""

    hosts: tuple[str, ...]
    addresses: Mapping[str, str]
    slots: tuple[int, ...]


class SlurmEngine:
    """The hosts of the job that this process runs in."""

    def __init__(self, wanted: Wanted) -> None:
        self.allocation = found = read_allocation(wanted.nodes)
        self.blocks = place(wanted.nodes, found.slots)
        self.tasks = wanted.slurm_tasks or HOST
        self.interface = wanted.interface
        towards = found.addresses.get(found.hosts[-1], found.hosts[-1])
        self.address = own_address(wanted.interface, towards)

    def launcher(self, order: Order) -> PipedHosts:
        """What starts the order's nodes, each host's in one step or each in its own."""
        # One machine's address tells others nothing: they take the one that they reach it by.
        interface = None if is_address(self.interface) else self.interface
        commands, parcels = {}, {}
        for host, ids in zip(self.allocation.hosts, self.blocks, strict=True):
            groups = [ids] if self.tasks == HOST else [(node,) for node in ids]
            for first, group in enumerate(groups):
                if group:
                    name = host if self.tasks == HOST else f"{host} (client {group[0]})"
                    commands[name] = step(host)
                    parcels[name] = order.parcel(group, interface, first)
        return PipedHosts(commands, parcels, order.folder)


def step(host: str) -> list[str]:
    """Starts a host's part as a step of the job; nothing secret stands in it."""
    # Slurm's polite kill goes to all steps at once: the coordinator says what it means for hosts.
    return [*STEP, f"--nodelist={host}", *LPPA, "host", "--spared"]


def read_allocation(clients: int) -> Allocation:
    """What Slurm's variables say of this job."""
    listed = os.environ.get("SLURM_JOB_NODELIST", "")
    hosts = tuple(ask("scontrol", "show", "hostnames", listed).split())
    if not hosts:
        raise WrongUse("--engine slurm: the job has no hosts (SLURM_JOB_NODELIST is empty)")
    shown = ask("scontrol", "--oneliner", "show", "nodes", listed)
    pairs = re.findall(r"^NodeName=(\S+) .*?\bNodeAddr=(\S+)", shown, re.MULTILINE)
    return Allocation(hosts, dict(pairs), choose_slots(len(hosts), clients, os.environ))


def choose_slots(hosts: int, clients: int, told: Mapping[str, str]) -> tuple[int, ...]:
    """How many clients suit each host: its tasks where there are enough, else its CPUs."""
    tasks = repeated(told.get("SLURM_TASKS_PER_NODE", ""))
    cpus = repeated(told.get("SLURM_JOB_CPUS_PER_NODE", ""))
    for slots in (tasks if sum(tasks) >= clients else (), cpus, tasks):
        if len(slots) == hosts and sum(slots) > 0:
            return tuple(slots)
    return (1,) * hosts


def repeated(text: str) -> list[int]:
    """Slurm's short way to write numbers: 2(x3),1 is 2, 2, 2, 1; nothing where it is none."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        match = REPEATED.fullmatch(part.strip())
        if match is None:
            return []
        found += [int(match[1])] * int(match[2] or 1)
    return found


def ask(*command: str, given: str = "") -> str:
    """What a program of Slurm answers; raises WrongUse with its words where it cannot."""
    try:
        ended = run(command, given)
    except FileNotFoundError:
        raise WrongUse(
            f"--engine slurm: there is no {command[0]} here; run this where Slurm's commands are"
        ) from None
    except subprocess.TimeoutExpired:
        raise WrongUse(f"--engine slurm: {command[0]} does not answer; try again later") from None
    if ended.returncode:
        why = last_words(ended.stderr)
        advice = "; run this on a machine of a Slurm cluster" if NO_CLUSTER in why else ""
        raise WrongUse(f"--engine slurm: {command[0]} refused: {why}{advice}")
    return ended.stdout


def last_words(said: str) -> str:
    """Why one of Slurm's programs refused: after that it may say where to read more."""
    lines = [line for line in said.strip().splitlines() if not line.startswith(READ_MORE)]
    return lines[-1] if lines else "it did not say why"


def run(command: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
    """One of Slurm's programs, in a session of its own: Ctrl-C is not for it."""
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        start_new_session=True,
    )
