"""The learner's edge to the data: how batches are drawn and laid out in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lppa.models.flat import FlatModel
from lppa.models.networks import build
from lppa.node.learner import arranged, batches


@pytest.mark.parametrize("channels", [1, 3])
def test_a_batch_of_images_is_laid_out_channels_last_and_means_the_same(channels):
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(9, channels, 8, 8, dtype=torch.float64, generator=generator)
    y = torch.randint(0, 10, (9,), generator=generator)
    assert torch.equal(arranged(x), x)
    assert arranged(x).stride() == (64 * channels, 1, 8 * channels, channels)
    model = FlatModel(build("cnn", (channels, 8, 8), 10, generator), torch.float64)
    plain, laid_out = (model.gradient(model.vector(), batch, y)[0] for batch in (x, arranged(x)))
    assert torch.allclose(plain, laid_out, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (9, 14)])
def test_one_image_and_rows_of_a_table_stay_as_they_are(shape):
    x = torch.rand(shape)
    assert arranged(x) is x


def test_a_pass_has_every_row_once_but_for_those_that_fill_no_batch():
    drawn = batches(np.arange(10), 4, np.random.default_rng(1))
    first, second = ([next(drawn) for _ in range(2)] for _ in range(2))
    for a_pass in (first, second):
        rows = np.concatenate(a_pass)
        assert len(rows) == 8 == len(set(rows))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


def test_a_client_with_fewer_rows_than_a_batch_takes_all_of_them():
    drawn = batches(np.arange(3), 4, np.random.default_rng(1))
    assert [sorted(next(drawn)) for _ in range(2)] == [[0, 1, 2]] * 2
