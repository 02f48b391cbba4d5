"""How near a reconstruction is to the truth, and how near one comes without any attack.

The only module here that is shown the truth; it is called when the attack is over.
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import avg_pool2d

from lppa.attack.target import Victim

WINDOW = 7


def match(images: Tensor, truth: Tensor) -> Tensor:
    """For every true example, which reconstructed one is meant: least squares over all pairings.

    Both are (batch size, *shape); a gradient does not tell the order of its batch.
    """
    distance = torch.cdist(images.flatten(1).double(), truth.flatten(1).double()).square()
    rows, columns = linear_sum_assignment(distance.nan_to_num(1e30).cpu().numpy())
    order = torch.empty(len(rows), dtype=torch.long)
    order[torch.as_tensor(columns)] = torch.as_tensor(rows)
    return order


def score(
    images: Tensor | None,
    truth: Tensor,
    victim: Victim,
    labels: Tensor | None = None,
    true_labels: Tensor | None = None,
) -> dict[str, float]:
    """The figures of one batch, (batch size, *shape), after matching.

    Errors are in parts of the box, so that 1 is the whole range of a pixel; PSNR and SSIM are of
    the clamped images, as a person would see them. `mse_raw` is not clamped: it says how far a
    search ran away. `distance` is ‖x̂ − x‖₂ of what networks are given, not clamped either, and the
    mean over the batch. PSNR and SSIM are means over the batch. For tables the cosine similarity is
    what counts, and there is no PSNR or SSIM. Without images only the labels are scored, as counts.
    """
    figures: dict[str, float] = {}
    order = None
    if images is not None:
        width = victim.high - victim.low
        clamped = images.clamp(victim.low, victim.high)
        order = match(clamped, truth)
        raw, seen, true = ((part - victim.low) / width for part in (images, clamped, truth))
        raw, seen, true = raw[order].double(), seen[order].double(), true.double()
        errors = (seen - true).square().flatten(1).mean(1)
        flat, flat_truth = images[order].flatten(1).double(), truth.flatten(1).double()
        figures["mse_raw"] = float((raw - true).square().mean())
        figures["distance"] = float((flat - flat_truth).norm(dim=1).mean())
        figures["mse_clamped"] = float(errors.mean())
        if len(victim.shape) == 3:
            figures["psnr"] = float(torch.stack([psnr(error) for error in errors]).mean())
            figures["ssim"] = float(ssim(seen, true).mean())
        cosines = torch.nn.functional.cosine_similarity(flat, flat_truth)
        figures["cosine"] = float(cosines.mean())
    if labels is not None and true_labels is not None:
        labels, true_labels = labels.reshape(-1).cpu(), true_labels.reshape(-1).long().cpu()
        if order is not None:
            figures["label_accuracy"] = float((labels[order] == true_labels).double().mean())
        else:
            figures["label_accuracy"] = 1 - histogram_error(
                shares(labels, victim.classes), shares(true_labels, victim.classes)
            )
    return figures


def baselines(
    truth: Tensor, victim: Victim, start: Tensor | None = None
) -> dict[str, dict[str, float]]:
    """The same figures for guesses that need no message: zeros, mean image, unoptimised start."""
    guesses = {
        "zeros": torch.zeros_like(truth),
        "mean": victim.mean_image().to(truth).expand_as(truth),
    }
    if start is not None:
        guesses["start"] = start.to(truth)
    return {name: score(guess, truth, victim) for name, guess in guesses.items()}


def psnr(error: Tensor | float, limit: float = 120.0) -> Tensor:
    """Decibels of a mean squared error whose peak is 1; a perfect match counts as `limit`."""
    error = torch.as_tensor(error, dtype=torch.float64)
    return (-10 * torch.log10(error.clamp(min=10 ** (-limit / 10)))).nan_to_num(0.0)


def ssim(images: Tensor, truth: Tensor) -> Tensor:
    """Structural similarity of each pair of images in [0, 1] (Wang et al., 2004).

    With a flat window of 7 by 7, or the largest odd one that a smaller image holds; variances
    are those of a sample, as scikit-image has them.
    """
    side = min(WINDOW, *images.shape[-2:])
    side -= 1 - side % 2
    if side < 2:
        return torch.full((len(images),), math.nan)
    count = side * side

    def mean(part: Tensor) -> Tensor:
        return avg_pool2d(part, side, stride=1)

    a, b = mean(images), mean(truth)
    sample = count / (count - 1)
    var_a = sample * (mean(images * images) - a * a)
    var_b = sample * (mean(truth * truth) - b * b)
    both = sample * (mean(images * truth) - a * b)
    c1, c2 = 0.01**2, 0.03**2
    top = (2 * a * b + c1) * (2 * both + c2)
    ratio: Tensor = top / ((a * a + b * b + c1) * (var_a + var_b + c2))
    return ratio.flatten(1).mean(1)


def shares(labels: Tensor, classes: int) -> Tensor:
    """How large a part of the batch each label is."""
    return torch.bincount(labels.long().cpu(), minlength=classes).double() / len(labels)


def histogram_error(found: Tensor, true: Tensor) -> float:
    """Total-variation distance of two label histograms: the part that has a wrong label."""
    return float((found.double() - true.double()).abs().sum() / 2)


def uniform_error(true: Tensor) -> float:
    """The same for the guess that all labels are equally frequent."""
    return histogram_error(torch.full_like(true.double(), 1 / len(true)), true)
