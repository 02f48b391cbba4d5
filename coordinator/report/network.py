"""Who sends to whom, and with which weights: a drawing of the graph, and W as a heat map.

A small graph has its weights written on it; a large one is drawn plain, or only as a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lppa.coordinator.report.formats import figure, plural
from lppa.coordinator.report.markup import Markup, short, tag
from lppa.coordinator.report.pixels import embedded, encode_png, heat_pixels
from lppa.coordinator.report.record import Graph

WIDTH, HEIGHT = 380.0, 320.0
MOST_NAMED = 16  # clients with a number on them
MOST_LABELS = 12  # lines with their weight on them
MOST_EDGES = 2000  # above it the drawing is a blot
MOST_WRITTEN = 8  # clients in a matrix with its numbers written out
SAME = 1e-6


@dataclass(frozen=True)
class Link:
    """One line: from a sender to a receiver, or both ways with one weight."""

    sender: int
    receiver: int
    weight: float
    both: bool


def links(graph: Graph) -> list[Link]:
    """Two edges between the same two clients are one line if their weights are the same."""
    known = set(map(tuple, graph.edges.tolist()))
    found = []
    for a, b in sorted(known):
        forth, back = float(graph.W[b, a]), float(graph.W[a, b])
        both = (b, a) in known and abs(forth - back) <= SAME
        if not both or a < b:
            found.append(Link(a, b, forth, both))
    return found


def draw_graph(graph: Graph) -> Markup | None:
    """The graph on a circle; None if it has too many lines to be seen."""
    if not 0 < len(graph.edges) <= MOST_EDGES:
        return None
    lines = links(graph)
    places = list(_circle(graph.nodes))
    small = graph.nodes <= MOST_NAMED
    return tag(
        "svg",
        _named_lines(lines, places) if small else _plain_lines(lines, places),
        [_node(i, place, small) for i, place in enumerate(places)],
        viewBox=f"0 0 {short(WIDTH)} {short(HEIGHT)}",
        role="img",
        aria_label=describe(graph),
        class_="chart graph",
        data_chart="Topology",
    )


def describe(graph: Graph) -> str:
    """The graph in a sentence or two."""
    weights = np.unique(graph.W[graph.edges[:, 1], graph.edges[:, 0]].round(6))
    said = f"Topology {graph.name}: {plural(graph.nodes, 'client')}, "
    said += f"{plural(len(graph.edges), 'directed edge')}. "
    if len(weights) == 1:
        return said + f"Every edge has weight {figure(weights[0])}."
    if len(weights):
        return said + f"Weights from {figure(weights[0])} to {figure(weights[-1])}."
    return said


def _circle(nodes: int) -> Iterator[tuple[float, float]]:
    radius = min(WIDTH, HEIGHT) / 2 - 26
    for i in range(nodes):
        angle = 2 * math.pi * i / nodes - math.pi / 2
        yield WIDTH / 2 + radius * math.cos(angle), HEIGHT / 2 + radius * math.sin(angle)


def _named_lines(lines: list[Link], places: list[tuple[float, float]]) -> list[Markup]:
    largest = max(abs(link.weight) for link in lines) or 1.0
    differ = len({round(link.weight, 6) for link in lines}) > 1
    labelled = differ and len(lines) <= MOST_LABELS
    drawn, labels = [], []
    for link in lines:
        path, head, middle = _path(link, places)
        share = abs(link.weight) / largest
        way = "and" if link.both else "to"
        told = f"client {link.sender} {way} client {link.receiver}: weight {figure(link.weight)}"
        drawn.append(
            tag(
                "path",
                tag("title", told),
                d=path,
                class_="edge",
                stroke_width=f"{0.8 + 2.4 * share:.2f}",
            )
        )
        if not link.both:
            drawn.append(tag("path", d=head, class_="head"))
        if labelled:
            x, y = middle
            labels.append(
                tag("text", f"{link.weight:.2f}", x=x, y=y + 3.5, text_anchor="middle", class_="on")
            )
    return drawn + labels


def _path(link: Link, places: list[tuple[float, float]]) -> tuple[str, str, tuple]:
    """A line, its arrow head, and the place of its label.

    Both ways are one straight line; one way is a bow, so that the way back has room.
    """
    (x0, y0), (x1, y1) = places[link.sender], places[link.receiver]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    bend = 0.0 if link.both else min(26.0, 0.16 * length)
    cx = (x0 + x1) / 2 + bend * (y1 - y0) / length
    cy = (y0 + y1) / 2 - bend * (x1 - x0) / length
    # The line ends at the rim of the receiver's circle, where its arrow can be seen.
    reach = math.hypot(x1 - cx, y1 - cy) or 1.0
    ux, uy = (x1 - cx) / reach, (y1 - cy) / reach
    ex, ey = x1 - 17 * ux, y1 - 17 * uy
    corners = [(ex, ey), (ex - 9 * ux - 4 * uy, ey - 9 * uy + 4 * ux)]
    corners.append((ex - 9 * ux + 4 * uy, ey - 9 * uy - 4 * ux))
    head = "M" + "L".join(f"{short(x)} {short(y)}" for x, y in corners) + "Z"
    numbers = [short(v) for v in (x0, y0, cx, cy, ex, ey)]
    path = "M{} {}Q{} {} {} {}".format(*numbers)
    # Nearer to the receiver than to the middle, where many lines cross.
    t = 0.5 if link.both else 0.62
    middle = tuple(
        (1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * b
        for a, c, b in ((x0, cx, ex), (y0, cy, ey))
    )
    return path, head, middle


def _plain_lines(lines: list[Link], places: list[tuple[float, float]]) -> Markup:
    """All lines as one path: that keeps the page small."""
    path = "".join(
        f"M{short(places[k.sender][0])} {short(places[k.sender][1])}"
        f"L{short(places[k.receiver][0])} {short(places[k.receiver][1])}"
        for k in lines
    )
    return tag("path", d=path, class_="edge", stroke_width="0.6")


def _node(i: int, place: tuple[float, float], named: bool) -> Markup:
    x, y = place
    dot = tag("circle", tag("title", f"client {i}"), cx=x, cy=y, r=15.0 if named else 3.0)
    label = tag("text", str(i), x=x, y=y + 4, text_anchor="middle") if named else None
    return tag("g", dot, label, class_="node")


def draw_weights(graph: Graph) -> Markup:
    """W as a heat map: rows receive, columns send."""
    largest = float(np.abs(graph.W).max()) or 1.0
    shares = np.abs(graph.W) / largest
    told = (
        f"Weight matrix W of {graph.nodes} by {graph.nodes} clients, rows receive and columns "
        f"send; the largest weight is {figure(largest)}."
    )
    if graph.nodes > MOST_NAMED:
        picture = encode_png(heat_pixels(np.where(graph.W != 0, 0.15 + 0.85 * shares, 0.0)))
        return embedded(picture, told, class_="matrix", data_chart="Weights")
    return _cells(graph, shares, told)


def _cells(graph: Graph, shares: np.ndarray, told: str) -> Markup:
    n = graph.nodes
    size = 274.0 / n
    left, top = 62.0, 36.0
    parts = []
    for i in range(n):
        middle = size * (i + 0.5)
        parts.append(tag("text", str(i), x=left + middle, y=top - 6, text_anchor="middle"))
        parts.append(tag("text", str(i), x=left - 6, y=top + middle + 4, text_anchor="end"))
        for j in range(n):
            weight = float(graph.W[i, j])
            parts.append(
                tag(
                    "rect",
                    tag("title", f"client {i} gives client {j} weight {figure(weight)}"),
                    x=left + size * j,
                    y=top + size * i,
                    width=size - 1,
                    height=size - 1,
                    class_="cell",
                    fill_opacity=f"{0.06 + 0.7 * shares[i, j] if weight else 0.03:.2f}",
                )
            )
            if n <= MOST_WRITTEN and weight:
                where = {"x": left + size * (j + 0.5), "y": top + middle + 4}
                parts.append(
                    tag("text", f"{weight:.2f}", text_anchor="middle", class_="on", **where)
                )
    turned = f"translate(34 {short(top + 137)}) rotate(-90)"
    parts.append(tag("text", "receiver", transform=turned, text_anchor="middle", class_="unit"))
    parts.append(tag("text", "sender", x=left + 137, y=12.0, text_anchor="middle", class_="unit"))
    return tag(
        "svg",
        parts,
        viewBox=f"0 0 {short(WIDTH)} {short(HEIGHT)}",
        role="img",
        aria_label=told,
        class_="chart",
        data_chart="Weights",
    )
