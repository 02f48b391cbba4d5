from __future__ import annotations

import pytest
import torch

from lppa.attack.protection import (
    CLASS_PRIOR,
    OBSERVED,
    attack,
    class_priors,
    first_change,
    first_gradient,
    judge,
    read_label,
    root_mean_square,
    with_noise,
)
from lppa.attack.restarts import Options
from lppa.attack.scene import public_knowledge
from lppa.models.flat import FlatModel
from lppa.node.datasets import load_dataset
from lppa.protocol.settings import make_settings

SETTINGS = make_settings({"dataset": "digits", "model": "mlp", "batch": 1})


@pytest.fixture(scope="module")
def public():
    dataset = load_dataset("digits", normalize=True)
    about = public_knowledge(SETTINGS, dataset)
    return about, class_priors(dataset, about)


@pytest.mark.parametrize("observation", OBSERVED)
def test_what_is_exposed_are_gradients_on_the_truth(observation, public):
    shown = OBSERVED[observation](SETTINGS, 3)
    model = FlatModel(public[0].module(), torch.float32)
    inside = sum(
        term.coefficient
        * model.gradient(term.theta, shown.inputs[term.batch], shown.labels[term.batch])[0]
        for term in shown.target.terms
    )
    assert torch.allclose(inside, shown.target.vector, atol=1e-6)


def test_the_ratio_counts_against_one_gradient_or_two():
    one, two = first_gradient(SETTINGS, 3), first_change(SETTINGS, 3)
    assert one.rms == root_mean_square(one.target.vector)
    assert two.rms > one.rms
    assert not torch.equal(two.inputs[0], two.inputs[1])


@pytest.mark.parametrize("ratio", [0.01, 3.0])
def test_the_noise_has_the_deviation_that_the_attacker_is_told(ratio):
    shown = first_gradient(SETTINGS, 3)
    target = with_noise(shown, ratio, 3)
    noise = target.vector - shown.target.vector
    assert target.sigma == pytest.approx(ratio * shown.rms)
    assert root_mean_square(noise) == pytest.approx(target.sigma, rel=0.03)


def test_the_same_draws_at_every_ratio():
    shown = first_gradient(SETTINGS, 3)
    small, large = (with_noise(shown, ratio, 3).vector - shown.target.vector for ratio in (1, 4))
    assert torch.allclose(4 * small, large, atol=1e-3 * shown.rms)


def test_little_noise_leaves_label_and_image_and_much_noise_does_not(public):
    shown = first_gradient(SETTINGS, 3)
    gains = []
    for ratio in (0.1, 100.0):
        target = with_noise(shown, ratio, 3)
        for name in ("likelihood", CLASS_PRIOR):
            images, labels, _ = attack(name, target, *public, Options(1, steps=10))
            (row,) = judge(shown, images, labels, *public)
            gains.append(row["psnr"] - row["mean_psnr"])
        if ratio < 1:
            assert read_label(target, public[0]) == shown.labels[0, 0] and row["label_right"] == 1
    assert min(gains[:2]) > 10
    assert gains[2] < 3
