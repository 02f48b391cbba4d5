"""Deep leakage from gradients (Zhu et al., 2019), and iDLG (Zhao et al., 2020).

The attack itself and nothing else: random images and labels are changed until they give the
vector that was observed. Restarts, patience and scores are elsewhere.
"""

from __future__ import annotations

from torch import Tensor

from lppa.attack.descent import Lbfgs
from lppa.attack.guess import Guess
from lppa.attack.labels import label_guesses
from lppa.attack.problem import Problem
from lppa.attack.restarts import Options, Reconstruction, search
from lppa.attack.target import Target, Victim

STEPS = 300


def dlg(target: Target, victim: Victim, options: Options) -> Reconstruction:
    """Least squares on the gradient; labels are unknown and searched for with the images.

    Assumes that the vector is exact: noise in it is reproduced like anything else, by images that
    have nothing to do with the truth. Needs a smooth network, weights that are not small, and few
    images.
    """
    problem = Problem(target, victim, options.dtype)
    return match_squares(problem, Guess(problem, joint=True), None, options)


def idlg(target: Target, victim: Victim, options: Options) -> Reconstruction:
    """As dlg, but with labels that the last layer's gradient gives away before the search.

    Assumes what dlg does, and that features before the last layer are not negative (sigmoid,
    ReLU). One image per batch: where the vector leaves several labels possible, they share the
    restarts. Larger batches: the labels of the estimated histogram.
    """
    problem = Problem(target, victim, options.dtype)
    labels = label_guesses(problem)
    return match_squares(problem, Guess(problem, joint=False), labels, options)


def match_squares(
    problem: Problem, guess: Guess, labels: list[Tensor] | None, options: Options
) -> Reconstruction:
    """L-BFGS from random starts on ‖gradient of the guess − vector‖²."""

    def distance(rows: Tensor, fixed: Tensor) -> Tensor:
        return (problem.gradient(*guess.read(rows, fixed)) - problem.vector).square().sum(1)

    restarts = options.restarts
    start = guess.random(restarts, options.seed)
    descent = Lbfgs(distance, start, guess.fixed(restarts, labels))
    return search(descent, guess.answer, options.steps or STEPS, options, problem.norm2)
