"""The quadratic problem: the laws that make its answer known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lppa.models.quadratic import client, quadratic

PROBLEMS = st.builds(
    quadratic, st.integers(1, 6), st.integers(0, 10_000), st.booleans(), st.integers(1, 20)
)


def point(problem, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(problem.b.shape[1], generator=generator, dtype=dtype)


@given(PROBLEMS)
@settings(deadline=None, max_examples=40)
def test_every_curvature_is_symmetric_with_eigenvalues_from_a_half_to_two(problem):
    assert torch.equal(problem.A, problem.A.mT)
    eigenvalues = torch.linalg.eigvalsh(problem.A)
    assert eigenvalues.min() >= 0.5 - 1e-12
    assert eigenvalues.max() <= 2 + 1e-12


@given(PROBLEMS, st.integers(0, 99), st.integers(100, 199))
@settings(deadline=None, max_examples=40)
def test_the_mean_of_the_gradients_is_the_slope_of_the_loss(problem, here, direction):
    theta, v = point(problem, here), point(problem, direction)
    mean = sum(problem.gradient(i, theta) for i in range(len(problem.A))) / len(problem.A)
    # Central differences of a quadratic are exact at any step.
    slope = (problem.loss(theta + v) - problem.loss(theta - v)) / 2
    assert slope == pytest.approx(float(mean @ v), abs=1e-9)


@given(PROBLEMS, st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_nothing_is_below_the_optimum_and_the_gap_says_how_far_above(problem, seed):
    theta, best = point(problem, seed), problem.optimum()
    assert problem.gap(theta) > 0
    assert problem.gap(theta) == pytest.approx(problem.loss(theta) - problem.loss(best), abs=1e-9)
    assert problem.gap(best) == 0


@given(st.integers(0, 1000), st.integers(0, 5), st.booleans())
@settings(deadline=None, max_examples=30)
def test_a_clients_part_does_not_depend_on_how_many_clients_there_are(seed, i, shared):
    a, b = client(i, seed, shared)
    for clients in (i + 1, i + 3):
        problem = quadratic(clients, seed, shared)
        assert torch.equal(problem.A[i], a)
        assert torch.equal(problem.b[i], b)


def test_shared_means_one_curvature_for_all_and_slopes_of_their_own():
    shared, own = quadratic(3, 7, shared=True), quadratic(3, 7, shared=False)
    assert torch.equal(shared.A[0], shared.A[1]) and torch.equal(shared.A[0], shared.A[2])
    assert not torch.equal(shared.b[0], shared.b[1])
    assert not torch.allclose(own.A[0], own.A[1])
    assert torch.equal(shared.b, own.b)


def test_another_seed_is_another_problem():
    assert not torch.allclose(quadratic(2, 1, False).A, quadratic(2, 2, False).A)
    assert not torch.allclose(quadratic(2, 1, False).b, quadratic(2, 2, False).b)


def test_dimensions_are_as_asked_and_20_when_not():
    assert quadratic(3, 0, False).A.shape == (3, 20, 20)
    assert quadratic(3, 0, False, dimension=4).b.shape == (3, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gradient_has_the_dtype_of_theta(dtype):
    problem = quadratic(2, 0, False)
    assert problem.A.dtype == problem.b.dtype == torch.float64
    assert problem.gradient(1, point(problem, 0, dtype)).dtype == dtype


def test_descending_the_mean_gradient_closes_the_gap():
    problem = quadratic(4, 3, False)
    theta = point(problem, 0)
    for _ in range(200):
        theta = theta - 0.5 * sum(problem.gradient(i, theta) for i in range(4)) / 4
    assert problem.gap(theta) < 1e-20
