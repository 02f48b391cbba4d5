"""Labels, single and counted, from the last layer's part of a vector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from victims import DIGITS, batch, difference, gradient, model, victim

from lppa.attack.inversion import invert
from lppa.attack.labels import labels_of, possible_labels
from lppa.attack.problem import Problem
from lppa.attack.score import histogram_error, shares, uniform_error
from lppa.attack.target import Target, Term
from lppa.models.clipping import clipped_gradient


@pytest.mark.parametrize("network", ["lenet", "cnn", "mlp"])
def test_one_label_is_read_off_for_every_network(network):
    for row in range(6):
        found = invert("labels", gradient([row], network, seed=row), victim(network))
        assert found.labels.item() == batch(row)[1].item()
        assert found.images is None


def test_one_label_survives_noise_that_hides_the_image():
    target = gradient([3], sigma=0.1)
    assert invert("labels", target, victim()).labels.item() == batch(3)[1].item()


@pytest.mark.parametrize("network", ["lenet", "cnn"])
def test_a_difference_on_one_batch_leaves_few_labels_and_the_true_one(network):
    for row in range(6):
        left = possible_labels(Problem(difference([row], [row], network), victim(network)))
        assert len(left) <= 3
        assert batch(row)[1].item() in [label.item() for label in left]


@pytest.mark.parametrize("network", ["lenet", "cnn"])
def test_a_difference_on_two_batches_gives_both_labels(network):
    for row in range(6):
        found = invert("labels", difference([row], [row + 13], network), victim(network))
        want = [batch(row)[1].item(), batch(row + 13)[1].item()]
        assert found.labels.flatten().tolist() == want


@pytest.mark.parametrize("network", ["lenet", "cnn", "mlp"])
@pytest.mark.parametrize("make", ["gradient", "difference"])
def test_the_histogram_of_a_large_batch_is_far_better_than_a_uniform_guess(network, make):
    rows = np.flatnonzero(np.isin(DIGITS.train.y, [1, 4, 7]))[:256].tolist()
    target = gradient(rows, network) if make == "gradient" else difference(rows, rows, network)
    found = invert("labels", target, victim(network))
    true = shares(batch(*rows)[1], 10)
    assert uniform_error(true) > 0.6
    assert histogram_error(found.histogram[0], true) < 0.1
    assert len(found.labels[0]) == 256
    assert histogram_error(shares(found.labels[0], 10), true) < 0.1


def test_clipping_does_not_hide_how_many_of_each_label_there_are():
    rows = np.flatnonzero(np.isin(DIGITS.train.y, [1, 4, 7]))[:256].tolist()
    flat, (x, y) = model("cnn"), batch(*rows)
    vector = clipped_gradient(flat, flat.vector(), x, y, 0.2, 2)
    assert float(vector.norm()) < float(gradient(rows, "cnn").vector.norm()) / 2
    target = Target(vector, (Term(1.0, flat.vector(), 0),), 0.0, 256)
    found = invert("labels", target, replace(victim("cnn"), clip=(0.2, 2)))
    assert histogram_error(found.histogram[0], shares(y, 10)) < 0.1


def test_counts_add_up_to_the_batch_whatever_the_shares():
    assert labels_of(torch.tensor([0.6, 0.25, 0.15]), 3).tolist() == [0, 0, 1]
    assert labels_of(torch.tensor([1 / 3, 1 / 3, 1 / 3]), 7).bincount().sum() == 7
