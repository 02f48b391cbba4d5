"""The figures that nodes report at an evaluation, each declared once.

How a report is checked, what of it stands in an evaluation over all clients, what is read back and
which curves are drawn all go by this table. Measuring them is not done here: a node does that.
"""

from __future__ import annotations

from dataclasses import dataclass

SPREAD, MEAN = "spread", "mean"
BAND = "Line: mean over clients; band: from the least to the greatest."


@dataclass(frozen=True)
class Curve:
    """How a figure is drawn over the rounds; the scale follows from its values."""

    title: str
    axis: str
    note: str = BAND
    percent: bool = False


@dataclass(frozen=True)
class Reported:
    """One figure of a node's report: a number, or None where there is nothing to measure.

    `over` says how those of all clients become one: as SPREAD, as MEAN, or not at all.
    """

    over: str | None = None
    needed: bool = False  # a report without it is refused
    curve: Curve | None = None


ACCURACY = Curve(
    "Test accuracy",
    "accuracy (%)",
    "Line: mean over clients; band: from the worst client to the best.",
    percent=True,
)
FIGURES: dict[str, Reported] = {
    "accuracy": Reported(SPREAD, needed=True, curve=ACCURACY),
    "loss": Reported(MEAN, needed=True, curve=Curve("Test loss", "mean over test set")),
    "gamma_norm": Reported(needed=True),
    "gradient_norm": Reported(needed=True),
    "noise_norm": Reported(),
    "noise_to_gradient": Reported(MEAN),
    "memory": Reported(),
    "theta_norm": Reported(),
    "chance": Reported(),
    "dead": Reported(),
    "example_rms": Reported(),
}


def combined(over: str | None = None) -> list[str]:
    """The figures that an evaluation over all clients has: all of them, or those of one kind."""
    return [name for name, one in FIGURES.items() if one.over and over in (None, one.over)]
