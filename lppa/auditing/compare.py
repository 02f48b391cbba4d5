"""Several topologies under the same settings, a line each: what they protect, what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lppa.auditing.assemble import Hidden, case_of
from lppa.auditing.document import QUICK, audit
from lppa.auditing.exposure import MEAN
from lppa.auditing.findings import AuditDocument, Compared
from lppa.auditing.looking import measured
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.sinkhorn import spectral_gap
from lppa.coordinator.topology import UnknownTopology
from lppa.models.rules import facts_of
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings
from lppa.running.known_networks import known_network
from lppa.running.prepare import choose_noise, make_blueprint

if TYPE_CHECKING:
    from lppa.running.scout import Scout

BYTES = {"float32": 4, "float64": 8}


def compare(
    settings: Settings,
    nodes: int,
    topologies: Sequence[str],
    rounds: int,
    hide: Hidden | None,
    scout: Scout | None = None,
) -> list[Compared]:
    """A line for each topology; one that cannot be built with so many nodes says why."""
    drawn = [_drawn(replace(settings, topology=name), nodes) for name in topologies]
    # Looked at once: data and network are the same on every graph.
    first = next((one for one in drawn if isinstance(one, Blueprint)), None)
    facts = None if first is None else measured(first, hide, scout)
    rows = []
    for name, one in zip(topologies, drawn, strict=True):
        if isinstance(one, str):
            rows.append(Compared(name, None, refused=one))
            continue
        blueprint = one if facts is None else choose_noise(one, facts)
        rows.append(line(blueprint, audit(case_of(blueprint, rounds, hide), budget=QUICK)))
    return rows


def _drawn(settings: Settings, nodes: int) -> Blueprint | str:
    """A run on one of the graphs, or why it cannot be."""
    try:
        return make_blueprint(settings, nodes, "audit")
    except UnknownTopology:
        raise
    except WrongUse as reason:
        return str(reason)


def line(blueprint: Blueprint, found: AuditDocument) -> Compared:
    """What matters of one audit."""
    graded = [t for t in found.targets if t != MEAN]
    noise = [pair.noise[t] for pair in found.pairs for t in graded]
    numbers = [value for value in noise if not isinstance(value, str)]
    sizes = [len(group) for group in found.smallest.values() if group is not None]
    return Compared(
        topology=blueprint.settings.topology,
        grade=found.grade,
        beta=found.beta,
        noise="exact" if "exact" in noise else min(numbers, default="mixed"),
        ratio=found.ratio,
        smallest=min(sizes, default=None),
        bytes=bytes_per_round(blueprint),
        spectral_gap=spectral_gap(blueprint.W),
    )


def bytes_per_round(blueprint: Blueprint) -> int | None:
    """What all clients send in a round with noise; None where the network's size is not known."""
    settings = blueprint.settings
    network = blueprint.network or known_network(settings)
    if network is None:
        return None
    rule = facts_of(settings.rule)
    tensor = rule.cancels and settings.noise_exchange == "tensor"
    vectors = len(rule.update.sends) + (tensor and settings.noise_every == 1)
    return len(blueprint.topology.edges) * vectors * network.parameters * BYTES[settings.dtype]
