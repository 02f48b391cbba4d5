"""Hosts for tests: each is `lppa host` at the end of a pipe on this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from lppa.coordinator.figures import Summary
from lppa.coordinator.plan import Blueprint
from lppa.engines.parcel import Order
from lppa.engines.piped import PipedHosts
from lppa.engines.placing import place
from lppa.protocol.settings import make_settings
from lppa.running.chaos import parse_chaos
from lppa.running.display import Silent
from lppa.running.listener import Listener
from lppa.running.past import read_past
from lppa.running.prepare import make_blueprint
from lppa.running.run import run_local, run_placed

NODES = 4
HOST = shlex.join([sys.executable, "-m", "lppa", "host"])
# As behind ssh, where a shell may greet whoever comes in.
GREETS = f"echo Welcome to this machine; exec {HOST}"
SMALL = {
    "dataset": "quadratic",
    "rounds": 12,
    "finish": 0,
    "eval_every": 2,
    "checkpoint_every": 3,
    "beta": 0.1,
    "topology": "ring",
    "timeout": 300,
    "seed": 1,
}


class Pipes:
    """An engine whose hosts are on this machine; `launched` is what it has made."""

    def __init__(self, *commands: str) -> None:
        self.address = "127.0.0.1"
        self.commands = commands or (HOST, GREETS)
        self.launched: PipedHosts | None = None

    def launcher(self, order: Order) -> PipedHosts:
        """A host for every command, with its share of the nodes."""
        blocks = place(len(order.keys), [1] * len(self.commands))
        parcels = {f"h{i}": order.parcel(ids) for i, ids in enumerate(blocks)}
        commands = {f"h{i}": ("sh", "-c", text) for i, text in enumerate(self.commands)}
        self.launched = PipedHosts(commands, parcels, order.folder)
        return self.launched


def blueprint_of(**settings: Any) -> Blueprint:
    """A small run of four."""
    return make_blueprint(make_settings({**SMALL, **settings}), NODES, "run")


def alone(folder: Path, attackers: tuple[int, ...] = (), **settings: Any) -> Summary:
    """The run as it is on this machine."""
    return run_local(blueprint_of(**settings), folder, Silent(), attackers=attackers)


def placed(
    folder: Path,
    engine: Pipes | None = None,
    listener: Listener | None = None,
    chaos: str | None = None,
    attackers: tuple[int, ...] = (),
    **settings: Any,
) -> Summary:
    """The same run by an engine."""
    told = parse_chaos(chaos, NODES)
    blueprint, heard = blueprint_of(**settings), listener or Silent()
    return run_placed(blueprint, folder, heard, engine or Pipes(), attackers, chaos=told)


def go_on(folder: Path, listener: Listener | None = None) -> Summary:
    """A run that was broken off, by an engine."""
    past = read_past(folder)
    heard = listener or Silent()
    return run_placed(past.blueprint, folder, heard, Pipes(), past.attackers, past=past)
