"""What has to be hidden is looked at where gradients grow, whenever models are tested."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from lppa.node.evaluation import Evaluation
from lppa.node.examples import BEYOND, GROWN, Examples, Sizes
from lppa.node.learner import make_learner
from lppa.node.stopwatch import Stopwatch
from lppa.protocol.settings import make_settings


class Looked:
    """A learner whose examples are as large as it is told; it counts how often it is asked."""

    size = 2

    def __init__(self, *sizes):
        self.sizes = list(sizes)
        self.asked = 0
        self.longest = 0.0

    def example_rms(self, theta, step):
        self.asked += 1
        return self.sizes.pop(0)

    def evaluate(self, theta, step):
        return {"accuracy": None, "loss": 1.0, "example_rms": self.example_rms(theta, step)}


def watching(learner, examples):
    scrutiny = SimpleNamespace(about=dict)
    links = SimpleNamespace(sent={}, dropped={})
    neighbours = SimpleNamespace(links=links, scrutiny=scrutiny, clock=Stopwatch())
    settings = SimpleNamespace(evaluated=lambda t: False)
    inject = SimpleNamespace(norm=0.0)
    sketch = lambda vector: torch.zeros(1).numpy()  # noqa: E731
    return Evaluation(settings, learner, inject, neighbours, sketch, examples)


NOW = SimpleNamespace(t=1, epoch=0, steps=1, theta=torch.ones(2), vectors={"theta": torch.ones(2)})


def test_examples_are_looked_at_in_the_first_round_and_where_gradients_have_grown():
    learner = Looked(5.0, 2.5, 40.0)
    examples = Examples(learner)
    watch = watching(learner, examples)
    for longest, asked in ((1.0, 1), (GROWN, 1), (1.1 * GROWN, 2), (1.2 * GROWN, 2)):
        learner.longest = longest
        watch.notice(NOW)
        assert learner.asked == asked
    assert examples.largest == 5.0
    learner.longest = 10.0
    watch.notice(NOW)
    assert examples.largest == 40.0


def test_a_test_of_the_model_is_a_look_as_well_and_reports_the_largest_of_any_round():
    learner = Looked(5.0, 0.25)
    examples = Examples(learner)
    watch = watching(learner, examples)
    learner.longest = 1.0
    watch.notice(NOW)
    learner.longest = 2.0
    assert watch(NOW).values["example_rms"] == 5.0
    watch.notice(NOW)
    assert learner.asked == 2


@pytest.mark.parametrize("size", [math.nan, math.inf, 1e305])
def test_what_is_beyond_all_numbers_is_not_forgotten(size):
    examples = Examples(Looked())
    examples.look(0.5)
    examples.look(size)
    assert examples.largest == BEYOND
    watch = watching(Looked(0.25), examples)
    assert watch(NOW).values["example_rms"] == BEYOND


def test_some_example_is_at_least_as_large_as_the_mean_over_its_batch():
    learner = Looked()
    learner.longest = 3.0
    examples = Examples(learner)
    examples.look(0.5)
    assert examples.largest == 3.0


def test_where_there_are_no_examples_nothing_is_measured_and_nothing_told():
    learner = Looked(None)
    examples = Examples(learner)
    watching(learner, examples).notice(NOW)
    assert learner.asked == 0
    assert watching(learner, examples)(NOW).values["example_rms"] is None
    assert (examples.largest, examples.grown, examples.tell()) == (None, False, ())


def test_it_is_told_once_it_has_grown_and_goes_on_from_what_was_known():
    examples = Examples(Looked(), since=Sizes(2.0))
    assert examples.grown
    assert examples.tell() == (2.0,)
    examples.look(2.5)
    assert not examples.grown
    examples.look(3.5)
    assert examples.grown
    assert examples.tell() == (3.5,)


def test_a_client_that_goes_on_looks_when_it_would_have_looked():
    whole, learner = Examples(Looked()), Looked()
    whole.learner.longest = 4.0
    whole.look(5.0)
    again = Examples(learner, since=whole.sizes)
    for longest in (1.0, 5.0, 7.0):
        whole.learner.longest = learner.longest = longest
        assert again.due == whole.due == (longest == 7.0)
    again.look(0.5)
    assert again.sizes == Sizes(largest=7.0, longest=7.0, looked_at=7.0)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_a_learner_knows_its_longest_gradient_with_one_example_exactly(decay):
    settings = make_settings({"model": "mlp", "batch": 1, "weight_decay": decay})
    learner = make_learner(settings, 0, 2, 1, torch.device("cpu"))
    theta = learner.start()
    sizes = []
    for step in range(5):
        learner.gradient(theta, step)
        sizes.append(learner.example_rms(theta, step))
        assert learner.longest == pytest.approx(max(sizes), rel=1e-5)
