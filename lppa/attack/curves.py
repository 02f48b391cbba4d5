"""Curves from results: over the rounds that were attacked, and over β where runs differ in it.

The paper's Fig. 3b and 5b, with what guesses without any message would get as level lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lppa.attack.picture import draw_curves
from lppa.attack.results import AttackResult
from lppa.attack.tables import noise
from lppa.models.rules import facts_of

FILES = {"psnr": "psnr", "mse_clamped": "mse", "cosine": "cosine"}
GUESSES = ("zeros", "mean", "start")


def draw_over_rounds(folder: Path, results: Sequence[AttackResult]) -> list[Path]:
    """A run's own results over rounds, one curve for each attack, where several were attacked."""
    title = f"{noise(results[0])} on {results[0].dataset}" if results else ""
    return _draw(folder, "round", results, lambda r: r.round, lambda r: r.attack, title)


def draw_over_beta(folder: Path, results: Sequence[AttackResult]) -> list[Path]:
    """The results of several runs over the scale of their noise, one curve per attack and rule."""
    title = f"round {results[0].round}, {results[0].dataset}" if results else ""
    return _draw(folder, "beta", results, scale, _rule, title)


def scale(result: AttackResult) -> float:
    """β, and 0 where there is no noise."""
    return 0.0 if facts_of(result.rule).noiseless else result.beta


def _rule(result: AttackResult) -> str:
    often = result.noise_every and not facts_of(result.rule).noiseless
    every = f", noise every {result.noise_every}" if often else ""
    return f"{result.attack}, {result.rule}{every}"


def _draw(
    folder: Path,
    over: str,
    results: Sequence[AttackResult],
    x: Callable[[AttackResult], float],
    name: Callable[[AttackResult], str],
    title: str,
) -> list[Path]:
    scored = [result for result in results if result.of_score("mse_clamped") is not None]
    if len({x(result) for result in scored}) < 2:
        return []
    images = any("psnr" in (result.score or {}) for result in scored)
    paths = []
    for figure in ("psnr", "mse_clamped") if images else ("cosine", "mse_clamped"):
        curves: dict[str, list[tuple[float, float]]] = {}
        for result in scored:
            reached = result.of_score(figure)
            if reached is not None:
                curves.setdefault(name(result), []).append((x(result), reached))
        path = folder / f"{FILES[figure]}-over-{over}{'s' if over == 'round' else ''}.png"
        draw_curves(path, curves, over, figure, _levels(scored, figure), title)
        paths.append(path)
    return paths


def _levels(results: Sequence[AttackResult], figure: str) -> dict[str, float]:
    """The mean figure of each guess that needs no message."""
    found = {guess: [r.of_guess(guess, figure) for r in results] for guess in GUESSES}
    there = {guess: [v for v in values if v is not None] for guess, values in found.items()}
    return {guess: float(np.mean(values)) for guess, values in there.items() if values}
