"""What rounding explains of the conservation residual: more than it does, less than a lost message.

Gradient tracking on random gradients, in numpy, with the residual as a run measures it.
"""

from __future__ import annotations

import numpy as np
import pytest

from lppa.coordinator.metrics import rounding_bound

SIZE = 400


def residuals(dtype, nodes, rounds, scale, lost=None, steps=1):
    """(residual, noise to gradient) by round, on a full graph; `lost`: a draw that never arrives
    (at the start), or a state (in the middle)."""
    random = np.random.default_rng(1)
    W = np.full((nodes, nodes), 1 / nodes, dtype=dtype)
    g = random.standard_normal((nodes, SIZE)).astype(dtype)
    noise = (scale * random.standard_normal((nodes, nodes, SIZE))).astype(dtype)
    added = noise.sum(1) - noise.sum(0)
    if lost == "noise":
        added[1] += noise[0, 1]
    gamma = g + added
    ratio = np.linalg.norm(added, axis=1).mean() / np.linalg.norm(g, axis=1).mean()
    found = []
    for t in range(rounds):
        mixed = W @ gamma
        if lost == "state" and t == rounds // 2:
            mixed[1] -= W[1, 0] * gamma[0]
        gamma = mixed
        for _ in range(steps):
            new = random.standard_normal((nodes, SIZE)).astype(dtype)
            gamma, g = gamma + (new - g), new
        norms = (np.linalg.norm(part, axis=1).sum() for part in (gamma, g))
        left = np.linalg.norm((gamma.astype(float) - g).sum(0))
        found.append((float(left / max(norms)), float(ratio)))
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [0.0, 0.1, 30.0])
@pytest.mark.parametrize("nodes", [2, 12])
def test_rounding_stays_far_below_its_bound(dtype, scale, nodes):
    for t, (residual, ratio) in enumerate(residuals(dtype, nodes, 60, scale), 1):
        assert residual < rounding_bound(dtype, t, nodes, ratio) / 10


@pytest.mark.parametrize("rounds", [1, 5])
def test_many_gradients_in_a_round_round_more_often(rounds):
    residual, _ = residuals("float32", 3, rounds, 0.0, steps=1000)[-1]
    assert residual < rounding_bound("float32", rounds, 3, steps=1000) / 10
    assert residual > rounding_bound("float32", rounds, 3) / 10


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("lost", "scale"), [("noise", 0.1), ("noise", 30.0), ("state", 0.0)])
@pytest.mark.parametrize("nodes", [2, 12])
def test_one_message_that_is_lost_is_far_above_it(dtype, lost, scale, nodes):
    residual, ratio = residuals(dtype, nodes, 60, scale, lost)[-1]
    assert residual > 10 * rounding_bound(dtype, 60, nodes, ratio)


def test_without_any_noise_on_record_the_bound_is_that_of_gradients_alone():
    assert rounding_bound("float32", 50, 5) == rounding_bound("float32", 50, 5, 0.5)
    assert 1e-5 < rounding_bound("float32", 50, 5) < 1e-4
    assert rounding_bound("float32", 0, 5) > 0
