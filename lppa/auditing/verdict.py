"""The audit in plain words: what is learned, by whom, how well the rest is hidden, what to change.

Works on what `exposure` and `collusion` found; computes nothing but the round in which something
is first learned. What to change is in `advice`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lppa.auditing.advice import advice, name_some
from lppa.auditing.assemble import SOURCES, Case, Hidden, counted
from lppa.auditing.collusion import Collusion, neighbours
from lppa.auditing.exposure import Exposure, exposures
from lppa.auditing.grade import GRADES, HIDDEN_FROM, MEANING, OPEN_BELOW, grade_of, graded, worst
from lppa.models.schedule import Schedule, noise_in_every_round
from lppa.protocol.names import name_all
from lppa.running.noise_scale import told_again

FEW_EXAMPLES = 64  # in a sum of gradients; so few, attacks on batches take apart


@dataclass(frozen=True)
class Verdict:
    """Sentences, the most important first; `bad` if one attacker set learns something exactly.

    `grade` is that of the pair of attacker and victim that is hidden least.
    """

    sentences: list[str]
    advice: str | None
    bad: bool
    grade: str


def judge(
    case: Case, found: Sequence[Exposure], collusion: Collusion, notes: Sequence[str] = ()
) -> Verdict:
    """What the figures mean."""
    schedule = case.schedule()
    found = sorted(found, key=lambda e: (e.victim, e.attackers))
    bad = any(e.exact for e in found)
    grade = worst(graded(e, case.size)[1] for e in found)
    sentences = []
    if bad and not schedule.any_noise:
        sentences.append(_nothing_hidden(case, found))
    elif bad:
        sentences += _exact_sentences(case, schedule, found)
    if not schedule.update.gradients(schedule):
        sentences.append("No gradient is in any message: training ends before one is sent.")
    else:
        sentences += _graded(case, found)
    if not bad:
        sentences.append(_nothing_exact(schedule, found))
    sentences += _least_noise(case, schedule, found)
    sentences += _again_and_again(case, schedule, found)
    sentences += _colluders(schedule, collusion)
    sentences += _sum_of_all(case, schedule)
    told = None if grade == "hidden" else advice(case, schedule, found) or None
    return Verdict([*sentences, *notes], told, bad, grade)


def _graded(case: Case, found: Sequence[Exposure]) -> list[str]:
    """The grade of what is hidden least, and how it comes about."""
    if case.hide is None:
        return ["The quadratic problem has no examples to hide: no grade beyond what is exact."]
    pairs = [(*graded(e, case.size), e) for e in found if not e.exact]
    if not pairs:
        return []
    ratio, grade, example = min(
        pairs, key=lambda p: (GRADES.index(p[1]), -1.0 if p[0] is None else p[0])
    )
    who = f"{name_all(set(example.attackers))} on node {example.victim}"
    if ratio is None:
        return [
            f"{grade.capitalize()}: nothing but other clients' gradients is in the way of {who}: "
            "they cannot be told apart by linear means, and no fresh noise is on them."
        ]
    bounds = {
        "open": f"below {OPEN_BELOW:g} {MEANING['open']}",
        "weak": f"from {OPEN_BELOW:g} to {HIDDEN_FROM:g} {MEANING['weak']}",
        "hidden": f"from {HIDDEN_FROM:g} on {MEANING['hidden']}",
    }
    what = "an example's share of the gradient"
    if case.repeated > 1.0:
        what = (
            "what all gradients of the run together tell of an example, "
            f"{case.repeated:.3g} times its share of one"
        )
    return [
        f"{grade.capitalize()}: the noise in the way of {who} is {ratio:.3g} times {what} "
        f"({case.hide.rms:.3g}, {_source(case.hide)}); {bounds[grade]}."
    ]


def _source(hide: Hidden) -> str:
    among = "" if hide.examples is None else f", one of {hide.examples}"
    return SOURCES.get(hide.source, "as given") + among + counted(hide.spread)


def _sum_of_all(case: Case, schedule: Schedule) -> list[str]:
    """What noise that cancels can never hide."""
    if not schedule.edge_noise or schedule.beta_own > 0 or case.hide is None:
        return []
    known = (
        "is known to all: noise that cancels cancels in it"
        if schedule.update.tells_changes
        else "is no secret: it moves the mean of all models, and in that noise that cancels cancels"
    )
    said = (
        f"The sum of all clients' gradients {known}. "
        "Who subtracts its own share has the mean over the others' examples"
    )
    if case.hide.examples is None:
        return [said + "."]
    count = case.hide.examples * (case.nodes - 1)
    few = "; so few can be taken apart by attacks on batches" if count <= FEW_EXAMPLES else ""
    return [f"{said}, here {count} or more{few}."]


def _again_and_again(case: Case, schedule: Schedule, found: Sequence[Exposure]) -> list[str]:
    """What fresh noise on gradients that come one by one does not hide: what is in all of them."""
    times = told_again(case.settings) if noise_in_every_round(schedule) else 1.0
    ratios = [ratio for ratio, _ in (graded(e, case.size) for e in found) if ratio]
    if times == 1.0 or not ratios:
        return []
    left = min(ratios) * case.repeated / times
    counted = "; it is counted so, as every gradient has the same" if case.repeated > 1.0 else ""
    count = len(schedule.update.gradients(replace(schedule, rounds=case.settings.rounds - 1)))
    return [
        f"Each gradient comes with fresh noise: of an example that is in all {count} of a "
        f"run, who takes them together has no more than {left:.3g} times its share in the way "
        f"({grade_of(left)}{counted}). Rules that track gradients tell it once."
    ]


def _nothing_exact(schedule: Schedule, found: Sequence[Exposure]) -> str:
    several = any(len(e.attackers) > 1 for e in found)
    if not schedule.update.tells_changes:
        who = "These attackers learn no" if several else "No node alone learns a"
        return f"{who} gradient exactly."
    if several:
        return "These attackers learn no gradient and no change of a gradient exactly."
    return "No node alone learns a gradient or a change of a gradient exactly."


def _kinds(schedule: Schedule) -> tuple[tuple[str, str], ...]:
    """The targets that sentences are made of, and what they are called in them."""
    if schedule.update.tells_changes:
        return (("g0", "first gradient"), ("change", "gradient change"))
    return (("gradient", "gradient"),)


def _nothing_hidden(case: Case, found: Sequence[Exposure]) -> str:
    example = next(e for e in found if e.exact)
    why = "noise of scale 0 is none"
    if case.rule.noiseless:
        why = f"{case.settings.rule} adds no noise"
    return (
        f"nothing is hidden: {why}, and {name_all(set(example.attackers))} {_verb(example)} node "
        f"{example.victim}'s gradients exactly ({_count(found)})"
    )


def _exact_sentences(case: Case, schedule: Schedule, found: Sequence[Exposure]) -> list[str]:
    """One sentence per kind of leak, with an example and how common it is."""
    sentences = []
    for target, what in _kinds(schedule):
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
    end = schedule.rounds
    if not schedule.update.tells_changes:
        end += schedule.finish
    for last in range(1, end):
        early = exposures(_heard_until(schedule, last), example.attackers, [example.victim])
        if target in early[0].exact:
            return last
    return end


def _heard_until(schedule: Schedule, last: int) -> Schedule:
    """The schedule of messages up to a round."""
    if schedule.update.tells_changes:
        return replace(schedule, rounds=last, finish=0)
    finish = max(0, last - schedule.rounds)
    return replace(schedule, rounds=min(last, schedule.rounds), finish=finish)


def _least_noise(case: Case, schedule: Schedule, found: Sequence[Exposure]) -> list[str]:
    """How much noise the best-placed attacker has left, for what is not exact."""
    sentences = []
    for target, what in _kinds(schedule):
        left = [e for e in found if 0 < e.values[target] < math.inf]
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
            f"Of {name_some(several)} nothing is learned exactly unless {span} nodes collude: "
            f"{name_all(set(several[victim]))} against node {victim}."
        )
        covered = any(neighbours(schedule, v) <= set(s) for v, s in several.items())
        if schedule.edge_noise and schedule.beta_own == 0 and covered:
            sentences.append(
                "Noise that cancels never hides a node from all its neighbours together."
            )
    never = [v for v, s in collusion.sets.items() if s is None]
    if never and schedule.update.gradients(schedule):
        sentences.append(
            f"Of {name_some(never)} no set of colluders learns anything exactly: "
            "noise that nobody else knows stays on all that is sent."
        )
    if collusion.unsure:
        sentences.append(
            f"The search for colluders was cut: for {name_some(collusion.unsure)} a smaller set "
            "may exist."
        )
    return sentences
