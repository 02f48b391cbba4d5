"""The layers of our own give the numbers of plain ones: on sparse rows, and without gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lppa.models.flat import FlatModel
from lppa.models.layers import HalvingPool, InputLinear
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


@pytest.mark.parametrize("sides", [(2, 2), (3, 5), (8, 8), (7, 24)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_pool_without_gradients_gives_the_numbers_of_the_one_with(sides, layout):
    generator = torch.Generator().manual_seed(1)
    # Few different numbers: many of the four are equal; and one that is none.
    x = torch.randint(-2, 3, (6, 3, *sides), generator=generator).float()
    x[0, 0, 0, 1] = math.nan
    x = x.to(memory_format=layout)
    expected = HalvingPool()(x)
    assert torch.equal(expected.isnan(), nn.MaxPool2d(2)(x).isnan())
    with torch.no_grad():
        found = HalvingPool()(x)
    assert torch.equal(found.nan_to_num(9), expected.nan_to_num(9))
    assert found[0, 0, 0, 0].isnan()
