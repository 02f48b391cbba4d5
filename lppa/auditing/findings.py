"""What an audit finds, as types: the content of audit.json, and of its parts.

Noise is a number in units of β, "exact" where there is none, or "mixed" where something cannot be
told apart from others' by linear means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lppa.auditing.assemble import Hidden
from lppa.auditing.grade import worst
from lppa.coordinator.figures import Figures, Guarantee, Protection, read

Noise = float | str


@dataclass(frozen=True, eq=False)
class Pair(Figures):
    """What attackers who pool what they know learn of one victim.

    `noise` has what is left of it by target; in a file, targets are keys like all others. `ratio`
    is the least noise over an example's share of the gradient, None where there is none.
    """

    attackers: list[int]
    victim: int
    noise: Mapping[str, Noise]
    ratio: float | None
    grade: str

    def __iter__(self) -> Iterator[str]:
        return iter(("attackers", "victim", *self.noise, "ratio", "grade"))

    def __getitem__(self, name: str) -> Any:
        return self.noise[name] if name in self.noise else super().__getitem__(name)

    @classmethod
    def read_parts(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """From audit.json."""
        parts = super().read_parts(content)
        return {**parts, "noise": {k: v for k, v in content.items() if k not in parts}}


@dataclass(frozen=True, eq=False)
class Dropout(Figures):
    """What is left of a victim's noise, against attackers that stay, when one neighbour leaves."""

    victim: int
    gone: int
    attackers: list[int]
    noise: Noise
    ratio: float | None
    grade: str


@dataclass(frozen=True, eq=False)
class Thresholds(Figures):
    """The ratios that part the grades."""

    open_below: float
    hidden_from: float


@dataclass(frozen=True, eq=False)
class RoundTold(Figures):
    """What is in the way of one round's gradient, and of the change from the one before."""

    round: int
    gradient: Noise
    change: Noise | None
    ratio: float | None
    grade: str


@dataclass(frozen=True, eq=False)
class PerRound(Figures):
    """What one pair tells round by round."""

    attackers: list[int]
    victim: int
    rounds: list[RoundTold]

    @classmethod
    def read_parts(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """From audit.json."""
        rounds = [RoundTold.from_dict(one) for one in content["rounds"]]
        return {**super().read_parts(content), "rounds": rounds}


@dataclass(frozen=True, eq=False)
class ViewAudit(Figures):
    """What a later view of the graph hides: nodes were lost, or came back.

    A view begins with fresh noise and fresh gradients, so that it is judged as a run of its own;
    what went before is judged as if the view before had gone on.
    """

    epoch: int
    first_round: int
    members: list[int]
    grade: str
    ratio: float | None


@dataclass(frozen=True, eq=False)
class AuditDocument(Figures):
    """All that an audit finds: the content of audit.json."""

    nodes: int
    topology: str
    rule: str
    noise_every: int
    mixing: str
    init: str
    rounds: int
    """The last whose messages are overheard, the first being 0."""
    beta: float
    beta_own: float
    targets: list[str]
    legend: str
    pairs: list[Pair]
    smallest: Mapping[str, list[int] | None]
    """By victim the fewest that together learn something of it exactly."""
    hide: Hidden | None
    thresholds: Thresholds
    grade: str
    verdict: list[str]
    advice: str | None
    bad: bool
    dropout: Dropout | None
    epsilon: Guarantee | None
    law: list[str]
    per_round: PerRound | None = None
    views: list[ViewAudit] = field(default_factory=list)
    """Of a run whose graph has changed, those after the first."""

    def left_out(self) -> tuple[str, ...]:
        """Rounds are looked at one by one only where that is asked for; most graphs stay."""
        without = ("per_round",) if self.per_round is None else ()
        return without if self.views else (*without, "views")

    @property
    def ratio(self) -> float | None:
        """The least of all pairs that have one."""
        return min((p.ratio for p in self.pairs if p.ratio is not None), default=None)

    @property
    def protection(self) -> Protection:
        """What of it stands in a run's summary: the worst of all views."""
        grade = worst((self.grade, *(view.grade for view in self.views)))
        ratios = [self.ratio, *(view.ratio for view in self.views)]
        least = min((ratio for ratio in ratios if ratio is not None), default=None)
        return Protection(grade, least, self.epsilon)

    @classmethod
    def read_parts(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """From audit.json; raises KeyError, TypeError or AttributeError if it is none."""
        return {
            **super().read_parts(content),
            "pairs": [Pair.from_dict(pair) for pair in content["pairs"]],
            "hide": read(Hidden, content["hide"]),
            "thresholds": Thresholds.from_dict(content["thresholds"]),
            "dropout": read(Dropout, content["dropout"]),
            "epsilon": read(Guarantee, content["epsilon"]),
            "per_round": read(PerRound, content.get("per_round")),
            "views": [ViewAudit.from_dict(view) for view in content.get("views", [])],
        }


@dataclass(frozen=True, eq=False)
class Compared(Figures):
    """What matters of one topology's audit; `refused` says why there is none."""

    topology: str
    grade: str | None
    beta: float = 0.0
    noise: Noise = "mixed"
    ratio: float | None = None
    smallest: int | None = None
    bytes: int | None = None
    spectral_gap: float = 0.0
    refused: str | None = None

    def left_out(self) -> tuple[str, ...]:
        """There are no figures of what was refused."""
        if self.refused is None:
            return ("refused",)
        return ("beta", "noise", "ratio", "smallest", "bytes", "spectral_gap")
