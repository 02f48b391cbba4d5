"""Clipped gradients: each sample counts for at most the bound, whatever it is."""

from __future__ import annotations

import pytest
import torch

from lppa.models.clipping import clipped_gradient
from lppa.models.flat import FlatModel
from lppa.models.networks import build

SHAPE, CLASSES = (1, 8, 8), 3


def problem(network, samples=70, sparse=False):
    """A model, its vector, and a batch that is more than one portion."""
    generator = torch.Generator().manual_seed(1)
    module = build(network, SHAPE, CLASSES, generator)
    model = FlatModel(module, torch.float64)
    x = torch.randn(samples, *SHAPE, generator=generator, dtype=torch.float64)
    y = torch.randint(CLASSES, (samples,), generator=generator)
    return model, model.vector(), x.flatten(1).to_sparse_csr() if sparse else x, y


def by_hand(model, theta, x, y, bound, order):
    total = torch.zeros_like(theta)
    for k in range(len(y)):
        g, _ = model.gradient(theta, x[k : k + 1], y[k : k + 1])
        total += g * min(1.0, bound / float(g.norm(order)))
    return total / len(y)


@pytest.mark.parametrize("network", ["cnn", "mlp", "lenet"])
@pytest.mark.parametrize(("order", "bound"), [(1, 3.0), (2, 0.5), (2, 1e9)])
def test_it_is_the_mean_of_the_samples_own_gradients_each_held_to_the_bound(network, order, bound):
    model, theta, x, y = problem(network)
    expected = by_hand(model, theta, x, y, bound, order)
    found = clipped_gradient(model, theta, x, y, bound, order)
    assert torch.allclose(found, expected, atol=1e-12)


def test_without_need_for_clipping_it_is_the_plain_gradient():
    model, theta, x, y = problem("cnn")
    plain, _ = model.gradient(theta, x, y)
    assert torch.allclose(clipped_gradient(model, theta, x, y, 1e9, 2), plain, atol=1e-12)


def test_sparse_rows_are_clipped_like_dense_ones():
    model, theta, dense, y = problem("mlp", samples=5)
    _, _, sparse, _ = problem("mlp", samples=5, sparse=True)
    expected = clipped_gradient(model, theta, dense, y, 2.0, 1)
    assert torch.allclose(clipped_gradient(model, theta, sparse, y, 2.0, 1), expected, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_one_sample_changes_the_mean_by_at_most_twice_the_bound_over_the_batch(order):
    model, theta, x, y = problem("mlp")
    other = x.clone()
    other[3] = 100.0
    change = clipped_gradient(model, theta, x, y, 0.7, order) - clipped_gradient(
        model, theta, other, y, 0.7, order
    )
    assert 0 < float(change.norm(order)) <= 2 * 0.7 / len(y) + 1e-12
