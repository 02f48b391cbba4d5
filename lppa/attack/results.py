"""attacks/summary.json: the results of all attacks on a run, kept over calls.

A repeated attack takes the place of its earlier result. How results are shown is `tables`' matter.
"""

from __future__ import annotations

import fcntl
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lppa.coordinator.figures import Figures
from lppa.protocol.files import write_atomically

Scores = Mapping[str, float | None]
"""Figures by name: which, depends on the data. None where one is no number."""

KEY = ("attack", "attackers", "victim", "round")
"""What makes two results those of the same attack."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackResult(Figures):
    """What was attacked, in what run, and what came out; as in attacks/summary.json.

    Without the truth there is no score, and unless labels were counted no histogram's error.
    """

    attack: str
    attackers: list[int]
    victim: int
    round: int
    rule: str
    beta: float
    noise_every: int
    dataset: str | None
    model: str | None
    batch: int
    batches: str
    topology: str
    nodes: int
    sigma: float | None = None
    """Deviation of the noise that the attacker knows to be left."""
    loss: float | None = None
    iterations: int = 0
    seconds: float
    labels: list[Any] = field(default_factory=list)
    picture: str | None = None
    score: Scores | None = None
    baselines: Mapping[str, Scores] | None = None
    """The same for guesses that need no message."""
    histogram_error: float | None = None
    histogram_error_uniform: float | None = None

    def left_out(self) -> tuple[str, ...]:
        """What was not measured."""
        measured = ("score", "baselines", "histogram_error", "histogram_error_uniform")
        return tuple(name for name in measured if getattr(self, name) is None)

    def of_score(self, name: str) -> float | None:
        """A figure of the attack; None where it has none."""
        return (self.score or {}).get(name)

    def of_guess(self, guess: str, name: str) -> float | None:
        """A figure of a guess; None where it has none."""
        return (self.baselines or {}).get(guess, {}).get(name)


def read_results(folder: Path) -> list[AttackResult]:
    """All results that a run's directory has; none where nothing was attacked."""
    return [AttackResult.from_dict(result) for result in _kept(folder)]


def _kept(folder: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads((folder / "attacks" / "summary.json").read_text())
    except FileNotFoundError:
        return []
    return found


def keep(folder: Path, result: AttackResult) -> None:
    """Adds a result; several attackers on one machine may do so at the same time."""
    with (folder / "attacks" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        merged = merge(_kept(folder), result.to_dict())
        write_atomically(folder / "attacks" / "summary.json", json.dumps(merged, indent=2) + "\n")


def merge(results: Sequence[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The results with a new one, in the place of the one that it repeats or at the end."""
    same = [_key(result) == _key(new) for result in results]
    if not any(same):
        return [*results, new]
    return [new if repeated else old for old, repeated in zip(results, same, strict=True)]


def finite(value: Any) -> Any:
    """The value with None for every number that JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return value


def _key(result: dict[str, Any]) -> list[Any]:
    return [result.get(name) for name in KEY]
