"""The first layer gives the same on sparse rows as on dense ones."""

from __future__ import annotations

import pytest
import torch

from lppa.models.flat import FlatModel
from lppa.models.layers import InputLinear
from lppa.models.networks import build

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


def batch(rows=6, columns=40):
    random = torch.Generator().manual_seed(3)
    dense = torch.rand(rows, columns, generator=random, dtype=torch.float64)
    dense[dense < 0.8] = 0.0
    dense[2] = 0.0  # an empty row is a row too
    return dense, dense.to_sparse_csr()


def test_sparse_and_dense_rows_give_the_same_output():
    dense, sparse = batch()
    layer = InputLinear(40, 5).double()
    torch.testing.assert_close(layer(sparse), layer(dense))
    torch.testing.assert_close(layer(dense), dense @ layer.weight + layer.bias)


def test_sparse_and_dense_rows_give_the_same_gradient():
    dense, sparse = batch()
    labels = torch.tensor([0, 1, 0, 1, 1, 0])
    model = FlatModel(build("mlp", (40,), 2, torch.Generator().manual_seed(1)), torch.float64)
    theta = model.vector()
    expected, _ = model.gradient(theta, dense, labels)
    g, _ = model.gradient(theta, sparse, labels)
    assert float(g.norm()) > 0
    torch.testing.assert_close(g, expected)


def test_images_are_taken_as_rows():
    layer = InputLinear(12, 3)
    images = torch.rand(4, 3, 2, 2)
    torch.testing.assert_close(layer(images), layer(images.flatten(1)))
