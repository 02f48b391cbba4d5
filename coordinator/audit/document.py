"""audit.json: all that an audit finds, as plain values; and the line that a run prints.

The same for `lppa audit` and for every run; neither prints nor writes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lppa.coordinator.audit.assemble import Case, case_of
from lppa.coordinator.plan import Blueprint

MOST_NODES = 32  # above it, not all attackers are looked at
FEW = 8
QUICK = 60  # sets of colluders that are looked at before a run
VERY_LARGE = 64  # nodes above which a run's audit stops early


def audit_blueprint(blueprint: Blueprint) -> dict[str, Any]:
    """The audit of a run before it starts: every node as an attacker by itself.

    A run must not fail because of its audit, nor wait long for it: of more than 32 nodes only a
    few are looked at, and the search for colluders is short.
    """
    if blueprint.nodes <= VERY_LARGE:
        return audit(case_of(blueprint), budget=QUICK)
    return audit(case_of(blueprint, min(2, blueprint.settings.rounds - 1)), budget=0)


def warning_lines(found: dict[str, Any]) -> list[str]:
    """What a run prints before training: one line when it is bad, with what would help."""
    if not found["bad"]:
        return []
    # Reasons, in brackets, are for the report: a line on a terminal should be one.
    fact, remedy = (text.split(" (")[0] for text in (found["verdict"][0], found["advice"] or ""))
    advice = f"; to change that, {remedy}" if remedy else ""
    return [f"{fact}{advice} (`lppa audit` tells more)"]


def audit(
    case: Case,
    attackers: Sequence[int] | None = None,
    victim: int | None = None,
    budget: int | None = None,
) -> dict[str, Any]:
    """All findings of a case: for one set of attackers, or for every node by itself."""
    # Loaded when something is audited, and not by every command that could.
    from threadpoolctl import threadpool_limits

    from lppa.coordinator.audit.collusion import BUDGET, smallest_sets
    from lppa.coordinator.audit.exposure import exposures, target_names
    from lppa.coordinator.audit.noise_law import law
    from lppa.coordinator.audit.verdict import judge

    schedule, nodes = case.schedule(), range(case.nodes)
    large = case.nodes > MOST_NODES
    alone = spread(case.nodes, FEW) if large else list(nodes)
    victims = None if victim is None else [victim]
    # Many small systems: threads would cost more than they bring.
    with threadpool_limits(1):
        if attackers is None:
            groups = [(a,) for a in alone if a != victim]
        else:
            groups = [tuple(sorted(set(attackers)))]
        found = [e for group in groups for e in exposures(schedule, group, victims)]
        singles = [e for e in found if len(e.attackers) == 1]
        asked = victims or (spread(case.nodes, FEW) if large else nodes)
        colluders = smallest_sets(schedule, singles, asked, BUDGET if budget is None else budget)
        verdict = judge(case, found, colluders, _notes(case, attackers is None and large))
    settings = case.settings
    return {
        "nodes": case.nodes,
        "topology": case.topology.name,
        "rule": settings.rule,
        "noise_every": settings.noise_every,
        "mixing": settings.mixing,
        "init": settings.init,
        "rounds": case.rounds,
        "beta": settings.beta,
        "beta_own": settings.beta_own,
        "targets": target_names(schedule),
        "pairs": [e.record() for e in found],
        "smallest": {str(v): None if s is None else list(s) for v, s in colluders.sets.items()},
        "verdict": verdict.sentences,
        "advice": verdict.advice,
        "bad": verdict.bad,
        "law": law(case),
    }


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
    if case.settings.local_steps == "epoch" and case.local_steps > 1:
        notes.append(
            "An epoch was taken to be more than one step; how many makes no difference to what is "
            "exact."
        )
    return notes
