"""Inversions that weigh the vector against what images look like: `cosine` and `likelihood`.

They are for what `dlg` is not: networks with kinks and small weights, and vectors with noise.
"""

from __future__ import annotations

import math

from torch import Tensor

from lppa.attack.descent import Lbfgs, SignedAdam
from lppa.attack.guess import Guess
from lppa.attack.labels import label_guesses
from lppa.attack.priors import cosine_distance, outside, total_variation, unlike_the_mean
from lppa.attack.problem import Problem
from lppa.attack.restarts import Options, Patience, Reconstruction, search
from lppa.attack.target import Target, Victim

COSINE_STEPS = 600
COSINE_VARIATION = 1e-4

LIKELIHOOD_STEPS = 60
SMOOTHNESS = 1.0
"""How much −log prior a step of the whole box between two pixels costs: exp(−|step|)."""
WALL = 1e3
"""−log prior of a pixel that is out of the box by the box's whole width, times two."""
EXACT = 1e-3
"""Without noise, the deviation that is assumed in its place, in parts of the vector's rms."""


def cosine(target: Target, victim: Victim, options: Options) -> Reconstruction:
    """The direction of the gradient only, with smooth images, in the box (Geiping et al., 2020).

    Assumes that the labels can be read off the last layer, that images are smooth and that their
    range is known. Works for ReLU networks and for small weights, where squares are all but flat;
    knows nothing of noise.
    """
    problem = Problem(target, victim, options.dtype)
    guess = Guess(problem, joint=False)
    steps = options.steps or COSINE_STEPS

    def loss(rows: Tensor, fixed: Tensor) -> Tensor:
        images, labels = guess.read(rows, fixed)
        angle = cosine_distance(problem.gradient(images, labels), problem.vector)
        return angle + COSINE_VARIATION * total_variation(images, victim) / images[0].numel()

    restarts = options.restarts
    descent = SignedAdam(
        loss,
        guess.around_mean(restarts, options.seed, spread=0.5),
        guess.fixed(restarts, label_guesses(problem)),
        steps,
        rate=0.1 * (victim.high - victim.low),
        box=lambda point: point.clamp(victim.low, victim.high),
    )
    patience = Patience(done=0.0, window=steps)  # the rate's schedule says when it is over
    return search(descent, guess.answer, steps, options, 1.0, patience)


def likelihood(target: Target, victim: Victim, options: Options) -> Reconstruction:
    """The likeliest image under the known noise: squares / σ², plus a prior from public data.

    Assumes that the noise's deviation is known, as it is to whoever knows rule, β and topology,
    and takes the noise to be normal; that the labels can be read off the last layer, whose row
    sums average the noise out; and that public data of the same kind tells mean and covariance
    (else, that images are smooth). Starts from the mean image, where the true one is not far.
    """
    problem = Problem(target, victim, options.dtype)
    guess = Guess(problem, joint=False)
    size = problem.vector.numel()
    sigma = target.sigma or EXACT * math.sqrt(problem.norm2 / size)

    def loss(rows: Tensor, fixed: Tensor) -> Tensor:
        images, labels = guess.read(rows, fixed)
        misfit = (problem.gradient(images, labels) - problem.vector).square().sum(1)
        prior = WALL * outside(images, victim) + unlike_the_mean(images, victim)
        if victim.prior_root is None:  # a covariance knows how pixels go together, and better
            prior = prior + SMOOTHNESS * total_variation(images, victim)
        return misfit / (2 * sigma**2) + prior

    restarts = options.restarts
    descent = Lbfgs(
        loss,
        guess.around_mean(restarts, options.seed),
        guess.fixed(restarts, label_guesses(problem)),
        search=True,
    )
    # What is left at the truth: half a unit per coordinate, and the prior on top.
    patience = Patience(done=0.0, close=1.0, close_window=2, progress=1e-3, window=8)
    steps = options.steps or LIKELIHOOD_STEPS
    return search(descent, guess.answer, steps, options, float(size), patience)
