"""What comes of a run, as types: one evaluation of all clients, and the summary.

They are made by `metrics`; JSON files have their fields as keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from lppa.coordinator.reported import MEAN, SPREAD, combined

Kind = TypeVar("Kind", bound="Figures")

ENDED = ("completed", "doubtful")  # how a run can come to its end: as it seems, or not
FAILED, INTERRUPTED = "failed", "interrupted"


class Figures(Mapping[str, Any]):
    """A dataclass that can be read like the mapping that it is in a file, too.

    So that people at a prompt may write `summary["accuracy"]["mean"]`; our own code uses
    attributes. Equal to any mapping with the same content.
    """

    def left_out(self) -> tuple[str, ...]:
        """Fields that are no keys, since there is nothing to say."""
        return ()

    def __iter__(self) -> Iterator[str]:
        without = self.left_out()
        return (one.name for one in fields(self) if one.name not in without)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in iter(self):
            raise KeyError(name)
        return getattr(self, name)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: plain(value) for name, value in self.items()}

    @classmethod
    def from_dict(cls: type[Kind], content: Mapping[str, Any]) -> Kind:
        """From JSON; what is no field of it is left out."""
        return cls(**cls.read_parts(content))

    @classmethod
    def read_parts(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """By field what it is made of."""
        known = {one.name for one in fields(cls)}  # type: ignore[arg-type]
        return {name: value for name, value in content.items() if name in known}


def plain(value: Any) -> Any:
    """The value with mappings and lists that JSON can hold."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


@dataclass(frozen=True, eq=False)
class Spread(Figures):
    """A figure over all clients."""

    mean: float
    min: float
    max: float


@dataclass(frozen=True, eq=False)
class Accuracy(Spread):
    """That of the last evaluation, and the best mean of any."""

    best: float


@dataclass(frozen=True, eq=False)
class Row(Figures):
    """One evaluation over all clients; None where a client has nothing to measure.

    As a mapping it has the reported figures among its own keys.
    """

    round: int
    reported: Mapping[str, Spread | float | None] = field(default_factory=dict)
    """What the clients told, by name: those of `reported.FIGURES` that are combined."""
    consensus: float | None = None
    conservation: float | None = None
    metrics: Mapping[str, Spread | None] = field(default_factory=dict)
    """What else a problem is judged by."""

    @property
    def accuracy(self) -> Spread | None:
        """Over the test set; None where there are no classes."""
        return as_spread(self.reported.get("accuracy"))

    @property
    def loss(self) -> float | None:
        """Over the test set."""
        return as_number(self.reported.get("loss"))

    @property
    def noise_to_gradient(self) -> float | None:
        """How large the noise is beside the gradient."""
        return as_number(self.reported.get("noise_to_gradient"))

    @property
    def plain(self) -> dict[str, float | None]:
        """All figures that are one number."""
        told = {name: as_number(self.reported.get(name)) for name in combined(MEAN)}
        return {**told, "consensus": self.consensus, "conservation": self.conservation}

    @property
    def spreads(self) -> dict[str, Spread | None]:
        """All figures that have a mean, a least and a greatest."""
        told = {name: as_spread(self.reported.get(name)) for name in combined(SPREAD)}
        return {**told, **self.metrics}

    def __iter__(self) -> Iterator[str]:
        return iter(("round", *combined(), "consensus", "conservation", "metrics"))

    def __getitem__(self, name: str) -> Any:
        return self.reported.get(name) if name in combined() else super().__getitem__(name)

    @classmethod
    def read_parts(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """From a line of history.jsonl."""
        told: dict[str, Any] = {name: content.get(name) for name in combined()}
        told |= {name: read(Spread, told[name]) for name in combined(SPREAD)}
        return super().read_parts(content) | {"reported": told, "metrics": read_metrics(content)}


def as_spread(value: Spread | float | None) -> Spread | None:
    """The value if it is a spread."""
    return value if isinstance(value, Spread) else None


def as_number(value: Spread | float | None) -> float | None:
    """The value if it is one number."""
    return None if isinstance(value, Spread) else value


@dataclass(frozen=True, eq=False)
class Seconds(Figures):
    """A run's own, and below them a client's on average, by phase and for a round.

    `cpu` is what the processor spent on a client's rounds, evaluations included, which unlike the
    others does not grow because a machine is busy with something else.
    """

    total: float
    start: float
    compute: float
    exchange: float
    eval: float
    round: float
    cpu: float = 0.0


@dataclass(frozen=True, eq=False)
class Bytes(Figures):
    """What all clients sent."""

    noise: int
    state: int


@dataclass(frozen=True, eq=False)
class Guarantee(Figures):
    """(ε, δ) of one release, and of a whole run where one holds, whoever colludes."""

    release: float
    run: float | None
    delta: float
    releases: int


@dataclass(frozen=True)
class Protection:
    """What of an audit stands in a summary; nothing where none was made."""

    grade: str | None = None
    noise_to_example: float | None = None
    """The least noise over an example's share of the gradient, over all pairs that have one."""
    epsilon: Guarantee | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended: with what error, at which node, in which round."""

    status: str
    error: str | None = None
    node: int | None = None
    round: int | None = None

    @property
    def ended(self) -> bool:
        """Whether the run came to its end."""
        return self.status in ENDED


@dataclass(frozen=True, eq=False)
class Summary(Figures):
    """What came of a run: the content of summary.json."""

    status: str
    error: str | None
    node: int | None
    """Where a run failed."""
    round: int | None
    """When a run failed or was interrupted."""
    name: str
    rule: str
    dataset: str | None
    partition: str
    model: str | None
    nodes: int
    topology: str
    rounds: int
    finish: int
    rounds_done: int
    """The round that all nodes have reached."""
    accuracy: Accuracy | None
    loss: float | None
    consensus: float | None
    conservation: float | None
    metrics: Mapping[str, Spread | None]
    seconds: Seconds
    bytes: Bytes
    memory: float | None
    """Bytes that a node takes on average."""
    peak: float | None
    """The most bytes that any node ever had in memory, those that it shares included."""
    grade: str | None
    noise_to_example: float | None
    epsilon: Guarantee | None
    warnings: list[str]
    history: list[Row]

    @property
    def ended(self) -> bool:
        """Whether the run came to its end."""
        return self.status in ENDED

    def left_out(self) -> tuple[str, ...]:
        """A run that came to its end has no place where it did not."""
        if self.status == FAILED:
            return ()
        return ("node",) if self.status == INTERRUPTED else ("node", "round")

    @classmethod
    def read_parts(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """From summary.json; raises KeyError, TypeError or AttributeError if it is none."""
        return {
            **{"node": None, "round": None, "peak": None},
            **super().read_parts(content),
            "accuracy": read(Accuracy, content["accuracy"]),
            "metrics": read_metrics(content),
            "seconds": Seconds.from_dict(content["seconds"]),
            "bytes": Bytes.from_dict(content["bytes"]),
            "epsilon": read(Guarantee, content["epsilon"]),
            "history": [Row.from_dict(row) for row in content["history"]],
        }


def read(kind: type[Kind], content: Mapping[str, Any] | None) -> Kind | None:
    """Figures from JSON that may be null."""
    return None if content is None else kind.from_dict(content)


def read_metrics(content: Mapping[str, Any]) -> dict[str, Spread | None]:
    """What else a problem is judged by; runs of old have none."""
    return {name: read(Spread, found) for name, found in content.get("metrics", {}).items()}
