"""A recorded run as attackers see it: their logs, W, and what is public about the victims' data.

Also which attacks a call asks for: who attacks whom in which round. The truth is not read here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lppa.attack.knowledge import Knowledge, read_knowledge
from lppa.attack.names import Attack
from lppa.attack.target import Victim
from lppa.node.datasets import Dataset, chosen_dataset
from lppa.node.learner import steps_per_epoch
from lppa.node.log import log_path, read_log
from lppa.protocol.checks import check_ids
from lppa.protocol.errors import WrongUse
from lppa.protocol.messages import Plan
from lppa.protocol.names import name_all
from lppa.protocol.settings import OWN, Settings, make_settings
from lppa.protocol.view import read_view

log = logging.getLogger("lppa.attack")

PUBLIC = 5000  # rows of public data that a mean and a covariance are taken from
WIDEST = 4000  # inputs with more numbers than this get no covariance: its root takes n³
CLIPPED_NORM = {"laplace": 1, "gaussian": 2}
STRAY = 0.1  # how far every number may stray, whatever was seen, in parts of what numbers do


@dataclass(frozen=True)
class Case:
    """One attack to be made: by whom (pooled if several), on whom, in which round."""

    folder: Path
    attack: Attack
    attackers: tuple[int, ...]
    victim: int
    round: int


@dataclass(frozen=True)
class Scene:
    """What the attackers know of a run, and the public knowledge about the victims' data."""

    folder: Path
    known: Knowledge
    about: Victim
    dataset: Dataset


def plan_cases(
    folder: Path,
    attacks: Sequence[Attack],
    alone: Sequence[int] | None,
    victims: Sequence[int] | None,
    rounds: Sequence[int],
) -> list[Case]:
    """Every attack by every attacker on every victim in every round.

    `alone` are the attackers that work each for itself (None: all that recorded), `victims` None
    means all that are heard. An attacker that does not hear a victim leaves it to the others.
    """
    plans = recorded_plans(folder)
    groups = [
        [attack.colluders] if attack.colluders else [(a,) for a in (alone or plans)]
        for attack in attacks
    ]
    spies = {spy for some in groups for group in some for spy in group}
    for spy in sorted(spies - plans.keys()):
        raise WrongUse(
            f"node {spy} recorded nothing in {folder}; those that did: {name_all(set(plans))}"
        )
    nodes = next(iter(plans.values())).nodes
    check_ids(victims or (), nodes)
    for victim in victims or ():
        if victim in spies:
            raise WrongUse(f"--victim {victim} is an attacker itself")
    cases, deaf = [], []
    for attack, some in zip(attacks, groups, strict=True):
        for group in some:
            heard = {n for spy in group for n in read_view(plans[spy].view).places[spy].inputs}
            for victim in sorted(heard - spies) if victims is None else victims:
                if victim not in heard:
                    verb = "does" if len(group) == 1 else "do"
                    deaf.append(
                        f"{attack.name}: {name_all(set(group))} {verb} not hear node {victim}"
                    )
                    continue
                cases += [Case(folder, attack, group, victim, t) for t in rounds]
    if not cases:
        raise WrongUse(deaf[0] if deaf else f"{name_all(spies)}: nobody hears a node to attack")
    for reason in deaf:
        log.warning("left out: %s", reason)
    return cases


def recorded_plans(folder: Path) -> dict[int, Plan]:
    """The plan of each node that recorded, by its id."""
    plans = {}
    for path in sorted((folder / "attacks").glob("node-*.log")):
        first = next(read_log(path), None)
        name = path.stem.removeprefix("node-")
        if first is None or not isinstance(first.message, Plan) or not name.isdigit():
            raise WrongUse(f"attack log {path} does not begin with a plan")
        plans[int(name)] = first.message
    if not plans:
        raise WrongUse(f"{folder} has no attack log: run with --attacker, or lppa-node --attack")
    return dict(sorted(plans.items()))


def open_scene(folder: Path, attackers: Sequence[int]) -> Scene:
    """Pools the logs of these attackers."""
    plan = recorded_plans(folder)[attackers[0]]
    settings = make_settings(plan.settings)
    if settings.dataset.startswith(OWN):
        raise WrongUse(
            f"{folder} learned a problem of its own: attacks rebuild the data sets that come with "
            "lppa and .npz files, whose shapes and ranges they know; the audit holds for any"
        )
    dataset = chosen_dataset(settings)
    if not dataset.classes:
        raise WrongUse(
            "attacks look for examples with classes, and the targets of "
            f"{settings.dataset} are numbers (regression)"
        )
    epoch = steps_per_epoch(len(dataset.train), plan.nodes, settings.batch)
    # A run that began without some of its nodes had other weights then.
    whole = len(read_view(plan.view).members) == plan.nodes
    W = read_weights(folder) if whole else None
    known = read_knowledge([log_path(folder, a) for a in attackers], W, epoch)
    return Scene(folder, known, public_knowledge(settings, dataset), dataset)


def read_weights(folder: Path) -> np.ndarray | None:
    """W, where the run's directory has it; else it must be estimated."""
    try:
        return np.array(json.loads((folder / "topology.json").read_text())["W"])
    except (OSError, ValueError, KeyError):
        return None


def public_knowledge(settings: Settings, dataset: Dataset) -> Victim:
    """The network, the box that inputs lie in, and mean and covariance of data of the same kind.

    The public data is the test part: no client trains on it.
    """
    dtype = getattr(torch, settings.dtype)
    wide = int(np.prod(dataset.shape)) > WIDEST
    rows = np.arange(min(1000 if wide else PUBLIC, len(dataset.test)))
    public, _ = dataset.test.take(rows, dtype)
    if public.layout != torch.strided:
        public = public.to_dense()
    low, high = float(public.min()), float(public.max())
    return Victim(
        settings.model,
        tuple(dataset.shape),
        dataset.classes,
        dtype,
        low,
        high,
        public.mean(0),
        None if wide else precision_root(public.flatten(1)),
        None if settings.clip is None else (settings.clip, CLIPPED_NORM[settings.noise]),
    )


def precision_root(rows: Tensor) -> Tensor:
    """A triangular root R of the inverse covariance: ‖R (x − mean)‖² is how unusual x is.

    All numbers get some deviation on top, since a sample says too little of what is rare: none is
    taken to be constant because it was so in the sample.
    """
    covariance = torch.cov(rows.double().T).reshape(rows.shape[1], rows.shape[1])
    one = torch.eye(len(covariance), dtype=torch.float64)
    stray = STRAY**2 * covariance.diagonal().mean().clamp(min=1e-12)
    lower = torch.linalg.cholesky(covariance + stray * one)
    root: Tensor = torch.linalg.solve_triangular(lower, one, upper=False)
    return root.to(rows.dtype)
