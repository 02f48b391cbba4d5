"""A sketch keeps what the coordinator needs, sums and lengths, and little else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lppa.node.sketch import BUCKETS, Sketch

SIZES = [1, 20, BUCKETS - 1, BUCKETS, BUCKETS + 1, 10_007]


def vectors(count, size, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((count, size)))


@pytest.mark.parametrize("size", SIZES)
def test_the_sketch_of_a_sum_is_the_sum_of_the_sketches(size):
    sketch, parts = Sketch(size, 7), vectors(5, size)
    whole = sketch(parts.sum(0))
    np.testing.assert_allclose(sum(map(sketch, parts)), whole, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sketch(-2.5 * parts[0]), -2.5 * sketch(parts[0]), rtol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_a_sketch_is_a_few_hundred_numbers_in_float64_whatever_the_vector(size):
    for dtype in (torch.float32, torch.float64):
        result = Sketch(size, 7)(torch.ones(size, dtype=dtype))
        assert (result.shape, result.dtype) == ((BUCKETS,), np.float64)


@pytest.mark.parametrize("size", [20, 1000, 10_007])
def test_the_squared_length_is_right_on_average_over_seeds(size):
    vector = vectors(1, size)[0]
    squares = [float((Sketch(size, seed)(vector) ** 2).sum()) for seed in range(200)]
    assert np.mean(squares) == pytest.approx(float(vector.square().sum()), rel=0.05)


def test_one_length_is_right_to_about_a_tenth():
    vector = vectors(1, 50_000)[0]
    assert np.linalg.norm(Sketch(50_000, 1)(vector)) == pytest.approx(float(vector.norm()), rel=0.2)


def test_a_heavy_stretch_of_a_vector_does_not_fall_into_one_bucket():
    vector = torch.zeros(10_000)
    vector[3000 : 3000 + BUCKETS] = 1.0
    assert np.abs(Sketch(10_000, 3)(vector)).max() == 1.0


def test_all_nodes_of_a_run_sketch_alike_and_another_run_differently():
    vector = vectors(1, 5000)[0]
    assert np.array_equal(Sketch(5000, 7)(vector), Sketch(5000, 7)(vector))
    assert not np.array_equal(Sketch(5000, 7)(vector), Sketch(5000, 8)(vector))


def test_sketching_leaves_the_vector_as_it_was():
    vector = vectors(1, 1000)[0]
    before = vector.clone()
    Sketch(1000, 7)(vector)
    assert torch.equal(vector, before)
