"""Labels, or how many of each, from the last layer's part of the vector: no search needed.

For a linear last layer with features h and probabilities p, the gradient of row c is the mean over
the batch of (p_c − y_c)·(h, 1), and only y is secret: h and p can be guessed from public images,
since θ is known. Nothing here touches the other layers.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from lppa.attack.problem import Problem

PUBLIC = 256
FEW = 32
ANGLES = 7200
KEPT = 3


def label_histogram(problem: Problem, seed: int = 0) -> Tensor:
    """The estimated share of every label, (batches, classes), for any batch size and any terms.

    Row c of the vector is close to Σ_k coefficient_k (p_kc − y_c) (h_k, 1), with the mean features
    h_k and probabilities p_k that public images have at θ_k: linear in the unknown shares y, and
    every feature helps to average noise out. Good where features vary little between images,
    which is so in a network that is not yet trained.
    """
    target = problem.target
    pictures = public_images(problem, seed)
    weight, bias = problem.last_layer()
    seen = torch.cat([weight, bias[:, None]], 1).double()
    left = torch.zeros(len(target.batches), seen.shape[1], dtype=torch.float64)
    for k, term in enumerate(target.terms):
        features, p = problem.features(k, pictures)
        h = torch.cat([features.double().mean(0), torch.ones(1)])
        h = h * problem.mean_factor(k, pictures[:FEW], seed)
        seen = seen - term.coefficient * p.double().mean(0)[:, None] * h
        left[target.batches.index(term.batch)] -= term.coefficient * h
    # A very small ridge: two terms on one batch and one θ leave nothing to divide by.
    square = left @ left.T
    square += 1e-9 * square.diagonal().mean().clamp(min=1e-12) * torch.eye(len(square))
    return torch.stack([_to_shares(row) for row in torch.linalg.solve(square, left @ seen.T)])


def labels_of(histogram: Tensor, size: int) -> Tensor:
    """The batch of labels, sorted, that a histogram of shares stands for."""
    counts = (histogram * size).floor().long()
    rest = histogram * size - counts
    counts[rest.argsort(descending=True)[: size - int(counts.sum())]] += 1
    return torch.repeat_interleave(torch.arange(len(counts)), counts)


def label_guesses(problem: Problem) -> list[Tensor]:
    """Label guesses of shape (batches, batch size), the likeliest first.

    One image and one gradient: iDLG's rule, one sure guess. One image and the difference of two
    gradients: every label that `possible_labels` leaves. Else what the histogram says.
    """
    target = problem.target
    if target.batch_size > 1 or len(target.terms) > 2:
        shares = label_histogram(problem)
        return [torch.stack([labels_of(row, target.batch_size) for row in shares])]
    if len(target.terms) == 1:
        return [single_label(problem).view(1, 1)]
    ranked = possible_labels(problem)
    if len(target.batches) == 1:
        return [label.view(1, 1) for label in ranked]
    # Σ_k coefficient_k (p_k − y_k): a term's own label pulls the bias against its coefficient.
    _, bias = problem.last_layer()
    pull = {term.batch: -term.coefficient for term in target.terms}

    def likely(pair: tuple[Tensor, ...]) -> float:
        y = sum(
            pull[batch] * problem.one_hot(c) for batch, c in zip(target.batches, pair, strict=True)
        )
        return float((bias - y).square().sum())

    pairs = sorted(itertools.product(ranked, repeat=2), key=likely)
    return [torch.stack(pair).view(2, 1) for pair in pairs]


def single_label(problem: Problem) -> Tensor:
    """iDLG's rule: with features that are not negative, only the true label's row is negative."""
    weight, bias = problem.last_layer()
    sums = weight.sum(1) + bias
    return (sums * problem.target.terms[0].coefficient).argmin()


def possible_labels(problem: Problem) -> list[Tensor]:
    """Labels of single images that the difference of two gradients leaves possible, best first.

    The last layer's part is a·(h', 1) − b·(h, 1) with a = p' − y' and b = p − y, so a and b lie in
    the plane of its first two left singular vectors, and each has exactly one negative entry: at
    its label. A plane in ten dimensions holds few such vectors; they are looked for by turning
    round once.
    """
    weight, bias = problem.last_layer()
    columns = torch.linalg.svd(torch.cat([weight, bias[:, None]], 1).double()).U[:, :2]
    angle = torch.arange(ANGLES, dtype=torch.float64) * (2 * torch.pi / ANGLES)
    around = torch.stack([angle.cos(), angle.sin()], 1) @ columns.T
    two, _ = around.topk(2, largest=False)
    classes = around.argmin(1)
    # The second smallest entry: zero or more where the vector can be p − y.
    margins = torch.full((around.shape[1],), -torch.inf, dtype=torch.float64)
    margins.scatter_reduce_(0, classes, two[:, 1], "amax")
    order = margins.argsort(descending=True)
    fitting = int((margins > -1e-3).sum())
    return list(order[: max(1, min(KEPT, fitting))])


def public_images(problem: Problem, seed: int) -> Tensor:
    """Stand-ins for the victim's examples: the public mean with noise of the public covariance.

    Where that is not known, noise of a fifth of the box. All in the box.
    """
    victim = problem.victim
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(PUBLIC, math.prod(victim.shape), generator=generator)
    if victim.prior_root is not None:
        root = victim.prior_root.to(noise)
        noise = torch.linalg.solve_triangular(root, noise.T, upper=False).T
    else:
        noise = 0.2 * noise * (victim.high - victim.low)
    images = victim.mean_image() + noise.view(-1, *victim.shape).to(victim.dtype)
    return images.clamp(victim.low, victim.high).to(problem.vector)


def _to_shares(values: Tensor) -> Tensor:
    """The nearest non-negative numbers that sum to one."""
    ordered = values.sort(descending=True).values
    excess = (ordered.cumsum(0) - 1) / torch.arange(1, len(values) + 1)
    last = int((ordered > excess).nonzero().max())
    return (values - excess[last]).clamp(min=0)
