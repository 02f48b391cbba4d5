"""Attacks on a recorded run: reads the logs, makes targets, inverts them, and keeps what comes out.

Reads the truth in one place only, `true_batches`, after the attack is over; without it, attacks run
all the same and are not scored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lppa.node.attack.inversion import INVERSIONS, invert
from lppa.node.attack.knowledge import Knowledge, read_knowledge
from lppa.node.attack.log import log_path
from lppa.node.attack.observation import OBSERVATIONS
from lppa.node.attack.picture import draw_curves, draw_grid
from lppa.node.attack.restarts import Options, Reconstruction
from lppa.node.attack.score import baselines, histogram_error, score, shares, uniform_error
from lppa.node.attack.target import Target, Victim
from lppa.node.datasets import Dataset, load_dataset
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import write_atomically


@dataclass(frozen=True)
class Attack:
    """What is attacked, and how."""

    observation: str
    inversion: str

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        return f"{self.observation}/{self.inversion}"


def parse_attacks(text: str) -> list[Attack]:
    """Attacks by commas, each OBSERVATION/INVERSION; an inversion alone is naive."""
    attacks = []
    for spec in text.split(","):
        observation, slash, inversion = spec.strip().partition("/")
        if not slash:
            observation, inversion = "naive", observation
        if observation not in OBSERVATIONS:
            raise WrongUse(f"unknown observation {observation!r}; known: {', '.join(OBSERVATIONS)}")
        if inversion not in INVERSIONS:
            raise WrongUse(f"unknown inversion {inversion!r}; known: {', '.join(INVERSIONS)}")
        attacks.append(Attack(observation, inversion))
    return attacks


@dataclass(frozen=True)
class Scene:
    """A recorded run as the attackers see it, with the public knowledge about the victim's data."""

    folder: Path
    known: Knowledge
    victim: int
    about: Victim
    dataset: Dataset


def open_scene(folder: Path, attackers: Sequence[int] | None, victim: int) -> Scene:
    """Pools the logs of the attackers, of all that there are if none are named."""
    logs = attack_logs(folder, attackers)
    known = read_knowledge(logs, read_weights(folder))
    if not 0 <= victim < known.plan.nodes:
        raise WrongUse(f"--victim {victim}: this run has nodes 0 to {known.plan.nodes - 1}")
    if victim in known.attackers:
        raise WrongUse(f"--victim {victim} is an attacker itself")
    settings = known.settings
    dataset = load_dataset(settings.dataset, settings.data_dir, normalize=settings.normalize)
    return Scene(folder, known, victim, public_knowledge(known, dataset), dataset)


def attack_logs(folder: Path, attackers: Sequence[int] | None) -> list[Path]:
    """The logs of the named attackers, or all that are there."""
    if attackers:
        return [log_path(folder, attacker) for attacker in attackers]
    found = sorted((folder / "attacks").glob("node-*.log"))
    if not found:
        raise WrongUse(f"{folder} has no attack log: run with --attacker, or lppa-node --attack")
    return found


def read_weights(folder: Path) -> np.ndarray | None:
    """W, where the run's directory has it; else it must be estimated."""
    try:
        return np.array(json.loads((folder / "topology.json").read_text())["W"])
    except (OSError, ValueError, KeyError):
        return None


def public_knowledge(known: Knowledge, dataset: Dataset) -> Victim:
    """The network, the box that inputs lie in, and the mean of public data of the same kind."""
    settings, dtype = known.settings, getattr(torch, known.settings.dtype)
    rows = np.arange(min(1000, len(dataset.test)))
    public, _ = dataset.test.take(rows, dtype)
    if public.layout != torch.strided:
        public = public.to_dense()
    return Victim(
        settings.model,
        tuple(dataset.shape),
        dataset.classes,
        dtype,
        float(public.min()),
        float(public.max()),
        public.mean(0),
    )


def observe(scene: Scene, attack: Attack, t: int) -> Target:
    """The target of an attack on round t: made from the attackers' knowledge and nothing else."""
    return OBSERVATIONS[attack.observation](scene.known, scene.victim, t)


