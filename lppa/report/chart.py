"""Curves over rounds as SVG: lines with bands, axes with units, and the figures in words.

Knows lines, not runs: what is drawn is `curves`' business. The width is that of a phone, so that
the writing keeps its size there; on a wide page several charts stand side by side. The margins are
as wide as what is written in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lppa.report.markup import Markup, short, tag
from lppa.report.scales import Scale, linear, logarithmic, rounds_scale

WIDTH, HEIGHT = 320.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 12.0, 12.0, 42.0  # at least
LETTER = 7.8  # width of a digit in the widest font that is likely
COLOURS = 8
MOST_POINTS = 400  # of one line; more cannot be seen
MOST_DOTS = 60

Value = TypeVar("Value")
Place = Callable[[float], float]  # of a value on the picture
Point = tuple[float, float]
Range = tuple[float, float, float]  # round, least, greatest


@dataclass(frozen=True)
class Line:
    """One curve. Lines with one colour number belong together; a dashed one is the other kind."""

    name: str
    points: tuple[Point, ...]
    band: tuple[Range, ...] = ()
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Axis:
    """The vertical axis: its title with the unit, how a value is written, and its scale."""

    title: str
    show: Callable[[float], str]
    tick: Callable[[float, int], str] = lambda value, decimals: f"{value:.{decimals}f}"
    log: bool = False


def line_chart(name: str, axis: Axis, lines: Sequence[Line]) -> Markup | None:
    """The chart; None if there is nothing to draw. `name` is what it is called aloud."""
    lines = [line for line in lines if line.points]
    if not lines:
        return None
    values = [y for line in lines for _, y in line.points]
    values += [y for line in lines for _, *ends in line.band for y in ends]
    across = rounds_scale(x for line in lines for x, _ in line.points)
    up = logarithmic(values) if axis.log else linear(values, axis.tick)

    left = max(LEFT, 24 + LETTER * longest(up.ticks))
    right = WIDTH - max(RIGHT, 2 + LETTER / 2 * longest(across.ticks))

    def x(value: float) -> float:
        return left + (right - left) * across.place(value)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up.place(value)

    return tag(
        "svg",
        _grid(across, up, x, y, (left, right), axis.title),
        [_band(line, x, y) for line in lines],
        [_line(line, x, y, axis.show) for line in lines],
        viewBox=f"0 0 {short(WIDTH)} {short(HEIGHT)}",
        role="img",
        aria_label=in_words(name, axis, lines),
        class_="chart",
        data_chart=name,
    )


def longest(ticks: Sequence[tuple[float, str]]) -> int:
    """Letters of the longest label."""
    return max((len(label) for _, label in ticks), default=0)


def with_room(ticks: Sequence[tuple[float, str]], width: float) -> Sequence[tuple[float, str]]:
    """As many of the ticks, evenly, as have room for their labels beside each other."""
    most = max(1, int(width / (LETTER * (longest(ticks) + 1))) + 1)
    return ticks[:: -(-len(ticks) // most)] if ticks else ticks


def in_words(name: str, axis: Axis, lines: Sequence[Line]) -> str:
    """What somebody hears who does not see the chart."""
    said = [
        f"{line.name}: {axis.show(line.points[0][1])} in round {line.points[0][0]:.0f}, "
        f"{axis.show(line.points[-1][1])} in round {line.points[-1][0]:.0f}"
        for line in lines
    ]
    scale = "logarithmic scale, " if axis.log else ""
    return f"{name} ({scale}{axis.title}) by round. " + "; ".join(said) + "."


def _grid(
    across: Scale, up: Scale, x: Place, y: Place, ends: tuple[float, float], title: str
) -> list[Markup]:
    (left, right), bottom = ends, HEIGHT - BOTTOM
    parts = []
    for value, label in up.ticks:
        height = y(value)
        parts.append(tag("path", d=f"M{short(left)} {short(height)}H{short(right)}", class_="grid"))
        parts.append(tag("text", label, x=left - 6, y=height + 4, text_anchor="end"))
    for value, label in with_room(across.ticks, right - left):
        parts.append(tag("text", label, x=x(value), y=bottom + 15, text_anchor="middle"))
    parts.append(tag("path", d=f"M{short(left)} {short(bottom)}H{short(right)}", class_="base"))
    middle = (TOP + bottom) / 2
    parts.append(
        tag(
            "text",
            title,
            transform=f"translate(12 {short(middle)}) rotate(-90)",
            text_anchor="middle",
            class_="unit",
        )
    )
    parts.append(
        tag(
            "text", "round", x=(left + right) / 2, y=HEIGHT - 8, text_anchor="middle", class_="unit"
        )
    )
    return parts


def _band(line: Line, x: Place, y: Place) -> Markup | None:
    ranges = thinned_ranges(line.band)
    if len(ranges) < 2 or all(low == high for _, low, high in ranges):
        return None
    upper = [f"{short(x(r))} {short(y(high))}" for r, _, high in ranges]
    lower = [f"{short(x(r))} {short(y(low))}" for r, low, _ in reversed(ranges)]
    path = "M" + "L".join([*upper, *lower]) + "Z"
    return tag("path", d=path, class_=f"band c{line.colour % COLOURS}")


def _line(line: Line, x: Place, y: Place, show: Callable[[float], str]) -> Markup:
    points = thinned(line.points)
    path = "M" + "L".join(f"{short(x(r))} {short(y(value))}" for r, value in points)
    kind = f"{' dashed' if line.dashed else ''}{' dotted' if line.colour >= COLOURS else ''}"
    parts = [tag("path", d=path, class_=f"line{kind}")]
    if len(points) <= MOST_DOTS:
        parts += [
            tag(
                "circle",
                tag("title", f"{line.name}, round {r:.0f}: {show(value)}"),
                cx=x(r),
                cy=y(value),
                r=2.6,
            )
            for r, value in points
        ]
    return tag("g", parts, class_=f"c{line.colour % COLOURS}")


def thinned(points: Sequence[Point]) -> Sequence[Point]:
    """At most so many points, the peaks among them: of each bucket the least and the greatest."""
    if len(points) <= MOST_POINTS:
        return points
    kept = []
    for bucket in _buckets(points, MOST_POINTS // 2):
        least, greatest = min(bucket, key=lambda p: p[1]), max(bucket, key=lambda p: p[1])
        kept += sorted({least, greatest})
    return [points[0], *(p for p in kept if p not in (points[0], points[-1])), points[-1]]


def thinned_ranges(ranges: Sequence[Range]) -> Sequence[Range]:
    """The same for a band: each bucket from its least to its greatest."""
    if len(ranges) <= MOST_POINTS:
        return ranges
    return [
        (bucket[0][0], min(low for _, low, _ in bucket), max(high for _, _, high in bucket))
        for bucket in _buckets(ranges, MOST_POINTS)
    ]


def _buckets(values: Sequence[Value], count: int) -> list[Sequence[Value]]:
    size = -(-len(values) // count)
    return [values[k : k + size] for k in range(0, len(values), size)]
