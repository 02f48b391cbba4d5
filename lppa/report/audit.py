"""What the audit found: its verdict, who is hidden from whom, what a departure and an ε tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lppa.auditing.assemble import SOURCES, counted
from lppa.auditing.grade import GRADES, MEANING
from lppa.report.formats import clients, compact, figure, plural
from lppa.report.grades import grade_key, kind_of, overall_words
from lppa.report.heat import grade_map, too_many, value_map
from lppa.report.markup import Markup, join, no_wrap, scrolling, tag
from lppa.report.record import EXACT, MIXED, Audit, Dropout, Epsilon, Who

TARGETS = {
    "g0": "first gradient g⁰",
    "g1": "second gradient g¹",
    "change": "change g¹ − g⁰, or a later one",
    "telescoped": "change from first to last gradient",
    "gradient": "gradient of the round that is known best",
    "mean": "mean of the gradients of all rounds",
}
NARROW, BROAD = 6, 10  # clients up to which three maps fit side by side, and two
SIDE_BY_SIDE = "charts maps"  # the class of a grid
SILENT = "There is no noise."  # in the law


def audit_section(audit: Audit) -> list[Markup]:
    """Verdict, grades and ε, one heat map per target, the smallest groups that see everything."""
    parts = [
        _verdict(audit),
        _dropout(audit, audit.dropout) if audit.dropout else None,
        _grades(audit) if audit.pairs else _promise(audit),
        *(_values(audit) if audit.targets else ()),
        _groups(audit) if audit.smallest else None,
        _law(audit) if audit.law else None,
    ]
    return [part for part in parts if part is not None]


def _verdict(audit: Audit) -> Markup:
    word = overall_words(audit)
    head = grade_key(audit.grade, word) if audit.grade else tag("b", word)
    says = [tag("p", line) for line in audit.verdict]
    if audit.advice:
        says.append(tag("p", tag("b", "What to change: "), audit.advice))
    return tag("div", tag("p", head), says, class_=f"verdict {kind_of(audit.grade)}".strip())


def _dropout(audit: Audit, told: Dropout) -> Markup:
    """What is left when a neighbour leaves: green only where all is hidden before that too."""
    noise = told.noise
    left = "nothing" if isinstance(noise, str) else f"{compact(noise)} {audit.unit}"
    said = (
        f"If client {told.gone} leaves, {left} of client {told.victim}'s fresh noise is left "
        f"against {clients(told.attackers)}"
    )
    if told.ratio:
        said += f", {no_wrap(f'{compact(told.ratio)} ×')} an example's share"
    if audit.grade is None or GRADES.index(told.grade) > GRADES.index(audit.grade):
        more = [f"; what is {audit.grade} anyway stays so." if audit.grade else "."]
    else:
        more = [": ", grade_key(told.grade)]
    return tag("p", tag("b", "Dropout: "), said, more, class_="dropout")


def _grades(audit: Audit) -> Markup:
    """The first map: every pair with its grade; beside it what grades mean, and ε."""
    layout, width = _widths(audit.pairs)
    shown = tag(
        "figure",
        tag(
            "figcaption",
            tag("h4", "Who is hidden from whom"),
            tag("p", _share(audit), class_="note"),
        ),
        grade_map(audit.pairs),
        class_=width,
    )
    beside = [_meanings(audit), _promise(audit)]
    if layout != SIDE_BY_SIDE and width is None:
        beside = [tag("div", beside, class_="stack")]
    return tag("div", shown, beside, class_=layout)


def _widths(cells: Mapping[Who, Any]) -> tuple[str, str | None]:
    """Classes for the grid of maps, and for a map in it: wide tables get more room."""
    victims = len({victim for _, victim in cells})
    if victims <= NARROW or too_many(cells):
        return SIDE_BY_SIDE, None
    return f"{SIDE_BY_SIDE} broad", None if victims <= BROAD else "whole"


def _share(audit: Audit) -> str:
    """What the numbers of the grades are."""
    said = "Noise in an attacker's way ÷ an example's share of the gradient"
    if audit.hide is None:
        return f"{said}; here are no examples to hide, and so no numbers."
    count = audit.hide.examples
    among = "" if count is None else ", the only one" if count == 1 else f", one of {count:,}"
    source = SOURCES.get(audit.hide.source or "", "as given")
    return f"{said} ({compact(audit.hide.rms)}, {source}{among}{counted(audit.hide.spread)})."


def _meanings(audit: Audit) -> Markup:
    """The three grades with their thresholds."""
    bounds = dict.fromkeys(GRADES, "")
    if audit.thresholds:
        low, high = map(compact, audit.thresholds)
        spans = (f"below {low}: ", f"from {low} to {high}: ", f"from {high} on: ")
        bounds = dict(zip(GRADES, spans, strict=True))
    said = [tag("li", grade_key(g), f" {bounds[g]}{MEANING[g]}") for g in GRADES]
    said.append(tag("li", grade_key("open", EXACT), " the attacker computes it without any noise"))
    if any(pair.ratio is None for pair in audit.pairs.values()) and audit.hide:
        said.append(tag("li", tag("b", "–"), " others' gradients alone are in the way: weak"))
    return _titled("What the grades mean", tag("ul", said, class_="meanings"))


def _values(audit: Audit) -> list[Markup]:
    """A map for each target, below what its words mean."""
    layout, width = _widths(audit.cells[audit.targets[0]])
    maps = [
        tag(
            "figure",
            tag("figcaption", tag("h4", TARGETS.get(target, target))),
            value_map(TARGETS.get(target, target), audit.cells[target]),
            class_=width,
        )
        for target in audit.targets
    ]
    return [_words(audit), tag("div", maps, class_=layout)]


def _words(audit: Audit) -> Markup:
    """What stands in the maps of the targets, as far as it does."""
    found = [value for of in audit.cells.values() for value in of.values()]
    number = next((compact(value) for value in found if not isinstance(value, str)), None)
    size = "" if audit.scale is None else f" = {compact(audit.scale)}"
    known = [
        (EXACT if EXACT in found else None, "leak", "none, the attacker computes it"),
        (number, "some", f"its standard deviation, in units of {audit.unit}{size}"),
        (
            MIXED if MIXED in found else None,
            "none",
            "cannot be told apart from others' by linear means",
        ),
    ]
    shown = [
        [" · " if k else " ", tag("span", word, class_=f"key {kind}"), f" {said}"]
        for k, (word, kind, said) in enumerate(part for part in known if part[0])
    ]
    return tag("p", "Noise left on the best estimate of each target:", shown, class_="note")


def _promise(audit: Audit) -> Markup | None:
    """(ε, δ) where one is stated, else why there is none."""
    if audit.epsilon:
        return _titled("Differential privacy", _epsilon(audit.epsilon))
    why = next((line for line in audit.law if line.startswith("No ε")), None)
    if why is None and SILENT in audit.law:
        why = "No ε is stated: there is no noise."
    return _titled("Differential privacy", tag("p", why)) if why else None


def _epsilon(told: Epsilon) -> Markup:
    rounds = f" of {plural(told.releases, 'round')}" if told.releases else ""
    delta = figure(told.delta)
    rows = [("one release", figure(told.release), delta)]
    if told.run is None:
        rows.append((f"the whole run{rounds}", "none", "–"))
    else:
        rows.append((f"the whole run{rounds}", figure(told.run), delta))
    lines = [
        tag("tr", tag("th", name, scope="row"), [tag("td", no_wrap(value)) for value in values])
        for name, *values in rows
    ]
    heads = [tag("th", name, scope="col") for name in ("whoever colludes", "ε", "δ")]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", lines), class_="epsilon")
    why = tag("p", "Later gradients are sent without fresh noise.", class_="note")
    return join([scrolling(table), why if told.run is None else None])


def _titled(title: str, content: Markup) -> Markup:
    return tag("figure", tag("figcaption", tag("h4", title)), content)


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
