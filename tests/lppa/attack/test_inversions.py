"""Inversions on real digits: where they succeed, and where they must not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from victims import DIGITS, batch, difference, gradient, model, victim

from lppa.attack.inversion import INVERSIONS, invert
from lppa.attack.problem import Problem
from lppa.attack.scene import precision_root
from lppa.attack.score import score
from lppa.attack.target import Target, Term
from lppa.models.clipping import clipped_gradient
from lppa.protocol.errors import WrongUse


def decibels(found, *rows, which=0, network="lenet"):
    x, _ = batch(*rows)
    return score(found.images[which], x, victim(network))["psnr"]


def mean_image(*rows):
    x, _ = batch(*rows)
    return score(victim().mean_image()[None].expand_as(x), x, victim())["psnr"]


@pytest.mark.parametrize("row", [0, 1])
def test_dlg_recovers_an_image_and_its_label_from_a_clean_gradient(row):
    found = invert("dlg", gradient([row]), victim(), restarts=2)
    assert decibels(found, row) > 25
    assert found.labels.tolist() == [batch(row)[1].tolist()]
    assert found.images.shape == (1, 1, 1, 8, 8)


def test_idlg_needs_no_search_for_the_label():
    found = invert("idlg", gradient([4]), victim(), restarts=2)
    assert decibels(found, 4) > 25
    assert found.labels.item() == batch(4)[1].item()


def test_dlg_recovers_the_image_of_a_difference_on_one_batch():
    found = invert("dlg", difference([2], [2]), victim(), restarts=2)
    assert decibels(found, 2) > 25


def test_dlg_recovers_both_images_of_a_difference_on_two_batches():
    found = invert("dlg", difference([2], [3]), victim(), restarts=2)
    assert decibels(found, 2, which=0) > 25
    assert decibels(found, 3, which=1) > 25
    assert found.labels.flatten().tolist() == [*batch(2)[1].tolist(), *batch(3)[1].tolist()]


def test_idlg_recovers_the_image_of_a_difference():
    found = invert("idlg", difference([2], [2]), victim(), restarts=2)
    assert decibels(found, 2) > 25


def test_noise_of_a_tenth_keeps_dlg_below_the_mean_image():
    found = invert("dlg", gradient([0], sigma=0.1), victim(), restarts=2, steps=15)
    assert decibels(found, 0) < mean_image(0)


@pytest.mark.slow
def test_knowing_the_noise_beats_ignoring_it():
    target = gradient([0], sigma=0.03)
    blind = invert("dlg", target, victim(), restarts=2, steps=15)
    knowing = invert("likelihood", target, victim(), restarts=2)
    assert decibels(knowing, 0) > decibels(blind, 0) + 1
    assert decibels(knowing, 0) > mean_image(0) + 1


def test_likelihood_without_noise_is_as_good_as_exact():
    found = invert("likelihood", gradient([1]), victim(), restarts=1)
    assert decibels(found, 1) > 25


def test_a_covariance_of_public_images_tells_more_than_that_they_are_smooth():
    target = gradient([0], sigma=0.05)
    smooth = invert("likelihood", target, victim(), restarts=1)
    public = DIGITS.test.take(range(len(DIGITS.test)), torch.float32)[0]
    knowing = replace(victim(), prior_root=precision_root(public.flatten(1)))
    assert decibels(invert("likelihood", target, knowing, restarts=1), 0) > decibels(smooth, 0)


@pytest.mark.parametrize("order", [1, 2])
def test_dlg_recovers_images_from_clipped_gradients(order):
    clipped = replace(victim(), clip=(1.0, order))
    flat = model()
    vector = clipped_gradient(flat, flat.vector(), *batch(0), 1.0, order)
    assert float(vector.norm(order)) == pytest.approx(1.0, rel=1e-4)
    target = Target(vector, (Term(1.0, flat.vector(), 0),), 0.0, 1)
    assert decibels(invert("dlg", target, clipped, restarts=2), 0) > 25


def test_the_arithmetic_of_clipped_batches_is_the_victims_own():
    clipped = replace(victim("cnn"), clip=(0.05, 2))
    flat, (x, y) = model("cnn"), batch(0, 1, 2)
    vector = clipped_gradient(flat, flat.vector(), x, y, 0.05, 2)
    problem = Problem(Target(vector, (Term(1.0, flat.vector(), 0),), 0.0, 3), clipped)
    made = problem.gradient(x[None, None], problem.one_hot(y)[None, None])
    torch.testing.assert_close(made[0], vector, atol=1e-6, rtol=1e-4)


@pytest.mark.slow
def test_cosine_inverts_a_network_with_kinks_and_small_weights():
    found = invert("cosine", gradient([0], "cnn"), victim("cnn"), restarts=2, steps=400)
    assert decibels(found, 0, network="cnn") > 25
    assert found.images.min() >= 0 and found.images.max() <= 1


@pytest.mark.slow
def test_dlg_recovers_a_batch_of_two_in_some_order():
    found = invert("dlg", gradient([0, 1]), victim(), restarts=4)
    assert decibels(found, 0, 1) > 25


def test_double_precision_explains_the_vector_better_than_single_can():
    target = gradient([0])
    found = invert("dlg", target, victim(), restarts=1, dtype=torch.float64)
    assert found.images.dtype == torch.float64
    assert decibels(found, 0) > 25


def test_unknown_names_and_models_that_do_not_fit_are_told_to_the_user():
    with pytest.raises(WrongUse, match="use one of dlg, idlg"):
        invert("magic", gradient([0]), victim())
    with pytest.raises(WrongUse, match="at least one restart"):
        invert("dlg", gradient([0]), victim(), restarts=0)
    with pytest.raises(WrongUse, match="parameters"):
        invert("dlg", gradient([0]), victim("cnn"))


def test_every_inversion_says_what_it_assumes():
    assert all("Assumes" in inversion.__doc__ for inversion in INVERSIONS.values())
