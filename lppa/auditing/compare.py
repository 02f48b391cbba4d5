"""Several topologies under the same settings, a line each: what they protect, what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lppa.auditing.assemble import Hidden, case_of
from lppa.auditing.document import QUICK, audit
from lppa.auditing.exposure import MEAN
from lppa.auditing.findings import AuditDocument, Compared
from lppa.coordinator.plan import Blueprint
from lppa.coordinator.sinkhorn import spectral_gap
from lppa.models.rules import facts_of
from lppa.protocol.errors import WrongUse
from lppa.protocol.settings import Settings
from lppa.running.known_networks import known_network
from lppa.running.prepare import make_blueprint

BYTES = {"float32": 4, "float64": 8}


def compare(
    settings: Settings, nodes: int, topologies: Sequence[str], rounds: int, hide: Hidden | None
) -> list[Compared]:
    """A line for each topology; one that cannot be built with so many nodes says why."""
    rows = []
    for name in topologies:
        try:
            blueprint = make_blueprint(replace(settings, topology=name), nodes, "audit")
        except WrongUse as reason:
            rows.append(Compared(name, None, refused=str(reason)))
            continue
        rows.append(line(blueprint, audit(case_of(blueprint, rounds, hide), budget=QUICK)))
    return rows


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
