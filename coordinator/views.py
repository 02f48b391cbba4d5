"""The next view of the graph: the topology among those who are left, with weights of its own.

Pure. When a view has to change is decided in `membership`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lppa.coordinator.plan import Blueprint
from lppa.coordinator.sinkhorn import weight_matrix
from lppa.coordinator.topology import Topology, require_strongly_connected
from lppa.protocol.errors import RunFailed, WrongUse
from lppa.protocol.names import name_all
from lppa.protocol.seeds import derive
from lppa.protocol.view import Place, View


@dataclass(frozen=True)
class Part:
    """What is left of a run's graph: members count from 0 here, in the order of their ids."""

    members: tuple[int, ...]
    topology: Topology
    W: np.ndarray

    def places(self) -> dict[int, Place]:
        """Each member's place, by its own id."""
        found = {}
        for k, i in enumerate(self.members):
            inputs = self.topology.in_neighbours(k)
            outputs = self.topology.out_neighbours(k)
            found[i] = Place(
                inputs=tuple(self.members[j] for j in inputs),
                weights=tuple(float(self.W[k, j]) for j in inputs),
                own=float(self.W[k, k]),
                outputs=tuple(self.members[j] for j in outputs),
                given=tuple(float(self.W[j, k]) for j in outputs),
            )
        return found


def part_of(blueprint: Blueprint, members: Sequence[int], epoch: int) -> Part:
    """The graph among some of a run's nodes; raises RunFailed where it falls apart."""
    ordered = tuple(sorted(members))
    number = {i: k for k, i in enumerate(ordered)}
    whole = blueprint.topology
    if len(ordered) == blueprint.nodes:
        return Part(ordered, whole, blueprint.W)
    edges = sorted((number[i], number[j]) for i, j in whole.edges if i in number and j in number)
    topology = Topology(whole.name, len(ordered), tuple(edges))
    gone = name_all(set(range(blueprint.nodes)) - set(ordered))
    try:
        if len(ordered) < 2:
            raise WrongUse("one node alone has nobody to learn with")
        require_strongly_connected(topology)
    except WrongUse:
        raise RunFailed(
            f"without {gone} the topology {whole.name} falls apart: {_cut_off(topology, ordered)}; "
            "go on with all nodes: --resume"
        ) from None
    seed = derive(blueprint.run_seed, "weights", epoch)
    return Part(ordered, topology, weight_matrix(topology, blueprint.settings.weights, seed))


def _cut_off(topology: Topology, members: Sequence[int]) -> str:
    """Who no longer hears, or is no longer heard by, the first of those who are left."""
    if topology.nodes < 2:
        return "nobody is left to learn with"
    forth, back = {0}, {0}
    for _ in range(topology.nodes):
        forth |= {j for i, j in topology.edges if i in forth}
        back |= {i for i, j in topology.edges if j in back}
    lost = {members[k] for k in set(range(topology.nodes)) - (forth & back)}
    verb = "is" if len(lost) == 1 else "are"
    return f"{name_all(lost)} {verb} cut off from node {members[0]}"


def make_view(
    blueprint: Blueprint,
    members: Sequence[int],
    epoch: int,
    first_round: int,
    newcomers: Sequence[int] = (),
    endpoints: Mapping[int, str] | None = None,
) -> View:
    """The graph from a round on, among its members."""
    part = part_of(blueprint, members, epoch)
    return View(
        epoch, first_round, part.members, part.places(), endpoints or {}, tuple(sorted(newcomers))
    )


def first_view(blueprint: Blueprint, endpoints: Mapping[int, str] | None = None) -> View:
    """The graph that a run begins with."""
    return make_view(blueprint, range(blueprint.nodes), 0, 0, (), endpoints)
