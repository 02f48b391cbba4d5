"""Gradients whose every sample counts for at most so much: what a statement about ε needs.

Each sample's own gradient is scaled down to a norm of C where it is longer, and then the mean is
taken, so that one sample changes the mean over B samples by at most 2C / B in that norm.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from lppa.models.flat import FlatModel

TOGETHER = 64  # samples whose gradients are in memory at one time


def clipped_gradient(
    model: FlatModel, theta: Tensor, x: Tensor, y: Tensor, bound: float, order: int
) -> Tensor:
    """The mean over samples of g_k · min(1, bound / ‖g_k‖), in the norm of that order (1 or 2)."""
    parts: Iterator[Tensor]
    if x.layout == torch.sparse_csr:
        parts = (model.gradient(theta, *sample)[0][None] for sample in _rows(x, y))
    else:
        parts = _gradients(model, theta, x, y)
    total = torch.zeros_like(theta)
    for g in parts:
        norms = g.norm(order, dim=1, dtype=torch.float64)
        total += (g * (bound / norms.clamp(min=bound))[:, None].to(g.dtype)).sum(0)
    return total / len(y)


def _gradients(model: FlatModel, theta: Tensor, x: Tensor, y: Tensor) -> Iterator[Tensor]:
    """The flat gradients of the samples, a row each, some rows at a time."""

    def loss(flat: Tensor, sample: Tensor, label: Tensor) -> Tensor:
        named = {s.name: flat[s.start : s.stop].view(s.shape) for s in model.layout}
        return model.loss(functional_call(model.module, named, (sample[None],)), label[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    for first in range(0, len(y), TOGETHER):
        yield each(theta, x[first : first + TOGETHER], y[first : first + TOGETHER])


def _rows(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The samples of a sparse batch, one by one."""
    starts = x.crow_indices()
    for k in range(len(y)):
        first, last = int(starts[k]), int(starts[k + 1])
        row = torch.sparse_csr_tensor(
            torch.tensor([0, last - first]),
            x.col_indices()[first:last],
            x.values()[first:last],
            (1, x.shape[1]),
            check_invariants=False,
        )
        yield row, y[k : k + 1]
