"""One client's rounds: its gradient over a private path, and what goes on from round to round."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lppa.node.algorithm import LocalSteps, aggregate, mean_gradient
from lppa.node.learner import steps_per_epoch
from lppa.node.neighbours import weighted_sum
from lppa.node.state import NoiseSecrets
from lppa.node.updates import DSGD, GradientTracking

SIZE = 4


class Curved:
    """Gradients that depend on the point and on the step; remembers where."""

    size = SIZE

    def __init__(self):
        self.points = []

    def start(self):
        return torch.arange(SIZE, dtype=torch.float64)

    def gradient(self, theta, step):
        self.points.append(theta.clone())
        return torch.sin(theta) + 0.1 * step


def vectors():
    numbers = st.floats(-5, 5).map(lambda x: round(x, 6))
    return st.lists(numbers, min_size=SIZE, max_size=SIZE).map(
        lambda values: torch.tensor(values, dtype=torch.float64)
    )


def plain_loop(theta, c, lam, steps, momentum=0.0, first=0):
    """The same path, as anybody would write it."""
    learner, x, moves, v = Curved(), theta, [], 0.0
    for k in range(steps):
        v = momentum * v + learner.gradient(x, first + k)
        moves.append(v)
        x = x - lam * (v + c)
    return torch.stack(moves).mean(0), learner.points


def steps_of(count, momentum=0.0):
    return LocalSteps(count, lambda t: 0.0, momentum)


# --- the gradient of a round --------------------------------------------------------------------


@given(
    vectors(),
    vectors(),
    st.floats(0.001, 1.0),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.5, 0.9]),
    st.integers(0, 9),
)
def test_a_rounds_gradient_is_the_mean_over_its_path(theta, c, lam, steps, momentum, first):
    learner, before = Curved(), (theta.clone(), c.clone())
    found = mean_gradient(learner, theta, c, steps_of(steps, momentum), lam, first)
    expected, points = plain_loop(theta, c, lam, steps, momentum, first)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert len(learner.points) == steps
    for a, b in zip(learner.points, points, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)
    # The path is a trial: θ stays where it is.
    assert torch.equal(theta, before[0])
    assert torch.equal(c, before[1])


def test_one_step_is_the_gradient_itself():
    theta, far = Curved().start(), torch.full((SIZE,), 1e9, dtype=torch.float64)
    found = mean_gradient(Curved(), theta, far, steps_of(1), 1.0, 3)
    assert torch.equal(found, Curved().gradient(theta, 3))


def test_a_gradient_that_the_learner_keeps_is_not_written_over():
    class Keeping(Curved):
        kept = torch.ones(SIZE, dtype=torch.float64)

        def gradient(self, theta, step):
            return self.kept

    found = mean_gradient(Keeping(), Curved().start(), torch.zeros(SIZE), steps_of(5), 0.1, 0)
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

    epoch, in_parts = 0, False

    def __init__(self):
        self.sent = []

    def mix(self, t, vectors, meanwhile=None):
        self.sent.append((t, {name: vector.clone() for name, vector in vectors.items()}))
        fixed = {name: torch.full_like(vector, 0.5) for name, vector in vectors.items()}
        return weighted_sum([(0.75, vectors), (0.25, fixed)])


class Growing:
    """Noise of 1 in round 0, of 2 in round 1 and so on."""

    secrets = NoiseSecrets()

    def __call__(self, vector, t, in_place=False):
        return vector + (t + 1)

    def ahead(self, t):
        """It is made when it is needed."""


def lam(t):
    return 0.1 / (1 + t)


def mixed(x):
    return 0.75 * x + 0.25 * 0.5


def run(update, steps, adapt_first, rounds=3, finish=0):
    network, learner = Alone(), Curved()
    local = LocalSteps(steps, lam)
    loop = aggregate(update, network, learner, Growing(), local, rounds, finish, adapt_first)
    return network, list(loop)


class OnPaper:
    """A client's private path, as it is on paper."""

    def __init__(self, steps):
        self.steps, self.taken, self.learner = steps, 0, Curved()

    def path(self, x, c, t):
        total = 0.0
        for _ in range(self.steps):
            g = self.learner.gradient(x, self.taken)
            total, x, self.taken = total + g, x - lam(t) * (g + c), self.taken + 1
        return total / self.steps


