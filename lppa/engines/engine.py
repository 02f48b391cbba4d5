"""What an engine is: something that knows hosts, and makes a launcher for a run's nodes on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lppa.engines.parcel import Order
from lppa.running.launcher import Launcher


@dataclass(frozen=True)
class Wanted:
    """What was asked of an engine; each takes what concerns it and refuses the rest."""

    nodes: int
    hosts: Path | None = None
    interface: str | None = None
    address: str | None = None
    cpus_per_node: float | None = None
    gpus_per_node: float | None = None
    ssh: str | None = None
    slurm_options: str | None = None
    slurm_tasks: str | None = None


class Engine(Protocol):
    """Places a run's nodes. Made before anything starts: wrong use is told then.

    `address` is where on this machine the coordinator listens.
    """

    @property
    def address(self) -> str:
        """One of this machine's own."""

    def launcher(self, order: Order) -> Launcher:
        """What starts the order's nodes on the engine's hosts."""
