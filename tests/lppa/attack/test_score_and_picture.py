"""Scores that can be trusted, beside those of trivial guesses, and pictures of them."""

from __future__ import annotations

import pytest
import torch
from victims import batch, victim

from lppa.attack.picture import draw_curves, draw_grid
from lppa.attack.score import baselines, match, psnr, score, ssim
from lppa.attack.target import Victim


def test_matching_finds_the_permutation_under_noise():
    x, _ = batch(0, 1, 2, 3, 4)
    permutation = torch.tensor([3, 0, 4, 1, 2])
    noisy = x[permutation] + 0.05 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(permutation[match(noisy, x)], torch.arange(5))


def test_labels_are_compared_after_matching():
    x, y = batch(0, 1, 2)
    order = torch.tensor([2, 0, 1])
    figures = score(x[order], x, victim(), y[order], y)
    assert figures["label_accuracy"] == 1
    assert figures["psnr"] == 120
    assert figures["ssim"] == pytest.approx(1)
    assert score(x[order], x, victim(), y, y)["label_accuracy"] == 0


def test_clamping_forgives_what_nobody_would_see_and_raw_errors_do_not():
    x = torch.ones(1, 1, 8, 8)
    figures = score(x * 3, x, victim())
    assert figures["mse_clamped"] == 0
    assert figures["mse_raw"] == pytest.approx(4)


def test_errors_are_in_parts_of_the_box():
    wide = Victim("lenet", (1, 8, 8), 10, low=-1.0, high=3.0)
    x = torch.zeros(1, 1, 8, 8)
    assert score(x + 1, x, wide)["mse_clamped"] == pytest.approx(1 / 16)
    assert psnr(0.01) == pytest.approx(20)


def test_a_distance_is_the_plain_length_of_what_networks_are_given():
    wide = Victim("lenet", (1, 8, 8), 10, low=-1.0, high=3.0)
    x = torch.zeros(2, 1, 8, 8)
    guess = torch.stack([torch.full((1, 8, 8), 1.0), torch.full((1, 8, 8), 10.0)])
    # Not clamped, not in parts of the box: 8 and 80, in the mean over the batch.
    assert score(guess, x, wide)["distance"] == pytest.approx(44)


def test_the_mean_image_beats_zeros_and_both_beat_a_random_start():
    x, _ = batch(*range(10))
    start = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    trivial = baselines(x, victim(), start)
    assert trivial["mean"]["psnr"] > trivial["zeros"]["psnr"] + 1
    assert trivial["zeros"]["psnr"] > trivial["start"]["psnr"]
    assert trivial["start"]["mse_raw"] > trivial["start"]["mse_clamped"]


def test_ssim_knows_structure_from_brightness():
    x, _ = batch(0)
    inverted, brighter = 1 - x, (x + 0.05).clamp(max=1)
    assert float(ssim(inverted, x)) < 0
    assert float(ssim(brighter, x)) > 0.8
    assert float(ssim(torch.rand(1, 3, 2, 2), torch.rand(1, 3, 2, 2)).isnan())


def test_tables_have_a_cosine_and_nothing_that_is_for_images():
    about = Victim("mlp", (5,), 2)
    figures = score(torch.tensor([[2.0, 0, 0, 0, 0]]), torch.tensor([[0.5, 0, 0, 0, 0]]), about)
    assert figures["cosine"] == pytest.approx(1)
    assert not {"ssim", "psnr"} & figures.keys()


def test_a_search_that_ran_away_to_nan_gets_the_worst_score_and_not_an_error():
    x, _ = batch(0)
    assert score(torch.full_like(x, float("nan")), x, victim())["psnr"] == 0


def pixels(path):
    from matplotlib.image import imread

    return imread(path)[..., :3]


def test_the_grid_has_one_row_per_example_and_shows_truth_first(tmp_path):
    x, _ = batch(0, 1)
    start = torch.zeros_like(x)
    draw_grid(tmp_path / "one.png", victim(), x[:1], x[:1], [(0, start[:1])], "dsgt", "30 dB")
    draw_grid(tmp_path / "two.png", victim(), x, x, [(0, start)], "dsgt", "30 dB", "note")
    draw_grid(tmp_path / "unknown.png", victim(), x, None, [(0, start)], "lppa")
    one, two = pixels(tmp_path / "one.png"), pixels(tmp_path / "two.png")
    assert two.shape[0] > one.shape[0] and two.shape[1] == one.shape[1]
    assert one.shape[1] >= 800  # room for a caption
    third = one.shape[1] // 3
    dark = [(one[:, k * third : (k + 1) * third] < 0.1).all(-1).mean() for k in range(3)]
    assert dark[1] > dark[0]  # the start is black, the truth is not


def test_a_long_way_is_thinned_to_what_fits_and_tables_are_drawn_as_bars(tmp_path):
    about = Victim("mlp", (5,), 2)
    rows = torch.rand(1, 5, generator=torch.Generator().manual_seed(0))
    way = [(k, rows * k / 50) for k in range(51)]
    draw_grid(tmp_path / "table.png", about, rows, rows, way, "dsgt, round 0")
    assert pixels(tmp_path / "table.png").shape[1] < 1700


def test_curves_are_drawn_over_rounds_and_over_beta(tmp_path):
    points = {"difference/dlg": [(0, 60.0), (1, 61.0)], "naive/dlg": [(0, 5.0), (0, 7.0)]}
    draw_curves(tmp_path / "rounds.png", points, "round", "psnr", {"mean": 12.0}, "lppa")
    points = {"naive/dlg": [(0.0, 60.0), (0.025, 8.0), (0.5, 4.0)]}
    draw_curves(tmp_path / "deep" / "beta.png", points, "beta", "mse_clamped")
    for path in (tmp_path / "rounds.png", tmp_path / "deep" / "beta.png"):
        assert (pixels(path) < 0.9).any(-1).sum() > 1000
