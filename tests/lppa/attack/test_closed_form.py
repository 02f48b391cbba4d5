"""Rows of tables from a linear first layer, without a search."""

from __future__ import annotations

import pytest
import torch
from victims import batch, difference, gradient, victim

from lppa.attack.inversion import invert
from lppa.attack.score import score
from lppa.protocol.errors import WrongUse


def cosine(found, row, which=0):
    return score(found.images[which], batch(row)[0], victim("mlp"))["cosine"]


def test_svd_gives_the_row_itself_with_its_scale():
    found = invert("svd", gradient([5], "mlp"), victim("mlp"))
    torch.testing.assert_close(found.images[0], batch(5)[0], atol=1e-4, rtol=0)
    assert found.labels.item() == batch(5)[1].item()


def test_svd_finds_the_row_of_a_difference_on_one_batch():
    found = invert("svd", difference([5], [5], "mlp"), victim("mlp"))
    torch.testing.assert_close(found.images[0], batch(5)[0], atol=1e-3, rtol=0)


def test_svd_tells_the_rows_of_a_difference_on_two_batches_apart():
    for row in range(5):
        found = invert("svd", difference([row], [row + 20], "mlp"), victim("mlp"))
        assert cosine(found, row, which=0) > 0.99
        assert cosine(found, row + 20, which=1) > 0.99


def test_noise_lowers_the_similarity_of_svd_but_less_than_that_of_a_single_column():
    target = gradient([5], "mlp", sigma=0.01)
    found = invert("svd", target, victim("mlp"))
    column = target.vector[: 64 * 128].view(64, 128)
    best = column[:, column.norm(dim=0).argmax()].view(1, 1, 8, 8)
    alone = abs(score(best, batch(5)[0], victim("mlp"))["cosine"])
    assert alone < cosine(found, 5) < 0.9999
    assert cosine(found, 5) > 0.9


def test_svd_refuses_networks_and_batches_that_it_cannot_invert():
    with pytest.raises(WrongUse, match="first layer is linear"):
        invert("svd", gradient([0]), victim())
    with pytest.raises(WrongUse, match="--batch 1"):
        invert("svd", gradient([0, 1], "mlp"), victim("mlp"))