def tracking_on_paper(steps, adapt_first, rounds=3, finish=0):
    client, theta, expected = OnPaper(steps), Curved().start(), []
    g = gamma = client.path(theta, torch.zeros(SIZE, dtype=torch.float64), 0)
    for t in range(rounds):
        gamma = gamma + (t + 1)
        theta = mixed(theta) - steps * lam(t) * (mixed(gamma) if adapt_first else gamma)
        # Along the path others are taken to go on as they did: γ beyond one's own last gradient.
        g, old = client.path(theta, mixed(gamma) - g, t + 1), g
        gamma = mixed(gamma) + g - old
        expected.append((t + 1, theta, gamma, g))
    for t in range(rounds, rounds + finish):
        theta = mixed(theta)
        expected.append((t + 1, theta, gamma, g))
    return expected


@pytest.mark.parametrize("adapt_first", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("finish", [0, 2])
def test_rounds_are_those_on_paper_with_a_step_of_all_local_steps(steps, adapt_first, finish):
    network, states = run(GradientTracking(), steps, adapt_first, finish=finish)
    expected = tracking_on_paper(steps, adapt_first, finish=finish)
    for state, (t, *vectors) in zip(states, expected, strict=True):
        assert state.t == t
        assert state.steps == steps * (1 + min(t, 3))
        found = (state.vectors[name] for name in ("theta", "gamma", "g"))
        for one, wanted in zip(found, vectors, strict=True):
            assert torch.allclose(one, wanted, rtol=1e-12, atol=1e-12)
    # In the last rounds θ alone is sent, and nothing of a path is ever.
    assert [(t, list(sent)) for t, sent in network.sent] == [
        *((t, ["theta", "gamma"]) for t in range(3)),
        *((t, ["theta"]) for t in range(3, 3 + finish)),
    ]
    for (_, sent), before in zip(network.sent[1:], states, strict=False):
        assert torch.equal(sent["theta"], before.theta)


@pytest.mark.parametrize("adapt_first", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("finish", [0, 2])
def test_d_sgd_sends_theta_with_noise_and_adds_its_own_step(steps, adapt_first, finish):
    network, states = run(DSGD(), steps, adapt_first, finish=finish)
    client, theta, zero = OnPaper(steps), Curved().start(), torch.zeros(SIZE, dtype=torch.float64)
    for t in range(3):
        noised = theta + (t + 1)
        assert torch.allclose(network.sent[t][1]["theta"], noised)
        g = client.path(mixed(noised) if adapt_first else noised, zero, t)
        theta = mixed(noised) - steps * lam(t) * g
        assert torch.allclose(states[t].theta, theta, rtol=1e-12, atol=1e-12)
    for t in range(3, 3 + finish):
        # What the last round added is hidden before it is sent; later there is nothing new.
        noised = theta + (t + 1) if t == 3 else theta
        assert torch.allclose(network.sent[t][1]["theta"], noised)
        theta = mixed(noised)
        assert torch.allclose(states[t].theta, theta, rtol=1e-12, atol=1e-12)
    assert all(list(sent) == ["theta"] for _, sent in network.sent)


def test_a_mixture_is_the_weighted_sum_and_leaves_what_it_is_made_of():
    one, two = torch.ones(2), torch.tensor([1.0, 3.0])
    found = weighted_sum([(0.25, {"a": one, "b": two}), (0.75, {"a": two, "b": one})])
    assert torch.equal(found["a"], torch.tensor([1.0, 2.5]))
    assert torch.equal(found["b"], torch.tensor([1.0, 1.5]))
    assert torch.equal(one, torch.ones(2))
