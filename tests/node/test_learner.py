"""The learner's edge to the data: how batches are drawn and laid out, and what a test tells."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lppa.models.flat import FlatModel
from lppa.models.networks import build
from lppa.node.datasets import Samples
from lppa.node.learner import EXAMPLES, DataLearner, arranged, batches, make_learner
from lppa.protocol.settings import make_settings


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


# --- what a test tells --------------------------------------------------------------------------


def learner(batch=20, clip=None, labels=(0, 1, 1, 2, 1)):
    """A small network on random images, in double precision."""
    random = np.random.default_rng(1)
    train = Samples(random.random((60, 1, 8, 8)), random.integers(0, 10, 60))
    test = Samples(random.random((len(labels), 1, 8, 8)), np.array(labels))
    generator = torch.Generator().manual_seed(1)
    model = FlatModel(build("mlp", (1, 8, 8), 10, generator), torch.float64)
    return DataLearner(
        *(model, train, np.arange(60), test, np.arange(len(labels)), batch, 3, random),
        *(torch.float64, torch.device("cpu")),
        clip=clip,
    )


def rms(g):
    return float(g.square().mean().sqrt())


@pytest.mark.parametrize("batch", [3, 20])
def test_the_size_of_an_example_is_the_largest_of_a_few_of_the_latest_batch(batch):
    client = learner(batch)
    theta = client.start()
    # Nothing was drawn yet, so there is nothing to measure.
    assert client.evaluate(theta)["example_rms"] is None
    heard = []
    client.on_batch = heard.append
    for _ in range(2):
        client.gradient(theta)
    found = client.evaluate(theta)["example_rms"]
    # Measuring draws no batch.
    assert len(heard) == 2
    sizes = []
    for row in heard[-1][:EXAMPLES]:
        x, y = client.train.take(np.array([row]), torch.float64)
        sizes.append(rms(client.model.gradient(theta, x, y)[0]))
    assert len(sizes) == min(batch, EXAMPLES)
    assert found == pytest.approx(max(sizes), rel=1e-9)


def test_of_clipped_gradients_the_clipped_ones_are_measured():
    bound = 0.01
    client = learner(clip=(bound, 2))
    theta = client.start()
    client.gradient(theta)
    assert client.evaluate(theta)["example_rms"] == pytest.approx(bound / client.size**0.5)


def test_chance_is_always_the_same_answer_and_dead_units_are_counted():
    client = learner()
    told = client.evaluate(client.start())
    assert told["chance"] == pytest.approx(3 / 5)
    assert 0 <= told["dead"] < 0.5
    assert client.evaluate(torch.full((client.size,), -1.0, dtype=torch.float64))["dead"] == 1.0


def test_the_quadratic_problem_has_no_chance_no_units_and_no_examples():
    settings = make_settings({"dataset": "quadratic"})
    client = make_learner(settings, 0, 3, 1, torch.device("cpu"))
    told = client.evaluate(client.start())
    names = ("accuracy", "chance", "dead", "example_rms")
    assert [told[name] for name in names] == [None] * 4
    assert told["loss"] > 0
