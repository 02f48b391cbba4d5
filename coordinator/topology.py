"""Who sends to whom: builds the communication graph of a run by name or from a file.

Every graph that leaves this module is strongly connected, because on any other one some client's
model never reaches another. The weights on the edges are `sinkhorn`'s business, not this module's.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lppa.protocol.errors import WrongUse

if TYPE_CHECKING:
    import networkx

Edge = tuple[int, int]
Number = TypeVar("Number", int, float)

DRAWS = 200
REWIRED = 0.1


@dataclass(frozen=True)
class Topology:
    """A directed graph on the nodes 0 … nodes - 1; an edge is (sender, receiver).

    Edges are sorted and unique; self-loops are left out, since every node keeps its own state.
    """

    name: str
    nodes: int
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        if list(self.edges) != sorted(set(self.edges)):
            raise ValueError("the edges of a topology must be sorted and unique")
        for sender, receiver in self.edges:
            if sender == receiver or not (0 <= sender < self.nodes and 0 <= receiver < self.nodes):
                raise ValueError(f"edge {sender} -> {receiver} is not one between {self.nodes}")

    def in_neighbours(self, i: int) -> tuple[int, ...]:
        """The nodes that send to node i, sorted."""
        return self._senders[i]

    def out_neighbours(self, i: int) -> tuple[int, ...]:
        """The nodes that node i sends to, sorted."""
        return self._receivers[i]

    @cached_property
    def _senders(self) -> tuple[tuple[int, ...], ...]:
        return _adjacency(self.nodes, ((receiver, sender) for sender, receiver in self.edges))

    @cached_property
    def _receivers(self) -> tuple[tuple[int, ...], ...]:
        return _adjacency(self.nodes, self.edges)


class UnknownTopology(WrongUse):
    """What names no topology, whatever the number of nodes: a typing error, or no such file."""


def build_topology(spec: str, nodes: int, seed: int) -> Topology:
    """The topology that `spec` names: `ring`, `random-regular:4`, …, or a path to a JSON file.

    The seed matters to the random graphs only; the same seed gives the same graph.
    """
    if nodes < 2:
        raise WrongUse(f"a run needs at least 2 nodes, got {nodes}: ask for 2 or more")
    name, colon, parameter = spec.partition(":")
    if name in FIXED:
        if colon:
            raise UnknownTopology(
                f"topology {name} takes no parameter: write {name} instead of {spec}"
            )
        return require_strongly_connected(_topology(spec, nodes, FIXED[name](nodes)))
    if name in RANDOM:
        if colon and not parameter:
            raise UnknownTopology(
                f"topology {spec} has nothing after the colon: give a number or drop it"
            )
        return _drawn(spec, nodes, seed, RANDOM[name](nodes, parameter))
    if Path(spec).suffix == ".json" or "/" in spec or Path(spec).is_file():
        edges = _read_edges(Path(spec), nodes)
        return require_strongly_connected(_topology(spec, nodes, edges))
    known = ", ".join([*FIXED, *RANDOM])
    raise UnknownTopology(f"unknown topology {spec}: use one of {known}, or a JSON file with edges")


def require_strongly_connected(topology: Topology) -> Topology:
    """Hand the topology back, or refuse it and say which nodes cannot reach which."""
    n = topology.nodes
    forth = _reached(0, topology.out_neighbours)
    back = _reached(0, topology.in_neighbours)
    if len(forth) == len(back) == n:
        return topology
    # Nodes that miss the same others share a sentence: two halves make two lines, not n.
    missed: dict[tuple[int, ...], list[int]] = {}
    for i in range(n):
        unreached = tuple(sorted(set(range(n)) - _reached(i, topology.out_neighbours)))
        if unreached:
            missed.setdefault(unreached, []).append(i)
    shown = [f"{_listed(who)} cannot reach {_listed(whom)}" for whom, who in missed.items()]
    more = f"; and {len(shown) - 3} more such groups" if len(shown) > 3 else ""
    raise WrongUse(
        f"topology {topology.name} with {n} nodes is not strongly connected: "
        f"{'; '.join(shown[:3])}{more}: add edges until every node reaches every other "
        "([from, to] is one way; a two-way link needs both)"
    )


def _topology(name: str, nodes: int, edges: Iterable[Edge]) -> Topology:
    return Topology(name, nodes, tuple(sorted({(a, b) for a, b in edges if a != b})))


def _adjacency(nodes: int, pairs: Iterable[Edge]) -> tuple[tuple[int, ...], ...]:
    lists: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in pairs:
        lists[a].append(b)
    return tuple(tuple(sorted(found)) for found in lists)


def _reached(start: int, neighbours: Callable[[int], Sequence[int]]) -> set[int]:
    seen, queue = {start}, [start]
    while queue:
        new = set(neighbours(queue.pop())) - seen
        seen |= new
        queue.extend(new)
    return seen


def _listed(nodes: Sequence[int], most: int = 6) -> str:
    shown = ", ".join(str(i) for i in nodes[:most])
    rest = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return f"node{'s' if len(nodes) > 1 else ''} {shown}{rest}"


# --- graphs by name -----------------------------------------------------------------------------
# networkx is imported where it is used: reading this module must stay cheap for every command.


def _both_ways(graph: networkx.Graph) -> list[tuple[Any, Any]]:
    return [edge for a, b in graph.edges for edge in ((a, b), (b, a))]


def _full(nodes: int) -> list[Edge]:
    import networkx

    return _both_ways(networkx.complete_graph(nodes))


def _ring(nodes: int) -> list[Edge]:
    import networkx

    return _both_ways(networkx.cycle_graph(nodes))


def _directed_ring(nodes: int) -> list[Edge]:
    return [(i, (i + 1) % nodes) for i in range(nodes)]


def _star(nodes: int) -> list[Edge]:
    import networkx

    return _both_ways(networkx.star_graph(nodes - 1))


def _lattice(nodes: int, periodic: bool) -> list[Edge]:
    import networkx

    rows = max(r for r in range(1, math.isqrt(nodes) + 1) if nodes % r == 0)
    columns = nodes // rows
    graph = networkx.grid_2d_graph(rows, columns, periodic=periodic)
    return [(a * columns + b, c * columns + d) for (a, b), (c, d) in _both_ways(graph)]


def _exponential(nodes: int) -> list[Edge]:
    jumps = [2**k for k in range((nodes - 1).bit_length())]
    return [(i, (i + jump) % nodes) for i in range(nodes) for jump in jumps]


FIXED: dict[str, Callable[[int], list[Edge]]] = {
    "full": _full,
    "ring": _ring,
    "directed-ring": _directed_ring,
    "star": _star,
    "grid": lambda nodes: _lattice(nodes, periodic=False),
    "torus": lambda nodes: _lattice(nodes, periodic=True),
    "exponential": _exponential,
}

Draw = Callable[[random.Random], list[Edge]]


def _random_regular(nodes: int, parameter: str) -> Draw:
    import networkx

    # min(4, n - 1) times n is even for every n.
    degree = _number(int, parameter, "random-regular", "a whole number") or min(4, nodes - 1)
    # Degree 1 is pairs of nodes: connected only when there is one pair.
    if not min(2, nodes - 1) <= degree < nodes or nodes * degree % 2:
        raise WrongUse(
            f"topology random-regular:{degree} with {nodes} nodes does not exist connected: the "
            f"degree must be 2 to {nodes - 1}, and nodes times degree even"
        )
    if degree <= (nodes - 1) // 2:
        return lambda rng: _both_ways(networkx.random_regular_graph(degree, nodes, seed=rng))
    # A dense one as the complement of a sparse one: drawing it directly can take minutes.
    absent = nodes - 1 - degree
    return lambda rng: _both_ways(
        networkx.complement(networkx.random_regular_graph(absent, nodes, seed=rng))
    )


def _erdos_renyi(nodes: int, parameter: str) -> Draw:
    import networkx

    # Twice the threshold of connectedness, ln n / n: sparse, and few draws are thrown away.
    threshold = math.log(nodes) / nodes
    p = _number(float, parameter, "erdos-renyi", "a probability") or min(1.0, 2 * threshold)
    if not 0 < p <= 1:
        raise UnknownTopology(
            f"topology erdos-renyi:{p:g}: the probability must be above 0, at most 1"
        )
    return lambda rng: _both_ways(networkx.gnp_random_graph(nodes, p, seed=rng))


def _small_world(nodes: int, parameter: str) -> Draw:
    import networkx

    k = _number(int, parameter, "small-world", "a whole number") or (4 if nodes > 4 else 2)
    if k % 2 or not 2 <= k <= nodes:
        raise WrongUse(
            f"topology small-world:{k} with {nodes} nodes: the neighbours per node must be even, "
            f"from 2 to {nodes}"
        )
    return lambda rng: _both_ways(networkx.watts_strogatz_graph(nodes, k, REWIRED, seed=rng))


RANDOM: dict[str, Callable[[int, str], Draw]] = {
    "random-regular": _random_regular,
    "erdos-renyi": _erdos_renyi,
    "small-world": _small_world,
}


def _number(kind: type[Number], parameter: str, name: str, what: str) -> Number | None:
    """The number after the colon, None when there is none."""
    if not parameter:
        return None
    try:
        number = kind(parameter)
    except ValueError:
        number = kind(0)
    if number == 0:
        raise UnknownTopology(f"topology {name}:{parameter}: give {what} above 0 after the colon")
    return number


def _drawn(spec: str, nodes: int, seed: int, draw: Draw) -> Topology:
    """The first connected graph of a seeded sequence of draws."""
    for attempt in range(DRAWS):
        topology = _topology(spec, nodes, draw(random.Random(f"{seed}/{attempt}")))
        if len(_reached(0, topology.out_neighbours)) == nodes:
            return topology
    raise WrongUse(
        f"topology {spec} with {nodes} nodes: none of {DRAWS} draws is connected: "
        f"raise the parameter after the colon, or change the seed"
    )


# --- graphs from a file -------------------------------------------------------------------------


def _read_edges(path: Path, nodes: int) -> list[Edge]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnknownTopology(f"cannot read topology file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UnknownTopology(f"topology file {path} is not JSON: {error}") from error
    if isinstance(content, dict):
        stated = content.get("nodes", nodes)
        if stated != nodes:
            raise WrongUse(
                f"topology file {path} is for {stated} nodes, the run has {nodes}: make them equal"
            )
        content = content.get("edges")
    if not isinstance(content, list):
        raise WrongUse(
            f"topology file {path} holds no edges: write a list of [from, to] pairs, each a link "
            f'one way, or an object {{"nodes": n, "edges": [[from, to], …]}}'
        )
    for pair in content:
        # type() and not isinstance(): JSON's true is an int to Python.
        if not isinstance(pair, list) or [type(i) for i in pair] != [int, int]:
            raise WrongUse(
                f"topology file {path}: {json.dumps(pair)[:40]} is not an edge: write [from, to], "
                "a link one way"
            )
        if not all(0 <= i < nodes for i in pair):
            raise WrongUse(
                f"topology file {path}: edge {pair} leaves the run's nodes 0 to {nodes - 1}"
            )
    return [(a, b) for a, b in content]
