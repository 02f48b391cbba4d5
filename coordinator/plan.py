"""What a run is going to be: topology, W, seeds, and from these the plan of each node.

Pure: nothing is sent or written here.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lppa.coordinator.sinkhorn import spectral_gap, weight_matrix
from lppa.coordinator.topology import Topology, build_topology
from lppa.models.sizes import Network
from lppa.protocol.messages import Plan
from lppa.protocol.seeds import derive
from lppa.protocol.settings import Settings
from lppa.protocol.view import View


@dataclass(frozen=True)
class Blueprint:
    """The whole of a run, as only the coordinator knows it."""

    name: str
    settings: Settings
    run_seed: int
    topology: Topology
    W: np.ndarray
    # Nobody named β: it was chosen, and may be chosen again when more is known.
    beta_chosen: bool = False
    # What was measured of a network that no table knows.
    network: Network | None = None
    # Rows of the client that has fewest, where its data was looked at.
    rows: int | None = None

    @property
    def nodes(self) -> int:
        """How many clients take part."""
        return self.topology.nodes

    @cached_property
    def fingerprint(self) -> str:
        """One hash over everything that the nodes must agree on."""
        whole = [self.settings.to_dict(), self.run_seed, self.nodes, self.topology.edges]
        text = json.dumps([*whole, self.W.tolist()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def plan(self, node: int, view: View, begin: tuple[int, ...] = ()) -> Plan:
        """What one node is told: its own place in the graph and its own row of W, not others'.

        `begin` is the checkpoint to go on from, as (epoch, round).
        """
        return Plan(
            name=self.name,
            nodes=self.nodes,
            settings=self.settings.to_dict(),
            run_seed=self.run_seed,
            view=view.told_to(node).content(),
            fingerprint=self.fingerprint,
            greeting=view.fingerprint(self.fingerprint),
            begin=begin,
        )

    def topology_record(self) -> dict[str, Any]:
        """The content of topology.json."""
        return {
            "name": self.topology.name,
            "nodes": self.nodes,
            "edges": [list(edge) for edge in self.topology.edges],
            "W": self.W.tolist(),
            "spectral_gap": spectral_gap(self.W),
        }


def draw_blueprint(settings: Settings, nodes: int, name: str) -> Blueprint:
    """Builds topology and W; a graph that cannot work is refused here, before anything starts."""
    seed = secrets.randbits(31) if settings.seed is None else settings.seed
    topology = build_topology(settings.topology, nodes, derive(seed, "topology"))
    W = weight_matrix(topology, settings.weights, derive(seed, "weights"))
    return Blueprint(name, settings, seed, topology, W)
