"""From values to places on a chart, and the ticks between: linear, and logarithmic with room for
zero. Numbers only; drawing is `chart`'s business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lppa.report.formats import power_of_ten

TICKS = 5
SMALLEST = 1e-300


@dataclass(frozen=True)
class Scale:
    """Where a value lies, 0 to 1, and the ticks as (value, label)."""

    place: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]


def step_for(span: float, most: int = TICKS) -> float:
    """A round number that divides the span into few steps."""
    raw = span / most
    base = 10.0 ** math.floor(math.log10(raw))
    return next(base * factor for factor in (1, 2, 5, 10) if base * factor >= raw * 0.999)


def linear(
    values: Iterable[float], show: Callable[[float, int], str], whole: bool = False
) -> Scale:
    """Ends on round numbers; `show` gets a value and the decimals that its step needs."""
    known = list(values)
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # flat to rounding: give it some room
        margin = max(abs(low) * 0.05, 1.0 if whole else 1e-6)
        low, high = low - margin, high + margin
    step = step_for(high - low)
    if whole:
        step = max(1.0, step)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    bottom, top = first * step, last * step
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    ticks = tuple((k * step, show(k * step, decimals)) for k in range(first, last + 1))
    return Scale(lambda value: (value - bottom) / (top - bottom), ticks)


def rounds_scale(values: Iterable[float]) -> Scale:
    """Rounds, from the first to the last without a margin: it is time that goes by."""
    known = list(values)
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if low == high:
        low, high = low - 1, high + 1
    step = max(1.0, step_for(high - low))
    ticks = range(math.ceil(low / step), math.floor(high / step) + 1)
    return Scale(
        lambda value: (value - low) / (high - low),
        tuple((k * step, f"{k * step:.0f}") for k in ticks if k * step >= 0),
    )


def logarithmic(values: Iterable[float]) -> Scale:
    """Decades; zero has a line of its own below them, if it occurs."""
    known = list(values)
    above = [max(value, SMALLEST) for value in known if value > 0]
    if not above:
        return Scale(lambda value: 0.0, ((0.0, "0"),))
    low = math.floor(math.log10(min(above)) + 1e-9)
    high = math.ceil(math.log10(max(above)) - 1e-9)
    high = max(high, low + 1)
    room = 0.16 if any(value <= 0 for value in known) else 0.0

    def place(value: float) -> float:
        if value <= 0:
            return 0.0
        share = (math.log10(max(value, SMALLEST)) - low) / (high - low)
        return room + (1 - room) * share

    every = math.ceil((high - low) / TICKS)
    ticks = [(10.0**k, _decade(k)) for k in range(low, high + 1) if (k - low) % every == 0]
    if high - low == 1:
        ticks += [(m * 10.0**low, f"{m * 10.0**low:g}") for m in (2, 5) if -3 <= low <= 3]
    return Scale(place, ((0.0, "0"), *ticks) if room else tuple(ticks))


def _decade(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -3 <= exponent <= 3 else power_of_ten(exponent)
