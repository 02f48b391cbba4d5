"""How much noise hides an input, where that can be reckoned by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lppa.models.problem import Problem
from lppa.node.learner import make_learner
from lppa.node.spread import (
    LARGEST,
    MEASURED,
    largest_noise,
    noise_that_hides,
    noise_that_hides_words,
    spread,
    variety,
)
from lppa.protocol.settings import make_settings


def drawn(seed, rows=400, sides=(3.0, 2.0, 0.5)):
    torch.manual_seed(seed)
    return torch.randn(rows, len(sides), dtype=torch.float64) * torch.tensor(sides).double()


@given(st.integers(0, 1000), st.floats(0.1, 10.0))
def test_each_of_many_copies_of_one_number_needs_the_more_noise(seed, scale):
    """A gradient of n copies of scale · x: the noise on their mean is n times less."""
    x = drawn(seed, sides=(2.0,))
    about = variety(x, None, most=9)
    deviation = float(x.std())
    for copies in (1, 4, 100):
        found = noise_that_hides(lambda v, n=copies: scale * v.repeat(n), x[0], about)
        # Half of the variance is left where noise and signal are alike.
        assert found == pytest.approx(scale * deviation * math.sqrt(copies), rel=1e-6)


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_with_that_noise_half_of_the_variance_is_left_to_the_best_linear_guess(seed):
    torch.manual_seed(seed)
    x, told = drawn(seed), torch.randn(7, 3, dtype=torch.float64)
    about = variety(x, None, most=9)
    noise = noise_that_hides(lambda v: told @ v, x[0], about)
    prior = torch.cov(x.T)
    left = torch.linalg.inv(torch.linalg.inv(prior) + told.T @ told / noise**2)
    assert float(left.trace()) == pytest.approx(float(prior.trace()) / 2, rel=1e-6)


def test_what_a_gradient_says_nothing_of_needs_no_noise():
    x = drawn(1)
    about = variety(x, None, most=9)
    assert noise_that_hides(lambda v: torch.zeros(5), x[0], about) == 0.0
    # Of less than half of what varies: the rest stays hidden whatever the noise.
    assert noise_that_hides(lambda v: 9.0 * v[2:], x[0], about) == pytest.approx(0.0, abs=1e-6)
    assert noise_that_hides(lambda v: v, x[0], variety(torch.ones(4, 3), None, 9)) == 0.0


def test_what_a_class_has_in_common_is_no_secret():
    x = torch.cat([drawn(1) + 50.0, drawn(2) - 50.0])
    labels = np.repeat([0, 1], 400)
    whole, within = variety(x, None, 9), variety(x, labels, 9)
    assert float(whole.variances[0]) > 1000 > 20 > float(within.variances[0]) > 5


def test_directions_that_are_left_out_count_as_hidden():
    x = drawn(3)
    some = variety(x, None, most=1)
    every = variety(x, None, most=3)
    assert len(some.variances) == 1
    assert some.beyond == pytest.approx(float(every.variances[1:].sum()))
    assert noise_that_hides(lambda v: v, x[0], some) < noise_that_hides(lambda v: v, x[0], every)


def learner_of(model, dataset="digits", **more):
    told = {"dataset": dataset, "model": model, "batch": 1, "seed": 3, **more}
    return make_learner(make_settings(told), 0, 5, 3, torch.device("cpu"))


def test_wider_networks_need_more_noise_beside_the_size_of_their_gradients():
    spreads = []
    for model in ("mlp:64", "mlp:512", "mlp:4096"):
        learner = learner_of(model)
        theta = learner.start()
        noise = largest_noise(learner, theta, learner.batches(0))
        spreads.append(noise / learner.example_rms(theta, 0))
    assert spreads == sorted(spreads)
    assert spreads[2] > 3 * spreads[0]


def test_looking_leaves_the_network_as_it_was():
    learner = learner_of("mlp")
    theta = learner.start()
    before = learner.gradient(theta, 0)
    for training in (True, False):
        learner.model.module.train(training)
        assert largest_noise(learner, theta, learner.batches(0)) > 0
        assert learner.model.module.training is training
    assert torch.equal(learner.gradient(theta, 0), before)


def test_where_inputs_are_no_numbers_nobody_knows_how_they_differ():
    tokens = torch.randint(0, 9, (40, 6))
    data = (tokens, tokens[:, 0])

    def network():
        return torch.nn.Sequential(
            torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(24, 9)
        )

    problem = Problem(network, data, data, name="tokens")
    told = make_settings({"dataset": "own/tokens", "model": "own"})
    learner = make_learner(told, 0, 2, 3, torch.device("cpu"), problem)
    assert math.isnan(largest_noise(learner, learner.start(), learner.batches(0)))


@pytest.mark.parametrize("bad", ["inputs", "gradient"])
def test_where_there_are_no_values_nothing_is_known_and_nothing_fails(bad):
    x = torch.randn(40, 5)
    if bad == "inputs":
        x[7, 2] = math.nan

    def loss(out, targets):
        return out.sum() * (math.nan if bad == "gradient" else 1.0)

    problem = Problem(lambda: torch.nn.Linear(5, 1), (x, x[:, 0]), (x, x[:, 0]), loss=loss)
    told = make_settings({"dataset": "own/broken", "model": "own"})
    learner = make_learner(told, 0, 2, 3, torch.device("cpu"), problem)
    assert math.isnan(largest_noise(learner, learner.start(), learner.batches(0)[:2]))


def test_a_word_of_a_sparse_row_stands_out_by_what_it_changes():
    rows = torch.eye(3, 9).to_sparse_csr()
    told = torch.zeros(9, 4)
    told[0], told[5] = 3.0, 100.0  # the first row has word 0, and not word 5
    one = torch.sparse_csr_tensor(
        torch.tensor([0, 1]), rows.col_indices()[:1], torch.ones(1), (1, 9), check_invariants=True
    )
    found = noise_that_hides_words(lambda x: (x @ told).flatten(), one)
    assert found == pytest.approx(6.0)  # four numbers, each changed by 3


def test_an_example_counts_as_often_as_the_noise_that_hides_it_is_beyond_the_threshold():
    assert spread(0.6, 0.01, hidden_from=20, parameters=9) == pytest.approx(3.0)
    assert spread(0.1, 0.01, hidden_from=20, parameters=9) == 1.0
    assert spread(0.0, 0.0, hidden_from=20, parameters=9) == 1.0
    # Where it is not known it grows with the number of parameters.
    assert spread(math.nan, 0.01, 20, MEASURED // 2) == 1.0
    assert spread(math.nan, 0.01, 20, 16 * MEASURED) == pytest.approx(4.0)
    assert LARGEST > MEASURED
