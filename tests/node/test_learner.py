"""The learner's edge to the data: how batches are drawn and laid out, and what a test tells."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lppa.models.flat import FlatModel
from lppa.models.networks import build
from lppa.models.problem import Problem
from lppa.node.batches import Batches
from lppa.node.datasets import Samples
from lppa.node.learner import EXAMPLES, DataLearner, Extras, Part, arranged, make_learner
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
    drawn = Batches(np.arange(10), 4, seed=1, node=0)
    assert drawn.per_pass == 2
    first, second = (np.concatenate([drawn(k), drawn(k + 1)]) for k in (0, 2))
    for rows in (first, second):
        assert len(rows) == 8 == len(set(rows))
    assert not np.array_equal(first, second)


def test_a_client_with_fewer_rows_than_a_batch_takes_all_of_them():
    drawn = Batches(np.arange(3), 4, seed=1, node=0)
    assert [sorted(drawn(step)) for step in (0, 5)] == [[0, 1, 2]] * 2


def test_a_batch_follows_from_seed_node_and_step_alone():
    def rows(seed=1, node=0):
        return Batches(np.arange(100), 8, seed, node)

    ahead, back = rows(), rows()
    expected = [ahead(step).tolist() for step in range(40)]
    assert [back(step).tolist() for step in reversed(range(40))] == expected[::-1]
    for other in (rows(seed=2), rows(node=1)):
        assert [other(step).tolist() for step in range(40)] != expected
    same = Batches(np.arange(100), 8, 1, 0, same=True)
    assert {tuple(same(step)) for step in range(40)} == {tuple(expected[0])}


# --- what a test tells --------------------------------------------------------------------------


def learner(batch=20, clip=None, labels=(0, 1, 1, 2, 1), weight_decay=0.0):
    """A small network on random images, in double precision."""
    random = np.random.default_rng(1)
    train = Samples(random.random((60, 1, 8, 8)), random.integers(0, 10, 60))
    test = Samples(random.random((len(labels), 1, 8, 8)), np.array(labels))
    generator = torch.Generator().manual_seed(1)
    model = FlatModel(build("mlp", (1, 8, 8), 10, generator), torch.float64)
    return DataLearner(
        model,
        Problem(model.module, train, test),
        Part(train, np.arange(60)),
        Part(test, np.arange(len(labels))),
        Batches(np.arange(60), batch, seed=1, node=0),
        3,
        Extras(weight_decay, clip),
    )


def rms(g):
    return float(g.square().mean().sqrt())


@pytest.mark.parametrize("batch", [3, 20])
def test_the_size_of_an_example_is_the_largest_of_a_few_of_the_latest_batch(batch):
    client = learner(batch)
    theta = client.start()
    heard = []
    client.on_batch = heard.append
    for step in range(2):
        client.gradient(theta, step)
    found = client.evaluate(theta, 1)["example_rms"]
    # Measuring draws no batch.
    assert len(heard) == 2
    sizes = []
    for row in heard[-1][:EXAMPLES]:
        x, y = client.train.take(np.array([row]), theta)
        sizes.append(rms(client.model.gradient(theta, x, y)[0]))
    assert len(sizes) == min(batch, EXAMPLES)
    assert found == pytest.approx(max(sizes), rel=1e-9)


def test_of_clipped_gradients_the_clipped_ones_are_measured():
    bound = 0.01
    client = learner(clip=(bound, 2))
    theta = client.start()
    assert client.evaluate(theta, 0)["example_rms"] == pytest.approx(bound / client.size**0.5)


def test_chance_is_always_the_same_answer_and_dead_units_are_counted():
    client = learner()
    told = client.evaluate(client.start(), 0)
    assert told["chance"] == pytest.approx(3 / 5)
    assert 0 <= told["dead"] < 0.5
    assert client.evaluate(torch.full((client.size,), -1.0, dtype=torch.float64), 0)["dead"] == 1.0


def test_the_quadratic_problem_has_no_chance_no_units_and_no_examples():
    settings = make_settings({"dataset": "quadratic"})
    client = make_learner(settings, 0, 3, 1, torch.device("cpu"))
    told = client.evaluate(client.start(), 0)
    names = ("accuracy", "chance", "dead", "example_rms")
    assert [told[name] for name in names] == [None] * 4
    assert told["loss"] > 0


def test_weight_decay_adds_to_each_gradient():
    plain, decaying = learner(), learner(weight_decay=0.1)
    theta = plain.start()
    added = decaying.gradient(theta, 0) - plain.gradient(theta, 0)
    assert torch.allclose(added, 0.1 * theta, rtol=1e-12, atol=1e-15)