def true_batches(scene: Scene, target: Target, t: int) -> tuple[Tensor, Tensor] | None:
    """The victim's inputs and labels behind a target, if it revealed them; for scoring only."""
    path = scene.folder / "nodes" / str(scene.victim) / "batches.jsonl"
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    except OSError:
        return None
    # The gradient inside γ of round t is the last one that was taken before it was sent.
    steps = (len(rows) - 1) // scene.known.settings.rounds
    wanted = [rows[(t + batch) * steps] for batch in target.batches]
    taken = [scene.dataset.train.take(np.array(batch), scene.about.dtype) for batch in wanted]
    inputs = [x if x.layout == torch.strided else x.to_dense() for x, _ in taken]
    return torch.stack(inputs), torch.stack([y for _, y in taken])


def judge(scene: Scene, found: Reconstruction, truth: tuple[Tensor, Tensor]) -> dict[str, Any]:
    """The figures of a reconstruction beside those of guesses that need no message at all."""
    inputs, labels = truth
    start = found.snapshots[0][1].flatten(0, 1) if found.snapshots else None
    images = None if found.images is None else found.images.flatten(0, 1)
    judged: dict[str, Any] = {
        "score": score(
            images, inputs.flatten(0, 1), scene.about, found.labels.flatten(), labels.flatten()
        ),
        "baselines": baselines(inputs.flatten(0, 1), scene.about, start),
    }
    if found.histogram is not None:
        true = shares(labels[0], scene.about.classes)
        judged["histogram_error"] = histogram_error(found.histogram[0], true)
        judged["histogram_error_uniform"] = uniform_error(true)
    return judged


def attack_round(scene: Scene, attack: Attack, t: int, options: Options) -> dict[str, Any]:
    """Attacks one round, keeps what comes out under attacks/, and returns its summary."""
    target = observe(scene, attack, t)
    found = invert(attack.inversion, target, scene.about, options)
    stem = f"{attack.observation}-{attack.inversion}-victim-{scene.victim}-round-{t}"
    path = scene.folder / "attacks" / stem
    lines = "".join(json.dumps(step) + "\n" for step in found.history)
    write_atomically(path.with_suffix(".jsonl"), lines)
    settings = scene.known.settings
    summary: dict[str, Any] = {
        "attack": attack.name,
        "attackers": sorted(scene.known.attackers),
        "victim": scene.victim,
        "round": t,
        "rule": settings.rule,
        "beta": settings.beta,
        "noise_every": settings.noise_every,
        "sigma": target.sigma,
        "loss": found.loss,
        "iterations": found.iterations,
        "seconds": found.seconds,
        "labels": found.labels.tolist(),
    }
    truth = true_batches(scene, target, t)
    if truth is not None:
        summary |= judge(scene, found, truth)
    if found.images is not None:
        draw(scene, found, truth, summary, path.with_suffix(".png"))
    write_atomically(path.with_suffix(".json"), json.dumps(summary, indent=2) + "\n")
    return summary


def draw_rounds(folder: Path, results: list[dict[str, Any]]) -> Path | None:
    """PSNR over the rounds that were attacked (the paper's Fig. 3b), with the mean image's."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        if "psnr" in result.get("score", {}):
            points = curves.setdefault(result["attack"], [])
            points.append((result["round"], result["score"]["psnr"]))
    if max(map(len, curves.values()), default=0) < 2:
        return None
    means = [r["baselines"]["mean"]["psnr"] for r in results if "baselines" in r]
    path = folder / "attacks" / "psnr-over-rounds.png"
    rule = f"{results[0]['rule']}, β {results[0]['beta']:g}"
    draw_curves(path, curves, "round", "psnr", {"mean image": float(np.mean(means))}, rule)
    return path


def draw(
    scene: Scene,
    found: Reconstruction,
    truth: tuple[Tensor, Tensor] | None,
    summary: dict[str, Any],
    path: Path,
) -> None:
    """Truth first, then snapshots by iteration, then the result."""
    noise = "" if summary["rule"] == "dsgt" else f", β {summary['beta']:g}"
    draw_grid(
        path,
        scene.about,
        found.images.flatten(0, 1),
        None if truth is None else truth[0].flatten(0, 1),
        [(iteration, images.flatten(0, 1)) for iteration, images in found.snapshots],
        caption=f"{summary['attack']} on {summary['rule']}{noise}, round {summary['round']}",
        psnr=summary.get("score", {}).get("psnr"),
    )
