"""From settings to the blueprint of a run, with β and the last rounds chosen where nobody named
them. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lppa.coordinator.plan import Blueprint, draw_blueprint
from lppa.coordinator.sinkhorn import spectral_gap
from lppa.protocol.links import check_recordable
from lppa.protocol.settings import RULES, Settings
from lppa.running.facts import Facts
from lppa.running.known_networks import NETWORKS
from lppa.running.noise_scale import choose_beta

CLOSE = 0.05  # of the models' distance that may be left at the end
AT_ONCE = 1e-6  # a W that leaves no more than that of it leaves nothing to do


def make_blueprint(settings: Settings, nodes: int, name: str) -> Blueprint:
    """The whole of a run."""
    blueprint = draw_blueprint(settings, nodes, name)
    if settings.finish == "auto":
        told = replace(settings, finish=finishing_rounds(settings, blueprint.W))
        blueprint = replace(blueprint, settings=told)
    return choose_noise(replace(blueprint, beta_chosen=settings.beta == "auto"))


def choose_noise(blueprint: Blueprint, facts: Facts | None = None) -> Blueprint:
    """The same run, with a β that hides its data as far as known, unless somebody named one."""
    rows = None if facts is None else min(facts.rows)
    network = None if facts is None else facts.network
    settings = blueprint.settings
    if blueprint.beta_chosen:
        beta = choose_beta(settings, blueprint.topology, blueprint.W, rows, network)
        settings = replace(settings, beta=beta)
    return replace(blueprint, settings=settings, network=network, rows=rows)


def check_recorded(blueprint: Blueprint, attackers: Sequence[int]) -> None:
    """Refuses, before a run starts, attackers that could not record it, where that is known."""
    settings = blueprint.settings
    network = blueprint.network or NETWORKS.get((settings.dataset, settings.model))
    if attackers and network is not None:
        check_recordable(network.parameters)


def finishing_rounds(settings: Settings, W: np.ndarray) -> int:
    """How many last rounds only average θ where nobody named a number.

    On a sparse graph each client's model still has its own noise of the last rounds, and its own
    data's pull: that is taken out by averaging alone. A rule of somebody's own is left as it is.
    """
    most = settings.rounds // 10
    if most == 0 or settings.rule not in RULES:
        return 0
    left = 1.0 - spectral_gap(W)
    if left <= AT_ONCE:
        return 0
    return most if left >= 1.0 else min(most, math.ceil(math.log(CLOSE) / math.log(left)))
