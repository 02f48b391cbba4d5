"""audit.json: all that an audit finds, as plain values; and the line that a run prints.

The same for `lppa audit` and for every run; neither prints nor writes anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lppa.auditing.assemble import Case, Hidden, case_of
from lppa.auditing.findings import AuditDocument, Pair, PerRound, RoundTold, Thresholds
from lppa.auditing.grade import GRADES, HIDDEN_FROM, OPEN_BELOW, graded
from lppa.coordinator.plan import Blueprint
from lppa.models.rules import FACTS, cancelling_rules
from lppa.running.noise_scale import pass_is_unknown

if TYPE_CHECKING:
    from lppa.auditing.exposure import Exposure

MOST_NODES = 32  # above it, not all attackers are looked at
FEW = 8
QUICK = 60  # sets of colluders that are looked at before a run
VERY_LARGE = 64  # nodes above which a run's audit stops early
LEGEND = (
    "mixed: cannot be told apart from others' by linear means. ÷ example: the least noise over an "
    "example's share of the gradient."
)
OF_GRADIENTS = (
    "gradient: that of the round that is known best; mean: of all rounds that are overheard. Noise "
    "is counted as it is on a gradient: that in θ over the length of the step."
)


def audit_blueprint(blueprint: Blueprint, hide: Hidden | None) -> AuditDocument:
    """The audit of a run: every node as an attacker by itself, on what is to be hidden there.

    A run must not fail because of its audit, nor wait long for it: of more than 32 nodes only a
    few are looked at, and the search for colluders is short.
    """
    if blueprint.nodes <= VERY_LARGE:
        return audit(case_of(blueprint, hide=hide), budget=QUICK)
    rounds = min(2, blueprint.settings.rounds - 1)
    return audit(case_of(blueprint, rounds, hide), budget=0)


def unaudited(case: Case) -> AuditDocument:
    """What can be said of a rule that is not ours: nothing, and so nothing good."""
    known = " or ".join(cancelling_rules())
    return _document(
        case,
        targets=[],
        legend=LEGEND,
        pairs=[],
        smallest={},
        grade="open",
        verdict=[
            f"Nobody has audited the rule {case.settings.rule}: "
            "take it that all that travels is seen."
        ],
        advice=f"use --rule {known}, whose messages the audit understands",
        bad=True,
        dropout=None,
        epsilon=None,
        law=[],
    )


def warning_lines(found: AuditDocument) -> list[str]:
    """What a run prints: one line when anything is less than hidden, with what to change."""
    # Where there are no examples, nothing but an exact leak is worth a warning.
    if found.grade == "hidden" or not (found.bad or found.hide):
        return []
    # Reasons, in brackets, are for the report: a line on a terminal should be one.
    fact = found.verdict[0].split(" (")[0].rstrip(".")
    remedy = found.advice.split(" (")[0] if found.advice else ""
    change = f"; to change that, {remedy}" if remedy else ""
    return [f"{fact}{change} (`lppa audit` tells more)"]


def audit(
    case: Case,
    attackers: Sequence[int] | None = None,
    victim: int | None = None,
    budget: int | None = None,
) -> AuditDocument:
    """All findings of a case: for one set of attackers, or for every node by itself."""
    if case.settings.rule not in FACTS:
        return unaudited(case)
    # Loaded when something is audited, and not by every command that could.
    from threadpoolctl import threadpool_limits

    from lppa.auditing.collusion import BUDGET, smallest_sets
    from lppa.auditing.dropout import worst_dropout
    from lppa.auditing.exposure import exposures, targets_of
    from lppa.auditing.noise_law import guarantee, law
    from lppa.auditing.verdict import judge

    schedule, nodes = case.schedule(), range(case.nodes)
    large = case.nodes > MOST_NODES
    alone = spread(case.nodes, FEW) if large else list(nodes)
    victims = None if victim is None else [victim]
    # Many small systems: threads would cost more than they bring.
    with threadpool_limits(1):
        groups: list[tuple[int, ...]] = [(a,) for a in alone if a != victim]
        if attackers is not None:
            groups = [tuple(sorted(set(attackers)))]
        found = [e for group in groups for e in exposures(schedule, group, victims)]
        singles = [e for e in found if len(e.attackers) == 1]
        asked = victims or (spread(case.nodes, FEW) if large else nodes)
        colluders = smallest_sets(schedule, singles, asked, BUDGET if budget is None else budget)
        verdict = judge(case, found, colluders, _notes(case, attackers is None and large))
    return _document(
        case,
        targets=list(targets_of(schedule, 0)),
        legend=LEGEND if schedule.update.tells_changes else f"{LEGEND} {OF_GRADIENTS}",
        pairs=[_pair(e, case.size) for e in found],
        smallest={str(v): None if s is None else list(s) for v, s in colluders.sets.items()},
        grade=verdict.grade,
        verdict=verdict.sentences,
        advice=verdict.advice,
        bad=verdict.bad,
        dropout=worst_dropout(case, schedule),
        epsilon=guarantee(case.settings),
        law=law(case),
    )


def shorter_steps(before: AuditDocument | None) -> str:
    """What to change where gradients grew; what leaked `before` needs what it needed then, too."""
    if before is None or not before.advice:
        return "use a smaller --lr"
    return f"{before.advice}, and a smaller --lr"


def blown_up(found: AuditDocument) -> AuditDocument:
    """The audit of a run whose gradients grew beyond all numbers."""
    first = (
        "Open: gradients grew until they were no numbers any more, and what they have of an "
        "example with them: no noise hides that"
    )
    rest = [line for line in found.verdict if not line.startswith(tuple(map(str.title, GRADES)))]
    return replace(
        found,
        pairs=[replace(pair, ratio=0.0, grade="open") for pair in found.pairs],
        grade="open",
        verdict=[f"{first}.", *rest],
        advice=shorter_steps(found if found.bad else None),
        views=[replace(view, ratio=0.0, grade="open") for view in found.views],
    )


def _document(case: Case, **findings: Any) -> AuditDocument:
    """What was found, with what it was asked of."""
    settings = case.settings
    return AuditDocument(
        nodes=case.nodes,
        topology=case.topology.name,
        rule=settings.rule,
        noise_every=settings.noise_every,
        mixing=settings.mixing,
        init=settings.init,
        rounds=case.rounds,
        beta=settings.scale,
        beta_own=settings.beta_own,
        hide=case.hide,
        thresholds=Thresholds(OPEN_BELOW, HIDDEN_FROM),
        **findings,
    )


def rounds_of(case: Case, found: AuditDocument) -> PerRound:
    """What the pair that hides least tells of each round's gradient, and of each change."""
    from lppa.auditing.exposure import Exposure, by_round, plain, unseen_noise

    pair = min(
        found.pairs,
        key=lambda p: (GRADES.index(p.grade), math.inf if p.ratio is None else p.ratio),
    )
    schedule, spies, victim = case.schedule(), tuple(pair.attackers), pair.victim
    unseen, rows = unseen_noise(schedule, spies, victim), []
    for t, (g, change) in enumerate(by_round(schedule, spies, victim)):
        both = Exposure(spies, victim, {"gradient": g, "change": change}, unseen)
        told = plain(change) if t and schedule.update.tells_changes else None
        rows.append(RoundTold(t, plain(g), told, *_grade(both, case.once)))
    return PerRound(pair.attackers, pair.victim, rows)


def _pair(found: Exposure, size: float | None) -> Pair:
    return Pair(list(found.attackers), found.victim, found.noise(), *_grade(found, size))


def _grade(found: Exposure, size: float | None) -> tuple[float | None, str]:
    ratio, grade = graded(found, size)
    return None if ratio is None else float(f"{ratio:.6g}"), grade


def spread(nodes: int, count: int) -> list[int]:
    """So many ids, evenly over all."""
    return sorted({k * nodes // count for k in range(count)})


def _notes(case: Case, few: bool) -> list[str]:
    """What was not looked at."""
    notes = []
    if few:
        notes.append(
            f"With {case.nodes} nodes only {FEW} were looked at as attackers, and {FEW} as victims "
            f"of colluders, over rounds 0 to {case.rounds}; `lppa audit --attackers` looks at any."
        )
    if case.rule.in_theta and pass_is_unknown(case.settings, case.network):
        steps = round(case.step / case.settings.lr)
        notes.append(
            f"How many steps a pass over this data has is not known: a round is taken to have "
            f"{steps}. If it has more, all noise on a gradient is so much less."
        )
    return notes
