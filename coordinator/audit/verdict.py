"""The audit in plain words: what is learned, by whom, and what to change.

Works on what `exposure` and `collusion` found; computes nothing but the round in which an example
is first learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lppa.coordinator.audit.assemble import Case, noise_in_every_round
from lppa.coordinator.audit.collusion import Collusion, neighbours
from lppa.coordinator.audit.exposure import Exposure, exposures
from lppa.models.tracking import Schedule
from lppa.protocol.names import name_all

SCALE = 0.025  # the paper's β, where there is none to start from


@dataclass(frozen=True)
class Verdict:
    """Sentences, the most important first; `bad` if one attacker set learns something exactly."""

    sentences: list[str]
    advice: str | None
    bad: bool


def judge(
    case: Case, found: Sequence[Exposure], collusion: Collusion, notes: Sequence[str] = ()
) -> Verdict:
    """What the figures mean."""
    schedule = case.schedule()
    found = sorted(found, key=lambda e: (e.victim, e.attackers))
    bad = any(e.exact for e in found)
    if not bad:
        sentences = [_nothing_exact(found)]
    elif schedule.rule == "dsgt":
        sentences = [_nothing_hidden(case, found)]
    else:
        sentences = _exact_sentences(case, schedule, found)
    sentences += _least_noise(case, found)
    sentences += _colluders(schedule, collusion)
    return Verdict([*sentences, *notes], advice(case, schedule, found) if bad else None, bad)


def advice(case: Case, schedule: Schedule, found: Sequence[Exposure]) -> str:
    """What to change so that none of these attackers learns anything exactly."""
    settings, steps = case.settings, []
    if schedule.rule == "dsgt":
        if settings.rule == "dsgt":
            steps.append("--rule lppa")
        if settings.beta == 0:
            steps.append(f"--beta {SCALE:g}")
    if settings.noise_every != 1:
        steps.append("--noise-every 1")
        if settings.rule != "dp" and settings.noise_exchange != "seed":
            steps.append("--noise-exchange seed")
    told = f"use {' '.join(steps)}" if steps else ""
    surrounded = {e.victim for e in found if neighbours(schedule, e.victim) <= set(e.attackers)}
    if surrounded and settings.rule != "dp" and settings.beta_own == 0:
        told += f"{' and ' if told else 'use '}--beta-own {settings.beta or SCALE:g}"
        told += (
            f" (noise on edges hides nothing of {_victims(surrounded)} from an attacker that is "
            "all its neighbours)"
        )
    return told


def _nothing_exact(found: Sequence[Exposure]) -> str:
    if any(len(e.attackers) > 1 for e in found):
        return "These attackers learn no gradient and no change of a gradient exactly."
    return "No node alone learns a gradient or a change of a gradient exactly."


def _nothing_hidden(case: Case, found: Sequence[Exposure]) -> str:
    example = next(e for e in found if e.exact)
    why = "dsgt adds no noise" if case.settings.rule == "dsgt" else "noise of scale 0 is none"
    return (
        f"nothing is hidden: {why}, and {name_all(set(example.attackers))} {_verb(example)} node "
        f"{example.victim}'s gradients exactly ({_count(found)})"
    )


def _exact_sentences(case: Case, schedule: Schedule, found: Sequence[Exposure]) -> list[str]:
    """One sentence per kind of leak, with an example and how common it is."""
    sentences = []
    for target, what in (
        ("g0", "first gradient"),
        ("change", "gradient change"),
    ):
        leaks = [e for e in found if target in e.exact]
        if not leaks:
            continue
        example = leaks[0]
        when = "" if target == "g0" else f" after round {_first_round(schedule, example, target)}"
        sentences.append(
            f"{name_all(set(example.attackers))} {_verb(example)} node {example.victim}'s {what} "
            f"exactly{when}: {_why(case, schedule, example, target)} "
            f"({len(leaks)} of {len(found)} pairs of attacker and victim)"
        )
    # Whatever leaks otherwise: a later gradient by itself, say.
    if not sentences:
        example = next(e for e in found if e.exact)
        sentences.append(
            f"{name_all(set(example.attackers))} {_verb(example)} something of node "
            f"{example.victim} exactly ({', '.join(example.exact)}; {_count(found)})"
        )
    return sentences


def _why(case: Case, schedule: Schedule, example: Exposure, target: str) -> str:
    if target == "g0" or noise_in_every_round(schedule):
        alone = neighbours(schedule, example.victim) <= set(example.attackers)
        return (
            f"all neighbours of node {example.victim} attack, and know all noise that it adds"
            if alone and len(example.attackers) > 1
            else "its only neighbour knows all noise that it adds"
            if alone
            else "what noise is left cancels"
        )
    if case.settings.noise_every == 0:
        return "start-only noise does not hide it"
    return f"noise every {case.settings.noise_every} rounds leaves the rounds between without any"


def _verb(example: Exposure) -> str:
    return "learns" if len(example.attackers) == 1 else "together learn"


def _count(found: Sequence[Exposure]) -> str:
    leaks = sum(bool(e.exact) for e in found)
    return f"{leaks} of {len(found)} pairs of attacker and victim"


def _first_round(schedule: Schedule, example: Exposure, target: str) -> int:
    """The round whose messages complete what is needed."""
    for last in range(1, schedule.rounds):
        early = exposures(replace(schedule, rounds=last), example.attackers, [example.victim])
        if target in early[0].exact:
            return last
    return schedule.rounds


def _least_noise(case: Case, found: Sequence[Exposure]) -> list[str]:
    """How much noise the best-placed attacker has left, for what is not exact."""
    sentences = []
    for target, what in (("g0", "first gradient"), ("change", "gradient change")):
        left = [e for e in found if 0 < e.values[target] < float("inf")]
        if not left:
            continue
        closest = min(left, key=lambda e: (round(e.values[target], 6), e.attackers, e.victim))
        size = closest.values[target]
        sentences.append(
            f"Where it is not exact, the least noise on a {what} is {size:.3g} {case.unit} "
            f"(standard deviation): {name_all(set(closest.attackers))} on node {closest.victim}."
        )
    return sentences


def _colluders(schedule: Schedule, collusion: Collusion) -> list[str]:
    """How many must collude, for whom that is fewest and most."""
    sentences = []
    sets = {v: s for v, s in collusion.sets.items() if s is not None}
    several = {v: s for v, s in sets.items() if len(s) > 1}
    if several:
        sizes = sorted({len(s) for s in several.values()})
        victim = min(several, key=lambda v: (len(several[v]), v))
        span = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        sentences.append(
            f"Of {_victims(several)} nothing is learned exactly unless {span} nodes collude: "
            f"{name_all(set(several[victim]))} against node {victim}."
        )
        covered = any(neighbours(schedule, v) <= set(s) for v, s in several.items())
        if schedule.rule == "lppa" and schedule.beta_own == 0 and covered:
            sentences.append(
                "Noise that cancels never hides a node from all its neighbours together."
            )
    never = [v for v, s in collusion.sets.items() if s is None]
    if never:
        sentences.append(
            f"Of {_victims(never)} no set of colluders learns anything exactly: "
            "noise that nobody else knows stays on all that is sent."
        )
    if collusion.unsure:
        sentences.append(
            f"The search for colluders was cut: for {_victims(collusion.unsure)} a smaller set "
            "may exist."
        )
    return sentences


def _victims(nodes: Sequence[int] | set[int] | dict) -> str:
    chosen = sorted(nodes)
    if len(chosen) <= 6:
        return name_all(set(chosen))
    return f"{len(chosen)} nodes"
