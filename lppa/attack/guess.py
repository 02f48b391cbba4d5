"""How a guess is laid out as one flat row of unknowns, and where restarts begin."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lppa.attack.problem import Problem


class Guess:
    """Images, and label logits too where the labels are unknown (`joint`), in one flat row.

    Where labels are known they are the row's fixed part, so that each restart can have its own.
    """

    def __init__(self, problem: Problem, joint: bool) -> None:
        self.problem, self.joint = problem, joint
        self.pixels = math.prod(problem.shape)
        self.logits = math.prod(problem.label_shape)

    def read(self, rows: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
        """Images and label probabilities, of every row."""
        images = rows[:, : self.pixels].view(-1, *self.problem.shape)
        if self.joint:
            return images, rows[:, self.pixels :].view(-1, *self.problem.label_shape).softmax(-1)
        return images, fixed

    def answer(self, row: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
        """Images and class numbers of one row."""
        images, labels = self.read(row[None], fixed[None])
        return images[0].clone(), labels[0].argmax(-1)

    def random(self, restarts: int, seed: int) -> Tensor:
        """Standard normal images and logits, as the first attacks had them."""
        size = self.pixels + (self.logits if self.joint else 0)
        rows = []
        for restart in range(restarts):  # one seed each: more restarts do not change the first
            generator = torch.Generator().manual_seed(seed * 1_000_003 + restart)
            rows.append(torch.randn(size, generator=generator))
        return torch.stack(rows).to(self.problem.vector)

    def around_mean(self, restarts: int, seed: int, spread: float = 0.1) -> Tensor:
        """The mean image itself, then the mean image with noise, and even logits."""
        victim = self.problem.victim
        mean = victim.mean_image().to(self.problem.vector).expand(self.problem.shape).reshape(-1)
        rows = self.random(restarts, seed) * spread * (victim.high - victim.low)
        rows[0] = 0
        rows[:, : self.pixels] += mean
        return rows

    def fixed(self, restarts: int, labels: list[Tensor] | None) -> Tensor:
        """The fixed part of every row: label guesses in turn, or nothing where they are joint."""
        if labels is None:
            return self.problem.vector.new_zeros(restarts, 0)
        hot = [self.problem.one_hot(guess) for guess in labels]
        return torch.stack([hot[restart % len(hot)] for restart in range(restarts)])
