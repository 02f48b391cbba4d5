"""Who sends to whom, and with which weights: a drawing of the graph, and W as a heat map.

Width and colour of a line say its weight, in a few classes that the key names. A small graph has
its weights written on it too; a large one has no numbers on its clients, or is only a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lppa.report.formats import figure, plural
from lppa.report.markup import Markup, short, tag
from lppa.report.pixels import embedded, encode_png, heat_pixels
from lppa.report.record import Graph

WIDTH, HEIGHT = 320.0, 300.0
MOST_NAMED = 32  # clients with a number on them
MOST_CELLS = 16  # clients in a matrix that is drawn cell by cell
MOST_TOLD = 300  # lines that say by themselves what they are
CLASSES = 4  # widths and colours of lines
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


@dataclass(frozen=True)
class Drawing:
    """The graph, its lines as (style, words), whether it has arrows, and what it leaves out."""

    picture: Markup | None
    key: tuple[tuple[int, str], ...] = ()
    arrows: bool = False
    left_out: str = ""


def draw_graph(graph: Graph) -> Drawing:
    """The graph on a circle; without a picture if it has too many lines to be seen."""
    if not len(graph.edges):
        return Drawing(None)
    if len(graph.edges) > MOST_EDGES:
        said = f"{plural(len(graph.edges), 'edge')} are too many to draw; W shows them all."
        return Drawing(None, left_out=said)
    lines = links(graph)
    classes = weight_classes([link.weight for link in lines])
    named = graph.nodes <= MOST_NAMED
    radius = 3.0 if not named else 15.0 if graph.nodes <= MOST_CELLS else 11.0
    places = list(_circle(graph.nodes))
    told = named and len(lines) <= MOST_TOLD
    one_way = not all(link.both for link in lines)
    draw = _told_lines if told else _plain_lines
    picture = tag(
        "svg",
        draw(lines, places, classes, radius),
        [_node(i, place, radius, named) for i, place in enumerate(places)],
        viewBox=f"0 0 {short(WIDTH)} {short(HEIGHT)}",
        role="img",
        aria_label=describe(graph),
        class_="chart graph",
        data_chart="Topology",
    )
    notes = [] if named else [f"Above {MOST_NAMED} clients their numbers are left out."]
    if one_way and not told:
        notes.append("So many lines have no arrows; W tells who sends.")
    return Drawing(picture, key_of(classes), told and one_way, " ".join(notes))


def weight_classes(weights: list[float]) -> list[tuple[float, float]]:
    """Ranges of weights that look the same: each weight by itself if they are few."""
    distinct = np.unique(np.round(weights, 6))
    if len(distinct) <= CLASSES:
        return [(float(w), float(w)) for w in distinct]
    ends = np.linspace(distinct[0], distinct[-1], CLASSES + 1).tolist()
    return list(pairwise(ends))


def class_of(weight: float, classes: list[tuple[float, float]]) -> int:
    """Which class a weight is in."""
    inside = (k for k, (_, high) in enumerate(classes) if weight <= high + SAME)
    return next(inside, len(classes) - 1)


def key_of(classes: list[tuple[float, float]]) -> tuple[tuple[int, str], ...]:
    """What each kind of line means; the last one is the strongest."""
    said = [figure(low) if low == high else f"{low:.2g} to {high:.2g}" for low, high in classes]
    return tuple((_strength(k, classes), words) for k, words in enumerate(said))


def _strength(k: int, classes: list[tuple[float, float]]) -> int:
    """Style of a class: with few classes the weakest styles are left out."""
    return k + CLASSES - len(classes)


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
    radius = min(WIDTH, HEIGHT) / 2 - 18
    for i in range(nodes):
        angle = 2 * math.pi * i / nodes - math.pi / 2
        yield WIDTH / 2 + radius * math.cos(angle), HEIGHT / 2 + radius * math.sin(angle)


def _told_lines(
    lines: list[Link],
    places: list[tuple[float, float]],
    classes: list[tuple[float, float]],
    radius: float,
) -> list[Markup]:
    labelled = len(classes) > 1 and len(lines) <= MOST_LABELS
    drawn, labels = [], []
    for link in sorted(lines, key=lambda link: link.weight):  # the strongest on top
        path, head, middle = _path(link, places, radius)
        strength = _strength(class_of(link.weight, classes), classes)
        way = "and" if link.both else "to"
        told = f"client {link.sender} {way} client {link.receiver}: weight {figure(link.weight)}"
        drawn.append(tag("path", tag("title", told), d=path, class_=f"edge e{strength}"))
        if not link.both:
            drawn.append(tag("path", d=head, class_=f"head e{strength}"))
        if labelled:
            x, y = middle
            labels.append(
                tag("text", f"{link.weight:.2f}", x=x, y=y + 4, text_anchor="middle", class_="on")
            )
    return drawn + labels


def _path(
    link: Link, places: list[tuple[float, float]], radius: float
) -> tuple[str, str, tuple[float, float]]:
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
    ex, ey = x1 - (radius + 2) * ux, y1 - (radius + 2) * uy
    corners = [(ex, ey), (ex - 9 * ux - 4 * uy, ey - 9 * uy + 4 * ux)]
    corners.append((ex - 9 * ux + 4 * uy, ey - 9 * uy - 4 * ux))
    head = "M" + "L".join(f"{short(x)} {short(y)}" for x, y in corners) + "Z"
    numbers = [short(v) for v in (x0, y0, cx, cy, ex, ey)]
    path = "M{} {}Q{} {} {} {}".format(*numbers)
    # Nearer to the receiver than to the middle, where many lines cross.
    t = 0.5 if link.both else 0.62
    x, y = (
        (1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * b
        for a, c, b in ((x0, cx, ex), (y0, cy, ey))
    )
    return path, head, (x, y)


def _plain_lines(
    lines: list[Link],
    places: list[tuple[float, float]],
    classes: list[tuple[float, float]],
    radius: float,
) -> list[Markup]:
    """All lines of a class as one path: that keeps the page small."""
    paths = [""] * len(classes)
    for link in lines:
        (x0, y0), (x1, y1) = places[link.sender], places[link.receiver]
        line = f"M{short(x0)} {short(y0)}L{short(x1)} {short(y1)}"
        paths[class_of(link.weight, classes)] += line
    return [
        tag("path", d=path, class_=f"edge thin e{_strength(k, classes)}")
        for k, path in enumerate(paths)
    ]


def _node(i: int, place: tuple[float, float], radius: float, named: bool) -> Markup:
    x, y = place
    dot = tag("circle", tag("title", f"client {i}"), cx=x, cy=y, r=radius)
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
    if graph.nodes > MOST_CELLS:
        picture = encode_png(heat_pixels(np.where(graph.W != 0, 0.15 + 0.85 * shares, 0.0)))
        return embedded(picture, told, class_="matrix", data_chart="Weights")
    return _cells(graph, shares, told)


def _cells(graph: Graph, shares: np.ndarray, told: str) -> Markup:
    n = graph.nodes
    size = 256.0 / n
    left, top = 46.0, 36.0
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
    turned = f"translate(14 {short(top + 128)}) rotate(-90)"
    parts.append(tag("text", "receiver", transform=turned, text_anchor="middle", class_="unit"))
    parts.append(tag("text", "sender", x=left + 128, y=12.0, text_anchor="middle", class_="unit"))
    return tag(
        "svg",
        parts,
        viewBox=f"0 0 {short(WIDTH)} {short(HEIGHT)}",
        role="img",
        aria_label=told,
        class_="chart",
        data_chart="Weights",
    )
