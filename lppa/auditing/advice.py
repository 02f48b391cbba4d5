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
from lppa.models.rules import Facts, cancelling_rules, rule_like
from lppa.models.schedule import Schedule, with_noise_in_every_round
from lppa.protocol.names import name_all
from lppa.protocol.settings import Settings
from lppa.running.noise_scale import (
    PLAIN,
    choose_beta,
    enough_noise,
    largest_beta,
    no_more_than,
    told_again,
)


def advice(case: Case, schedule: Schedule, found: Sequence[Exposure]) -> str:
    """What to change so that from none of these attackers anything is less than hidden."""
    settings, rule, costs = case.settings, case.rule, False
    steps: list[str] = []
    if rule.noiseless:
        steps.append(f"--rule {_with_noise(rule)}")
    if settings.noise_every != 1:
        steps.append("--noise-every 1")
        if not rule.own_noise and settings.noise_exchange != "seed":
            steps.append("--noise-exchange seed")
    surrounded = {e.victim for e in found if neighbours(schedule, e.victim) <= set(e.attackers)}
    others = [e for e in found if e.victim not in surrounded]
    one_draw = math.sqrt(2.0) / schedule.update.weight(schedule.step(0))  # as it is on a gradient
    if case.hide is not None:
        changed, most, edge = _changed(case), _most(case), 0.0
        size = (told_again(changed) if case.always else 1.0) * case.hide.size
        one = enough_noise(size, one_draw)
        # One that nobody named is chosen anew.
        beta = _beta_after(case) if steps else settings.scale
        if rule.own_noise:
            edge = one
        elif others and settings.beta_own < one:
            unknown = [noise_in_every(schedule, e.attackers, e.victim) for e in others]
            edge = enough_noise(size, min(filter(None, unknown), default=one_draw))
        wanted = max(beta, edge)
        if wanted > most and (steps or wanted > beta):
            # It is more than models bear once it is added in every round: no more than hides.
            wanted, costs = max(edge, no_more_than(most)), edge > most
        if surrounded and not rule.own_noise and settings.beta_own < one:
            steps.append(f"--beta-own {one:g}")
        if wanted != beta:
            steps.append(f"--beta {wanted:g}")
    else:
        # There is no size to go by: any noise is more than none.
        if surrounded and not rule.own_noise and settings.beta_own == 0:
            steps.append(f"--beta-own {settings.scale or PLAIN:g}")
        if (others or rule.own_noise) and settings.scale == settings.beta_own == 0:
            steps.append(f"--beta {PLAIN:g}")
    told = f"use {' '.join(steps)}" if steps else ""
    if costs:
        # The next run would say so.
        nodes = case.nodes
        full = len(case.topology.edges) == nodes * (nodes - 1)
        even = settings.weights == "uniform"
        other = "--mixing adapt-then-combine" if even else "--weights uniform"
        told += (
            f", which costs accuracy on this graph, or {other if full else 'a denser --topology'}"
        )
    if any(step.startswith("--beta-own") for step in steps):
        told += (
            f" (noise on edges hides nothing of {name_some(surrounded)} from an attacker that is "
            "all its neighbours)"
        )
    elif case.hide is not None and any(step.startswith("--beta ") for step in steps):
        # In θ more steps make the step longer by as much as they share it out to more.
        told += (
            " (or a larger --batch, or a smaller --lr)"
            if rule.in_theta
            else " (or more examples in a gradient: a larger --batch, more --local-steps)"
        )
    return told


def _most(case: Case) -> float:
    """The β that models bear with noise in every round."""
    return largest_beta(_changed(case), case.topology, case.W, case.network)


def _changed(case: Case) -> Settings:
    """The settings with noise in every round."""
    rule = _with_noise(case.rule) if case.rule.noiseless else case.settings.rule
    return replace(case.settings, rule=rule, noise_every=1)


def _beta_after(case: Case) -> float:
    """β once noise is added in every round: one that nobody named is then chosen anew."""
    settings = case.settings
    if settings.scale != choose_beta(settings, case.topology, case.W, network=case.network):
        return settings.scale
    return choose_beta(_changed(case), case.topology, case.W, network=case.network)


def noise_in_every(schedule: Schedule, attackers: Sequence[int], victim: int) -> float:
    """What attackers would not know of a victim's noise if edges had some in every round, in β."""
    rule = replace(schedule.rule, noise="difference")
    changed = replace(schedule, rule=rule, beta_own=0.0, beta_noise=True)
    return unseen_noise(with_noise_in_every_round(changed), attackers, victim)


def _with_noise(rule: Facts) -> str:
    """The rule to go over to from one without noise: the same with noise that cancels, if any."""
    return rule_like(rule, "difference") or cancelling_rules()[0]


def name_some(nodes: Iterable[int]) -> str:
    """Their ids, or how many they are."""
    chosen = sorted(nodes)
    if len(chosen) <= 6:
        return name_all(set(chosen))
    return f"{len(chosen)} nodes"
