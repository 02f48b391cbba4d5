"""How much noise is left in what attackers have, once they have taken out what they know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from lppa.attack.knowledge import Knowledge


def without_known_noise(
    known: Knowledge, victim: int, t: int, vector: Tensor
) -> tuple[Tensor, float]:
    """Takes out the attackers' own share of round t's noise; returns the deviation of the rest."""
    settings = known.settings
    if not known.noise_due(t):
        return vector, 0.0
    if known.rule.own_noise:
        return vector, math.sqrt(2.0) * settings.scale
    share, terms = known.known_noise(victim, t)
    left = vector if share is None else vector - share
    unknown = max(0, edges_of(known, victim, t) - terms)
    # Nobody else knows the victim's own independent noise.
    variance = 2.0 * (unknown * settings.scale**2 + settings.beta_own**2)
    return left, math.sqrt(variance)


def all_noise(known: Knowledge, victim: int, t: int) -> float:
    """The deviation of all noise in γ of round t as it was sent, with that of earlier rounds as it
    was mixed since; NaN for later rounds where W is not known."""
    if known.rule.noiseless:
        return 0.0
    if known.W is None and t > 0:
        return math.nan
    if known.W is None:
        shared, own = _variances(known)
        return math.sqrt(2.0 * (edges_of(known, victim, 0) * shared + own))
    # What is left in γ of the noise that each node added in round s.
    shares = {s: np.linalg.matrix_power(known.W, t - s)[victim] for s in range(t + 1)}
    return noise_of(known, known.W, shares)


def noise_of(known: Knowledge, W: np.ndarray, shares: Mapping[int, np.ndarray]) -> float:
    """The deviation of a sum of noise: by round, what every node's noise is multiplied with."""
    shared, own = _variances(known)
    edges = W > 0
    np.fill_diagonal(edges, False)
    variance = 0.0
    for s in filter(known.noise_due, shares):
        share = shares[s]
        # A draw for an edge is added at one end and taken off at the other.
        variance += shared * float(np.square(share[:, None] - share)[edges].sum())
        variance += own * float(np.square(share).sum())
    return math.sqrt(2.0 * variance)


def _variances(known: Knowledge) -> tuple[float, float]:
    """Half the variance of a draw for an edge, and of one for oneself."""
    settings = known.settings
    if known.rule.own_noise:
        return 0.0, settings.scale**2
    return settings.scale**2, settings.beta_own**2


def edges_of(known: Knowledge, victim: int, t: int) -> int:
    """How many noise terms the victim's difference has: its edges in and out."""
    if known.W is not None:
        around = (known.W[victim] > 0).sum() + (known.W[:, victim] > 0).sum()
        return int(around) - 2
    # Without W the attacker takes it that noise flows both ways wherever anything does.
    return 2 * (len(known.heard(max(0, t - 1))) - 1)
