"""What has to be hidden is looked at where gradients grow, whenever models are tested."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lppa.node.evaluation import GROWN, Evaluation


class Sizes:
    """A learner whose examples are as large as it is told; it counts how often it is asked."""

    def __init__(self, *sizes):
        self.sizes = list(sizes)
        self.asked = 0

    def example_rms(self, theta, step):
        self.asked += 1
        return self.sizes.pop(0)


def watching(learner):
    neighbours = SimpleNamespace(links=None, scrutiny=None, clock=None)
    settings = SimpleNamespace(evaluated=lambda t: False)
    return Evaluation(settings, learner, None, neighbours, None)


def after(length):
    return SimpleNamespace(vectors={"g": torch.tensor([length, 0.0])}, theta=None, steps=1)


def test_examples_are_measured_in_the_first_round_and_where_the_gradient_has_grown():
    learner = Sizes(0.5, 0.25, 4.0)
    watch = watching(learner)
    for length, asked in ((1.0, 1), (GROWN, 1), (0.1, 1), (1.1 * GROWN, 2), (1.2 * GROWN, 2)):
        watch.notice(after(length))
        assert learner.asked == asked
    assert watch.largest == 0.5
    watch.notice(after(100.0))
    assert watch.largest == 4.0


@pytest.mark.parametrize("size", [None, float("nan"), float("inf")])
def test_what_is_no_size_is_not_kept(size):
    watch = watching(Sizes(size))
    watch.notice(after(1.0))
    assert watch.largest == 0.0


def test_where_no_gradient_is_kept_nothing_is_measured():
    watch = watching(Sizes())
    watch.notice(SimpleNamespace(vectors={"x": torch.ones(2)}, theta=None, steps=1))
    assert watch.learner.asked == 0
