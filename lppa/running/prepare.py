"""From settings to the blueprint of a run, with β chosen where nobody named one. Pure."""

from __future__ import annotations

from dataclasses import replace

from lppa.coordinator.plan import Blueprint, draw_blueprint
from lppa.protocol.settings import Settings
from lppa.running.noise_scale import choose_beta


def make_blueprint(settings: Settings, nodes: int, name: str) -> Blueprint:
    """The whole of a run."""
    blueprint = draw_blueprint(settings, nodes, name)
    return choose_noise(replace(blueprint, beta_chosen=settings.beta == "auto"))


def choose_noise(blueprint: Blueprint, rows: int | None = None) -> Blueprint:
    """The same run, with a β that hides the smallest client's `rows`, unless somebody named one."""
    if not blueprint.beta_chosen:
        return blueprint
    beta = choose_beta(blueprint.settings, blueprint.topology, blueprint.W, rows)
    return replace(blueprint, settings=replace(blueprint.settings, beta=beta))
