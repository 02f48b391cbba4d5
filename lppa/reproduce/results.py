"""What comes of a cell, as types, and as a line of `cells.jsonl` has it.

How it is made is in `work`; how cells are kept in `cells`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

COMPLETED, DIVERGED = "completed", "diverged"
SCORES = ("distance", "mse_raw", "mse_clamped", "psnr", "ssim", "cosine", "label_accuracy")


@dataclass(frozen=True)
class Attacked:
    """What is kept of an attack: its scores, and what guesses without any message get.

    Not every attack has every score: there is no PSNR for rows of a table. A file has the scores
    beside the rest.
    """

    attack: str
    victim: int
    round: int
    scores: Mapping[str, float | None]
    guesses: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        where = {"attack": self.attack, "victim": self.victim, "round": self.round}
        return {**where, **self.scores, "guesses": dict(self.guesses)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Attacked:
        """From JSON."""
        scores = {name: content[name] for name in SCORES if name in content}
        where = (content["attack"], content["victim"], content["round"])
        return cls(*where, scores, content["guesses"])


@dataclass(frozen=True)
class CellResult:
    """What is kept of a run: the best mean accuracy (the paper's), the last, and the curve.

    Also what it hid and what it sent; results of old do not have these.
    """

    status: str
    diverged_in: int | None = None
    best: float | None = None
    final: float | None = None
    curve: tuple[tuple[int, float], ...] = ()
    rows: tuple[int, int] | None = None
    """For training and testing; None where there is no data."""
    doubtful: bool = False
    loss: float | None = None
    grade: str | None = None
    noise_to_example: float | None = None
    bytes: Mapping[str, float] | None = None
    attacks: tuple[Attacked, ...] = ()
    pictures: Mapping[str, str] = field(default_factory=dict)
    """Files, by attack."""
    distances: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """Of guesses from the data: mean, least, most; see `distances`."""
    seconds: float = 0.0

    @property
    def diverged(self) -> bool:
        """Whether the run came to an end before its time since it diverged."""
        return self.status == DIVERGED

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; what only attacks have is left out where there is none."""
        plain = asdict(self) | {"attacks": [one.to_dict() for one in self.attacks]}
        alone = ("attacks", "pictures", "distances")
        return {name: value for name, value in plain.items() if value or name not in alone}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> CellResult:
        """From JSON; raises KeyError or TypeError if it is none."""
        known = {one.name for one in fields(cls)}
        parts = {name: value for name, value in content.items() if name in known}
        parts["curve"] = tuple((at, value) for at, value in content.get("curve", ()))
        if content.get("rows") is not None:
            parts["rows"] = tuple(content["rows"])
        parts["attacks"] = tuple(map(Attacked.from_dict, content.get("attacks", ())))
        return cls(**parts)
