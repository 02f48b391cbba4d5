"""Heat maps of the audit: rows attack, columns are attacked; large ones are pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lppa.auditing.grade import GRADES
from lppa.report.formats import compact
from lppa.report.grades import kind_of
from lppa.report.markup import Markup, scrolling, tag
from lppa.report.pixels import AMBER, BLUE, GREEN, RED, embedded, encode_png
from lppa.report.record import EXACT, MIXED, Pair, Who

MOST_CELLS = 400  # of one heat map as a table; more are a picture
COLOURS = {"open": RED, "weak": AMBER, "hidden": GREEN}
NO_RATIO = "–"


def grade_map(pairs: Mapping[Who, Pair]) -> Markup:
    """Each pair's grade as a colour and a word, with the ratio that it comes from."""
    if too_many(pairs):
        told = Counter(pair.grade for pair in pairs.values())
        counts = ", ".join(f"{told[grade]} {grade}" for grade in GRADES)
        pixels = {who: (*COLOURS[pair.grade], 230) for who, pair in pairs.items()}
        return _picture(pixels, f"Grades: {counts} of {len(pairs)} pairs", "Audit grade")
    return _table(pairs, _graded, "Audit grade")


def value_map(target: str, cells: Mapping[Who, float | str]) -> Markup:
    """How exactly each attacker learns a target of each client."""
    largest = max((v for v in cells.values() if not isinstance(v, str)), default=1.0)
    if too_many(cells):
        exact = sum(value == EXACT for value in cells.values())
        told = f"{target}: exact in {exact} of {len(cells)} pairs"
        pixels = {w: _pixel(value, largest) for w, value in cells.items() if value != MIXED}
        return _picture(pixels, told, "Audit", cells)
    return _table(cells, lambda value: _valued(value, largest), "Audit")


def too_many(cells: Mapping[Who, Any]) -> bool:
    """Whether a table would be too large."""
    attackers, victims = _sides(cells)
    return len(attackers) * len(victims) > MOST_CELLS


def _sides(cells: Mapping[Who, Any]) -> tuple[Sequence[tuple[int, ...]], Sequence[int]]:
    attackers = sorted({group for group, _ in cells}, key=lambda group: (len(group), group))
    return attackers, sorted({victim for _, victim in cells})


def _table(cells: Mapping[Who, Any], shown: Callable[[Any], Markup], chart: str) -> Markup:
    attackers, victims = _sides(cells)
    rows = [
        tag(
            "tr",
            tag("th", "+".join(map(str, group)), scope="row"),
            [
                shown(cells[group, victim]) if (group, victim) in cells else tag("td")
                for victim in victims
            ],
        )
        for group in attackers
    ]
    heads = [tag("th", str(victim), scope="col") for victim in victims]
    table = tag(
        "table",
        tag("caption", "rows attack, columns are attacked"),
        tag("thead", tag("tr", tag("th", "client", scope="col"), heads)),
        tag("tbody", rows),
        class_="heat",
        data_chart=chart,
    )
    return scrolling(table)


def _graded(pair: Pair) -> Markup:
    ratio = NO_RATIO if pair.ratio is None else compact(pair.ratio)
    value = EXACT if pair.exact else ratio
    return tag("td", value, tag("small", pair.grade), class_=f"grade {kind_of(pair.grade)}")


def _valued(value: float | str, largest: float) -> Markup:
    if isinstance(value, str):
        return tag("td", value, class_="leak" if value == EXACT else "none")
    return tag("td", compact(value), class_="some", style=f"--share:{value / largest:.2f}")


def _pixel(value: float | str, largest: float) -> tuple[int, int, int, int]:
    if isinstance(value, str):
        return (*RED, 255)
    return (*BLUE, round(40 + 150 * value / largest))


def _picture(
    pixels: Mapping[Who, tuple[int, int, int, int]],
    told: str,
    chart: str,
    cells: Mapping[Who, Any] | None = None,
) -> Markup:
    """One pixel for each pair; `cells` are all pairs, where some have none."""
    attackers, victims = _sides(pixels if cells is None else cells)
    rgba = np.zeros((len(attackers), len(victims), 4), dtype=np.uint8)
    rows = {group: i for i, group in enumerate(attackers)}
    columns = {victim: j for j, victim in enumerate(victims)}
    for (group, victim), pixel in pixels.items():
        rgba[rows[group], columns[victim]] = pixel
    alt = f"{told}; {len(attackers)} attackers (rows) by {len(victims)} clients (columns)."
    shape = "matrix stretched" if 2 * len(attackers) < len(victims) else "matrix"
    return embedded(encode_png(rgba), alt, class_=shape, data_chart=chart)
