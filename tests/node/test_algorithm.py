"""One client's rounds: its gradient over a private path, and what goes on from round to round."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lppa.node.algorithm import aggregate, mean_gradient, mix
from lppa.node.learner import steps_per_epoch

SIZE = 4


class Curved:
    """Gradients that depend on the point and on how many were taken; remembers where."""

    size = SIZE

    def __init__(self):
        self.points = []

    def start(self):
        return torch.arange(SIZE, dtype=torch.float64)

    def gradient(self, theta):
        self.points.append(theta.clone())
        return torch.sin(theta) + 0.1 * len(self.points)


def vectors():
    numbers = st.floats(-5, 5).map(lambda x: round(x, 6))
    return st.lists(numbers, min_size=SIZE, max_size=SIZE).map(
        lambda values: torch.tensor(values, dtype=torch.float64)
    )


def plain_loop(theta, c, lam, steps):
    """The same path, as anybody would write it."""
    learner, x, gradients = Curved(), theta, []
    for _ in range(steps):
        g = learner.gradient(x)
        gradients.append(g)
        x = x - lam * (g + c)
    return torch.stack(gradients).mean(0), learner.points


# --- the gradient of a round --------------------------------------------------------------------


@given(vectors(), vectors(), st.floats(0.001, 1.0), st.integers(1, 6))
def test_a_rounds_gradient_is_the_mean_over_its_path(theta, c, lam, steps):
    learner, before = Curved(), (theta.clone(), c.clone())
    found = mean_gradient(learner, theta, c, lam, steps)
    expected, points = plain_loop(theta, c, lam, steps)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert len(learner.points) == steps
    for a, b in zip(learner.points, points, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)
    # The path is a trial: θ stays where it is.
    assert torch.equal(theta, before[0])
    assert torch.equal(c, before[1])


def test_one_step_is_the_gradient_itself():
    theta, far = Curved().start(), torch.full((SIZE,), 1e9, dtype=torch.float64)
    assert torch.equal(mean_gradient(Curved(), theta, far, 1.0, 1), Curved().gradient(theta))


def test_a_gradient_that_the_learner_keeps_is_not_written_over():
    class Keeping(Curved):
        kept = torch.ones(SIZE, dtype=torch.float64)

        def gradient(self, theta):
            return self.kept

    found = mean_gradient(Keeping(), Curved().start(), torch.zeros(SIZE), 0.1, 5)
    assert torch.equal(found, torch.ones(SIZE, dtype=torch.float64))
    assert torch.equal(Keeping.kept, torch.ones(SIZE, dtype=torch.float64))


@pytest.mark.parametrize(
    ("rows", "nodes", "batch", "steps"),
    [(1438, 5, 64, 4), (60_000, 5, 256, 46), (10, 5, 64, 1), (128, 1, 64, 2), (127, 1, 64, 1)],
)
def test_a_pass_has_as_many_steps_as_an_equal_share_has_full_batches(rows, nodes, batch, steps):
    assert steps_per_epoch(rows, nodes, batch) == steps


# --- rounds -------------------------------------------------------------------------------------


class Alone:
    """A neighbourhood of one's own state and a fixed one; remembers what was sent."""

    def __init__(self):
        self.sent = []

    def exchange(self, t, *state):
        self.sent.append((t, *(vector.clone() for vector in state)))
        return [state, tuple(torch.full_like(vector, 0.5) for vector in state)]


def follow(steps, adapt_first, rounds=3, finish=0):
    """The algorithm as the module does it, and as it is on paper."""
    network, row = Alone(), (0.75, 0.25)

    def noise(gamma, t):
        return gamma + (t + 1)

    def lam(t):
        return 0.1 / (1 + t)

    states = list(aggregate(network, Curved(), noise, row, lam, rounds, steps, finish, adapt_first))
    theta, learner = Curved().start(), Curved()
    expected = []

    def path(c, t):
        x, total = theta, 0.0
        for _ in range(steps):
            g = learner.gradient(x)
            total, x = total + g, x - lam(t) * (g + c)
        return total / steps

    def mixed(x):
        return 0.75 * x + 0.25 * 0.5

    g = gamma = path(torch.zeros(SIZE, dtype=torch.float64), 0)
    for t in range(rounds):
        gamma = gamma + (t + 1)
        theta = mixed(theta) - steps * lam(t) * (mixed(gamma) if adapt_first else gamma)
        # Along the path others are taken to go on as they did: γ beyond one's own last gradient.
        g, old = path(mixed(gamma) - g, t + 1), g
        gamma = mixed(gamma) + g - old
        expected.append((t + 1, theta, gamma, g))
    for t in range(rounds, rounds + finish):
        theta = mixed(theta)
        expected.append((t + 1, theta, gamma, g))
    return network, states, expected


@pytest.mark.parametrize("adapt_first", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("finish", [0, 2])
def test_rounds_are_those_on_paper_with_a_step_of_all_local_steps(steps, adapt_first, finish):
    network, states, expected = follow(steps, adapt_first, finish=finish)
    for state, (t, *vectors) in zip(states, expected, strict=True):
        assert state.t == t
        for found, wanted in zip((state.theta, state.gamma, state.g), vectors, strict=True):
            assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-12)
    # In the last rounds θ alone is sent, and nothing of a path is ever.
    assert [(t, len(state)) for t, *state in network.sent] == [
        *((t, 2) for t in range(3)),
        *((t, 1) for t in range(3, 3 + finish)),
    ]
    for (_, theta, *_), before in zip(network.sent[1:], states, strict=False):
        assert torch.equal(theta, before.theta)


def test_a_mixture_is_the_weighted_sum_and_leaves_what_it_is_made_of():
    one, two = torch.ones(2), torch.tensor([1.0, 3.0])
    (a, b) = mix((0.25, 0.75), [(one, two), (two, one)])
    assert torch.equal(a, torch.tensor([1.0, 2.5]))
    assert torch.equal(b, torch.tensor([1.0, 1.5]))
    assert torch.equal(one, torch.ones(2))
