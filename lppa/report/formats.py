"""Figures as people read them: percentages, few digits, powers of ten, names cut to fit."""

from __future__ import annotations

import math

MISSING = "–"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(value: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    return MISSING if value is None else f"{100 * value:.{digits}f}%"


def figure(value: float | None) -> str:
    """Three digits that matter."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    exponent = math.floor(math.log10(abs(value)))
    mantissa = round(value / 10.0**exponent, 1)
    if abs(mantissa) >= 10:
        mantissa, exponent = mantissa / 10, exponent + 1
    return f"{mantissa:g} × {power_of_ten(exponent)}"


def compact(value: float) -> str:
    """Three digits that matter in as few letters as a cell has room for: never 0.00."""
    return f"{value:,.0f}" if 999.5 <= value < 1e5 else f"{value:.3g}"


def power_of_ten(exponent: int) -> str:
    """10⁻⁷."""
    return "10" + str(exponent).translate(RAISED)


def seconds(value: float | None) -> str:
    """A time in the unit that suits it."""
    if value is None:
        return MISSING
    if value < 1:
        return f"{1000 * value:.0f} ms" if value >= 0.001 or value == 0 else "under 1 ms"
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def clients(ids: tuple[int, ...], most: int = 8) -> str:
    """Clients in words: `client 3`, `clients 1, 3`; a long list is cut."""
    named = ", ".join(map(str, ids[:most])) + (", …" if len(ids) > most else "")
    return f"client{'' if len(ids) == 1 else 's'} {named}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 client`, `2 clients`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
