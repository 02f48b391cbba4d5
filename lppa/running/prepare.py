"""From settings to the blueprint of a run, with β chosen where nobody named one. Pure."""

from __future__ import annotations

from dataclasses import replace

from lppa.coordinator.plan import Blueprint, draw_blueprint
from lppa.protocol.settings import Settings
from lppa.running.facts import Facts
from lppa.running.noise_scale import choose_beta


def make_blueprint(settings: Settings, nodes: int, name: str) -> Blueprint:
    """The whole of a run."""
    blueprint = draw_blueprint(settings, nodes, name)
    return choose_noise(replace(blueprint, beta_chosen=settings.beta == "auto"))


def choose_noise(blueprint: Blueprint, facts: Facts | None = None) -> Blueprint:
    """The same run, with a β that hides its data as far as known, unless somebody named one."""
    rows = None if facts is None else min(facts.rows)
    network = None if facts is None else facts.network
    settings = blueprint.settings
    if blueprint.beta_chosen:
        beta = choose_beta(settings, blueprint.topology, blueprint.W, rows, network)
        settings = replace(settings, beta=beta)
    return replace(blueprint, settings=settings, network=network)
