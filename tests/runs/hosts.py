"""Hosts for tests: each is `lppa host` at the end of a pipe on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from lppa.coordinator.figures import Summary
from lppa.engines.parcel import Order
from lppa.engines.piped import PipedHosts
from lppa.engines.placing import place
from lppa.protocol.settings import make_settings
from lppa.running.chaos import parse_chaos
from lppa.running.display import Silent
from lppa.running.past import read_past
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local, run_placed

NODES = 4
HOST = (sys.executable, "-m", "lppa", "host")
SMALL = {
    "dataset": "quadratic",
    "rounds": 12,
    "eval_every": 2,
    "checkpoint_every": 3,
    "beta": 0.1,
    "topology": "ring",
    "timeout": 300,
    "seed": 1,
}


class Pipes:
    """An engine whose hosts are on this machine; `launched` is what it has made."""

    def __init__(self, nodes: int = NODES, hosts: int = 2, command: tuple[str, ...] = HOST) -> None:
        self.address = "127.0.0.1"
        self.blocks = place(nodes, [1] * hosts)
        self.command = command
        self.launched: PipedHosts | None = None

    def launcher(self, order: Order) -> PipedHosts:
        parcels = {f"host-{i}": order.parcel(ids) for i, ids in enumerate(self.blocks)}
        commands = {name: self.command for name in parcels}
        self.launched = PipedHosts(commands, parcels, order.folder)
        return self.launched


def blueprint_of(**settings):
    """A small run of four."""
    return make_blueprint(make_settings({**SMALL, **settings}), NODES, "run")


def alone(folder: Path, attackers=(), **settings) -> Summary:
    """The run as it is on this machine."""
    return run_local(blueprint_of(**settings), folder, Silent(), attackers=attackers)


def placed(folder: Path, engine=None, chaos=None, attackers=(), **settings) -> Summary:
    """The same run by an engine."""
    return run_placed(
        blueprint_of(**settings),
        folder,
        Silent(),
        engine or Pipes(),
        attackers,
        chaos=parse_chaos(chaos, NODES),
    )


def go_on(folder: Path, engine=None) -> Summary:
    """A run that was broken off, by an engine."""
    past = read_past(folder)
    return run_placed(
        past.blueprint, folder, Silent(), engine or Pipes(), past.attackers, past=past
    )
