"""What the audit found: its verdict, and a heat map for each target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lppa.coordinator.report.formats import clients, plural
from lppa.coordinator.report.markup import Markup, scrolling, tag
from lppa.coordinator.report.pixels import BLUE, RED, embedded, encode_png
from lppa.coordinator.report.record import Audit

MOST_CELLS = 400  # of one heat map as a table; more are a picture
TARGETS = {
    "g0": "first gradient g⁰",
    "g1": "second gradient g¹",
    "change": "change g¹ − g⁰, or a later one",
    "telescoped": "change from first to last gradient",
}

Cells = Mapping[tuple[tuple[int, ...], int], float | None]


def audit_section(audit: Audit) -> list[Markup]:
    """Verdict, advice, one heat map per target, and the smallest groups that see everything."""
    kind = "bad" if audit.bad else "good"
    says = [tag("p", line) for line in audit.verdict]
    if audit.advice:
        says.append(tag("p", tag("b", "What to change: "), audit.advice))
    maps = [
        tag(
            "figure",
            tag("figcaption", tag("h4", TARGETS.get(target, target))),
            _heat_map(TARGETS.get(target, target), audit.cells[target]),
        )
        for target in audit.targets
    ]
    legend = tag(
        "p",
        tag("span", "exact", class_="key leak"),
        " the attacker computes it exactly · ",
        tag("span", "3.5", class_="key some"),
        " noise that is left on its best estimate, in units of β · ",
        tag("span", "–", class_="key none"),
        " it cannot be estimated by linear means",
        class_="note",
    )
    return [
        tag("div", says, class_=f"verdict {kind}"),
        *([legend, tag("div", maps, class_="charts maps")] if maps else []),
        *([_groups(audit)] if audit.smallest else []),
        *([_law(audit)] if audit.law else []),
    ]


def _law(audit: Audit) -> Markup:
    said = [tag("li", line) for line in audit.law]
    return tag("details", tag("summary", "About the noise"), tag("ul", said), id="law")


def _groups(audit: Audit) -> Markup:
    safe = tuple(victim for victim, group in audit.smallest.items() if group is None)
    seen = [(victim, group) for victim, group in audit.smallest.items() if group]
    said = [tag("li", f"client {victim}: {clients(group)}") for victim, group in seen[:64]]
    if len(seen) > 64:
        said.append(tag("li", f"and {plural(len(seen) - 64, 'more client')}"))
    if safe:
        said.append(tag("li", f"{clients(safe)}: no group"))
    return tag(
        "details",
        tag(
            "summary",
            "Smallest group that, pooling what it knows, learns something of a client exactly",
        ),
        tag("ul", said),
        id="groups",
    )


def _heat_map(target: str, cells: Cells) -> Markup:
    """Rows attack, columns are attacked."""
    attackers = sorted({group for group, _ in cells}, key=lambda group: (len(group), group))
    victims = sorted({victim for _, victim in cells})
    largest = max((value for value in cells.values() if value), default=1.0)
    if len(attackers) * len(victims) > MOST_CELLS:
        return _heat_picture(target, cells, attackers, victims, largest)
    rows = [
        tag(
            "tr",
            tag("th", "+".join(map(str, group)), scope="row"),
            [_cell(cells, group, victim, largest) for victim in victims],
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
        data_chart="Audit",
    )
    return scrolling(table)


def _cell(cells: Cells, group: tuple[int, ...], victim: int, largest: float) -> Markup:
    if (group, victim) not in cells:
        return tag("td")
    value = cells[group, victim]
    if value is None:
        return tag("td", "–", class_="none")
    if value == 0:
        return tag("td", "exact", class_="leak")
    return tag("td", f"{value:.3g}", class_="some", style=f"--share:{value / largest:.2f}")


def _heat_picture(
    target: str,
    cells: Cells,
    attackers: Sequence[tuple[int, ...]],
    victims: Sequence[int],
    largest: float,
) -> Markup:
    rgba = np.zeros((len(attackers), len(victims), 4), dtype=np.uint8)
    rows = {group: i for i, group in enumerate(attackers)}
    columns = {victim: j for j, victim in enumerate(victims)}
    for (group, victim), value in cells.items():
        if value is not None:
            strong = 255 if value == 0 else round(40 + 150 * value / largest)
            rgba[rows[group], columns[victim]] = (*(RED if value == 0 else BLUE), strong)
    exact = sum(value == 0 for value in cells.values())
    told = (
        f"{target}: {len(attackers)} attackers (rows) by {len(victims)} clients (columns); "
        f"exact in {exact} of {len(cells)} pairs."
    )
    shape = "matrix stretched" if 2 * len(attackers) < len(victims) else "matrix"
    return embedded(encode_png(rgba), told, class_=shape, data_chart="Audit")
