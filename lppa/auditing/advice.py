"""What to change so that nothing is less than hidden: the shortest list of options that does it.

What is wrong is the verdict's to say; here is only what follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lppa.auditing.assemble import Case
from lppa.auditing.collusion import neighbours
from lppa.auditing.exposure import Exposure, unseen_noise
from lppa.models.schedule import Schedule
from lppa.protocol.names import name_all
from lppa.running.noise_scale import PLAIN, choose_beta, enough_noise


def advice(case: Case, schedule: Schedule, found: Sequence[Exposure]) -> str:
    """What to change so that from none of these attackers anything is less than hidden."""
    settings, steps = case.settings, []
    if settings.rule == "dsgt":
        steps.append("--rule lppa")
    if settings.noise_every != 1:
        steps.append("--noise-every 1")
        if settings.rule != "dp" and settings.noise_exchange != "seed":
            steps.append("--noise-exchange seed")
    surrounded = {e.victim for e in found if neighbours(schedule, e.victim) <= set(e.attackers)}
    others = [e for e in found if e.victim not in surrounded]
    one_draw = math.sqrt(2.0) / schedule.update.weight(schedule, 0)  # as it is on a gradient
    if case.hide is not None:
        one = enough_noise(case.hide.rms, one_draw)
        if surrounded and settings.rule != "dp" and settings.beta_own < one:
            steps.append(f"--beta-own {one:g}")
        if settings.rule == "dp":
            edge = one
        else:
            unknown = [noise_in_every(schedule, e.attackers, e.victim) for e in others]
            edge = enough_noise(case.hide.rms, min(filter(None, unknown), default=one_draw))
        beta = _beta_after(case) if steps else settings.scale
        if (others or settings.rule == "dp") and beta < edge and settings.beta_own < one:
            steps.append(f"--beta {edge:g}")
    else:
        # There is no size to go by: any noise is more than none.
        if surrounded and settings.rule != "dp" and settings.beta_own == 0:
            steps.append(f"--beta-own {settings.scale or PLAIN:g}")
        if (others or settings.rule == "dp") and settings.scale == settings.beta_own == 0:
            steps.append(f"--beta {PLAIN:g}")
    told = f"use {' '.join(steps)}" if steps else ""
    if any(step.startswith("--beta-own") for step in steps):
        told += (
            f" (noise on edges hides nothing of {name_some(surrounded)} from an attacker that is "
            "all its neighbours)"
        )
    elif case.hide is not None and any(step.startswith("--beta ") for step in steps):
        # Under dsgd more steps make the step longer by as much as they share it out to more.
        told += (
            " (or a larger --batch, or a smaller --lr)"
            if settings.rule == "dsgd"
            else " (or more examples in a gradient: a larger --batch, more --local-steps)"
        )
    return told


def _beta_after(case: Case) -> float:
    """β once noise is added in every round: one that nobody named is then chosen anew."""
    settings = case.settings
    if settings.scale != choose_beta(settings, case.topology, case.W, network=case.network):
        return settings.scale
    rule = "lppa" if settings.rule == "dsgt" else settings.rule
    changed = replace(settings, rule=rule, noise_every=1)
    return choose_beta(changed, case.topology, case.W, network=case.network)


def noise_in_every(schedule: Schedule, attackers: Sequence[int], victim: int) -> float:
    """What attackers would not know of a victim's noise if edges had some in every round, in β."""
    rule = "dsgd" if schedule.rule == "dsgd" else "lppa"
    changed = replace(schedule, rule=rule, noise_every=1, beta_own=0.0, edges_noisy=True)
    return unseen_noise(changed, attackers, victim)


def name_some(nodes: Iterable[int]) -> str:
    """Their ids, or how many they are."""
    chosen = sorted(nodes)
    if len(chosen) <= 6:
        return name_all(set(chosen))
    return f"{len(chosen)} nodes"
