"""What is asked of which Ray: bundles of CPUs and GPUs, and how many nodes go into each. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

from lppa.protocol.errors import WrongUse

FINEST = 1e-4  # what Ray counts in
MOST = 10_000.0


@dataclass(frozen=True)
class Cluster:
    """What the driver is told: which Ray, how much of it a node has, and the run's directory."""

    folder: str
    address: str | None
    cpus: float
    gpus: float

    def to_json(self) -> str:
        """As an argument of a command; nothing in it is secret."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Cluster:
        """What `to_json` made."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Bundles:
    """One bundle is on one host. Without GPUs it is for one node, with them for all nodes of one.

    `sizes` are the nodes in each, `cpus_each` is for a node, `gpus` for a bundle.
    """

    sizes: tuple[int, ...]
    cpus_each: float
    gpus: int = 0

    @property
    def asked(self) -> list[dict[str, float]]:
        """As Ray wants to be asked."""
        share = {"GPU": float(self.gpus)} if self.gpus else {}
        return [{"CPU": round(size * self.cpus_each, 4), **share} for size in self.sizes]

    @property
    def cpus(self) -> int:
        """All of them together, in whole ones."""
        return math.ceil(sum(one["CPU"] for one in self.asked) - FINEST / 2)

    @property
    def words(self) -> str:
        """For people."""
        text = f"{sum(self.sizes)} nodes with {self.cpus_each:g} CPUs each"
        return f"{text} on {len(self.sizes) * self.gpus} GPUs" if self.gpus else text

    def advice(self, gpus: float) -> str:
        """What to do where there is no room for them in a cluster with so many GPUs."""
        if not self.gpus:
            return "run fewer nodes, or give each less by --cpus-per-node"
        if gpus < self.gpus:
            return "leave --gpus-per-node out, or ask for no more than there is"
        return "run fewer nodes, or give each less by --cpus-per-node or --gpus-per-node"


def bundles_for(nodes: int, cpus: float, gpus: float) -> Bundles:
    """Room for so many nodes, with so much of CPUs and GPUs for each."""
    if not gpus:
        return Bundles((1,) * nodes, cpus)
    # Nodes that have a part of a GPU share one: Ray would not say which parts are of the same.
    together = math.floor(1 / gpus + FINEST) if gpus < 1 else 1
    full, rest = divmod(nodes, together)
    sizes = (together,) * full + ((rest,) if rest else ())
    return Bundles(sizes, cpus, math.ceil(gpus))


def check_share(option: str, value: float, whole_above: float = math.inf) -> float:
    """How much of something a node has, as Ray can count it."""
    if not FINEST <= value <= MOST:
        raise WrongUse(f"{option} must be from {FINEST:g} to {MOST:g}, not {value:g}")
    if value > whole_above and value != int(value):
        raise WrongUse(f"{option} {value:g}: Ray gives a part of one, or whole ones")
    return value
