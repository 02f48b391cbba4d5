"""What images look like before any message is seen, as penalties on guesses, one number each.

Only what is public: neighbouring pixels are alike, values lie in a box, and data of this kind has
a mean and perhaps a known covariance.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lppa.attack.target import Victim

KINK = 0.05  # below this difference, in parts of the box, variation is taken to be smooth

SPREAD = 0.6  # the part of the largest possible variance that pixels have
LEAST = 0.01  # no pixel is taken to be more constant than this


def total_variation(images: Tensor, victim: Victim) -> Tensor:
    """The sum of the steps between neighbouring pixels, in parts of the box; 0 for tables."""
    if len(victim.shape) < 3:
        return images.new_zeros(len(images))
    images = images / (victim.high - victim.low)
    return _smooth_size(images.diff(dim=-1)) + _smooth_size(images.diff(dim=-2))


def _smooth_size(steps: Tensor) -> Tensor:
    """The sum of absolute values, rounded off at zero."""
    return ((steps.square() + KINK**2).sqrt() - KINK).flatten(1).sum(1)


def outside(images: Tensor, victim: Victim) -> Tensor:
    """Half the sum of squares of what lies out of the box, in parts of the box."""
    over = (images - victim.high).clamp(min=0) + (victim.low - images).clamp(min=0)
    return (over / (victim.high - victim.low)).square().flatten(1).sum(1) / 2


def unlike_the_mean(images: Tensor, victim: Victim) -> Tensor:
    """−log of a normal prior around the mean example.

    Where the covariance is not known, the mean also tells how far values stray from it: a number
    in [0, 1] of mean m has a variance of at most m (1 − m), so that a border which is always black
    stays so.
    """
    if victim.prior_root is not None:
        off = (images - victim.mean_image().to(images)).view(-1, len(victim.prior_root))
        unusual = (off @ victim.prior_root.to(images).T).square().sum(1) / 2
        return unusual.view(len(images), -1).sum(1)
    width = victim.high - victim.low
    mean = victim.mean_image().to(images)
    share = ((mean - victim.low) / width).clamp(0, 1)
    variance = SPREAD * (share * (1 - share)).clamp(min=LEAST)
    return (((images - mean) / width).square() / (2 * variance)).flatten(1).sum(1)


def cosine_distance(a: Tensor, b: Tensor) -> Tensor:
    """1 − cosine of the angle between each row and a vector."""
    lengths: Tensor = a.norm(dim=1) * b.norm()
    return 1 - (a @ b) / lengths.clamp(min=torch.finfo(a.dtype).tiny)
