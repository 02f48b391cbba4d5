"""One attack on a recorded run: makes the target, inverts it, scores it, and keeps what comes out.

Reads the truth in one place only, `true_batches`, after the attack is over; without it, attacks run
all the same and are not scored.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lppa.attack.inversion import invert
from lppa.attack.observation import OBSERVATIONS
from lppa.attack.picture import draw_grid
from lppa.attack.restarts import Options, Reconstruction
from lppa.attack.results import AttackResult, finite, keep
from lppa.attack.scene import Case, Scene
from lppa.attack.score import baselines, histogram_error, score, shares, uniform_error
from lppa.attack.tables import noise
from lppa.attack.target import Target
from lppa.protocol.files import write_atomically
from lppa.running.past import read_lines


def attack_case(scene: Scene, case: Case, options: Options) -> AttackResult:
    """Makes one attack, keeps what comes out under attacks/, and returns its result."""
    target = OBSERVATIONS[case.attack.observation](scene.known, case.victim, case.round)
    found = invert(case.attack.inversion, target, scene.about, options)
    path = case.folder / "attacks" / stem(case)
    steps = (json.dumps(finite(step)) + "\n" for step in found.history)
    write_atomically(path.with_suffix(".jsonl"), "".join(steps))
    result = describe(scene, case, target, found)
    truth = true_batches(scene, case, target)
    if truth is not None:
        result = replace(result, **judge(scene, found, truth))
    if found.images is not None:
        draw(scene, found, found.images, truth, result, path.with_suffix(".png"))
        result = replace(result, picture=path.with_suffix(".png").name)
    result = AttackResult.from_dict(finite(result))
    keep(case.folder, result)
    return result


def stem(case: Case) -> str:
    """The name of an attack's files: unlike those of all other attacks on the run."""
    by = "+".join(map(str, case.attackers))
    what = case.attack.name.replace("/", "-")
    return f"{what}-by-{by}-on-{case.victim}-round-{case.round}"


def describe(scene: Scene, case: Case, target: Target, found: Reconstruction) -> AttackResult:
    """What was attacked and what came out, without any score."""
    settings = scene.known.settings
    return AttackResult(
        attack=case.attack.name,
        attackers=list(case.attackers),
        victim=case.victim,
        round=case.round,
        rule=settings.rule,
        beta=settings.scale,
        noise_every=settings.noise_every,
        dataset=settings.dataset,
        model=settings.model,
        batch=settings.batch,
        batches=settings.batches,
        topology=settings.topology,
        nodes=scene.known.plan.nodes,
        sigma=math.hypot(target.sigma, target.ignored),
        loss=found.loss,
        iterations=found.iterations,
        seconds=found.seconds,
        labels=found.labels.tolist(),
    )


def true_batches(scene: Scene, case: Case, target: Target) -> tuple[Tensor, Tensor] | None:
    """The victim's inputs and labels behind a target, if it revealed them; for scoring only."""
    events = read_lines(case.folder / "views.jsonl")
    if any(event.get("kind") == "joined" and event.get("node") == case.victim for event in events):
        # One that was lost and came back wrote its file anew, from some later round on.
        return None
    path = case.folder / "nodes" / str(case.victim) / "batches.jsonl"
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    except OSError:
        return None
    # Lines are counted, which is right up to a change of the graph: that takes a gradient more.
    # The gradient inside γ of round t is the mean over all batches of the path before it was sent;
    # under dsgd, which has no γ, that of the path that round t itself goes.
    steps = scene.known.steps
    paths = [rows[(case.round + batch) * steps :][:steps] for batch in target.batches]
    if min(map(len, paths)) < steps:
        return None
    taken = [scene.dataset.train.take(np.concatenate(p), scene.about.dtype) for p in paths]
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
        true = [shares(batch, scene.about.classes) for batch in labels]
        errors = map(histogram_error, found.histogram, true)
        judged["histogram_error"] = float(np.mean(list(errors)))
        judged["histogram_error_uniform"] = float(np.mean([uniform_error(t) for t in true]))
    return judged


def draw(
    scene: Scene,
    found: Reconstruction,
    images: Tensor,
    truth: tuple[Tensor, Tensor] | None,
    result: AttackResult,
    path: Path,
) -> None:
    """Truth first, then snapshots by iteration, then the result."""
    by = "+".join(map(str, result.attackers))
    table = len(scene.about.shape) != 3
    name, shape = ("cosine", "cosine {:.3f}") if table else ("psnr", "{:.1f} dB")
    note = f"node {by} attacks node {result.victim}"
    figure, trivial = result.of_score(name), result.of_guess("mean", name)
    if trivial is not None:
        guess = "mean row" if table else "mean image"
        note += f"; a guess without any message ({guess}): {shape.format(trivial)}"
    draw_grid(
        path,
        scene.about,
        images.flatten(0, 1),
        None if truth is None else truth[0].flatten(0, 1),
        [(iteration, then.flatten(0, 1)) for iteration, then in found.snapshots],
        caption=f"{result.attack} on {noise(result)}, round {result.round}",
        figure="" if figure is None else shape.format(figure),
        note=note,
    )
