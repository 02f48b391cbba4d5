"""Inversions without a search: a row of a table from a linear first layer, and labels only.

Fast, and hard to stop by noise, since every number is a mean over many coordinates.
"""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from lppa.attack.labels import label_guesses, label_histogram, labels_of
from lppa.attack.problem import Problem
from lppa.attack.restarts import Options, Reconstruction
from lppa.attack.target import Target, Victim
from lppa.models.layers import InputLinear
from lppa.protocol.errors import WrongUse

SAME = 1e-2
"""How near two columns must be, in parts of their length, to show the same example."""


def labels(target: Target, victim: Victim, options: Options) -> Reconstruction:
    """The labels only: one, or how many of each in a batch of any size.

    Assumes a linear last layer and, for batches, that features differ little between images, so
    that public ones stand for them. Noise is averaged over all features, and the image need not
    be recoverable at all.
    """
    begin = time.monotonic()
    problem = Problem(target, victim, options.dtype)
    histogram = label_histogram(problem, options.seed)
    found = torch.stack([labels_of(row, target.batch_size) for row in histogram])
    if target.batch_size == 1:
        found = label_guesses(problem)[0]
        histogram = problem.one_hot(found)[:, 0]
    return Reconstruction(
        None, found, math.nan, 0, time.monotonic() - begin, histogram=histogram.to(torch.float64)
    )


def svd(target: Target, victim: Victim, options: Options) -> Reconstruction:
    """The example itself, from a first layer that is linear, for batches of one.

    Assumes one example x per batch: then ∇W₁ = x δᵀ, so its first singular vector is x up to
    scale, and ∇b₁ = δ gives the scale. Noise is averaged over all hidden units. A difference of
    two gradients on one example is of the same form; with two examples they are told apart by
    hidden units that only one of them switches on, which needs ReLUs and a vector without noise.
    """
    begin = time.monotonic()
    problem = Problem(target, victim, options.dtype)
    first = next((m for m in problem.module.modules() if not list(m.children())), None)
    if not isinstance(first, InputLinear) or target.batch_size != 1:
        raise WrongUse(
            "`svd` needs a network whose first layer is linear (mlp) and --batch 1, not "
            f"{victim.network} with batches of {target.batch_size}: use dlg, cosine or likelihood"
        )
    parts = list(problem.unflatten(problem.vector).values())
    weight, bias = parts[0].double(), parts[1].double()
    if len(target.batches) == 1:
        rows, loss = _one_example(weight, bias)
        rows = rows[None]
    else:
        rows, loss = _two_examples(weight, bias, problem)
    images = rows.view(problem.shape).to(problem.vector)
    return Reconstruction(images, label_guesses(problem)[0], loss, 0, time.monotonic() - begin)


def _one_example(weight: Tensor, bias: Tensor) -> tuple[Tensor, float]:
    """x of weight = x δᵀ and bias = δ, and how much of the weight is not of that form."""
    # The small side's eigenvectors: a text's first layer has thousands of times more inputs.
    values, vectors = torch.linalg.eigh(weight.T @ weight)
    direction = vectors[:, -1]
    scale = float(direction @ bias)
    x = weight @ direction
    return (x / scale if scale else x), float(values[:-1].sum() / values.sum().clamp(min=1e-300))


def _two_examples(weight: Tensor, bias: Tensor, problem: Problem) -> tuple[Tensor, float]:
    """The two examples of weight = a δᵀ + b εᵀ, in the order of the target's batches.

    A unit that is on for one example only has a column that is that example times its bias.
    Such columns, divided by the bias, are equal; those of units that are on for both are not.
    """
    busy = bias.abs() > 1e-6 * bias.abs().max()
    shown = (weight[:, busy] / bias[busy]).T
    near = torch.cdist(shown, shown) < SAME * shown.norm(dim=1).clamp(min=1e-12)
    candidates = []
    left = torch.ones(len(shown), dtype=torch.bool)
    for _ in range(2):
        counts = (near & left & left[:, None]).sum(1)
        group = near[counts.argmax()] & left
        candidates.append(shown[group].mean(0))
        left &= torch.cdist(shown, candidates[-1][None])[:, 0] > 2 * SAME * shown.norm(dim=1)
        if not left.any():
            break
    if len(candidates) < 2:
        raise WrongUse("`svd` finds one example only in a vector of two: use dlg or likelihood")
    x = torch.stack(candidates)
    return min(
        ((order, _misfit(order, weight, bias, problem)) for order in (x, x.flip(0))),
        key=lambda pair: pair[1],
    )


def _misfit(rows: Tensor, weight: Tensor, bias: Tensor, problem: Problem) -> float:
    """The part of the weight that two examples in this order cannot have caused.

    θ says which units each example switches on; only those that both do may have any column.
    """
    left, right = problem.target.terms
    own = [rows[problem.target.batches.index(term.batch)] for term in (left, right)]
    on = []
    for term, x in zip((left, right), own, strict=True):
        first, offset = list(problem.unflatten(term.theta).values())[:2]
        on.append(x @ first.double() + offset.double() > 0)
    expected = torch.where(on[0], own[0][:, None] * bias, own[1][:, None] * bias)
    expected = torch.where(on[0] | on[1], expected, 0.0)
    wrong = (weight - expected)[:, ~(on[0] & on[1])]
    return float(wrong.square().sum() / weight.square().sum())
