"""How large the experiments are: the numbers, in one place.

What is run with them is in `experiments`; how the paper's setting is read in `readings`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lppa.reproduce import paper

Rows = tuple[int, int] | None
"""Rows for training and testing in a small copy of a data set; None: the whole set."""

CLIENTS = 5
ATTACKER = CLIENTS - 1


@dataclass(frozen=True)
class Size:
    """One scale of the whole; a cell of one size is never taken for a cell of another."""

    name: str
    seeds: int
    """Of everything but table 1, which has `first_seeds`."""
    first_seeds: int
    betas: tuple[float, ...]
    """The paper varies β from 0.025 to 0.5."""
    local_steps: tuple[int, ...]
    """The paper varies "the number of local updates" from 5 to 80."""
    local_rounds: int
    """Rounds of that, as many as the paper has, whatever the reading: 80 updates in each of 600
    rounds would be days."""
    clients: tuple[int, ...]
    """The paper does not say which numbers of clients it tried."""
    victims: tuple[int, ...]
    restarts: int
    inversion: str
    """The paper's is dlg. `svd` is exact for one sample and an mlp, and takes no time."""
    curve_rounds: tuple[int, ...]
    """Rounds whose messages are attacked for the curve over rounds."""
    shorter: int = 1
    """Rounds of training are the reading's divided by this."""
    tests: int | None = None
    """In a training run; None: as the reading has it."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What training runs of this size have otherwise than the reading."""
    copies: tuple[tuple[str, Rows], ...] = ()
    other_copies: Rows = None

    def rows(self, dataset: str) -> Rows:
        """How much of a data set is used."""
        return dict(self.copies).get(dataset, self.other_copies)


FULL = Size(
    name="full",
    seeds=3,
    first_seeds=5,
    betas=(0.025, 0.05, 0.1, 0.25, 0.5),
    local_steps=(5, 10, 20, 40, 80),
    local_rounds=50,
    clients=(5, 10, 20, 40),
    victims=(0, 1, 2),
    restarts=4,
    inversion="dlg",
    curve_rounds=(0, 1, 2, 5, 10, 20, 30, 40, 48),
)
# The paper's steps on its pixels learn nothing in so few rounds, so that there would be nothing to
# compare.
QUICK = Size(
    name="quick",
    seeds=1,
    first_seeds=2,
    betas=(0.025, 0.5),
    local_steps=(5, 10),
    local_rounds=10,
    clients=(5, 10),
    victims=(0,),
    restarts=2,
    inversion="dlg",
    curve_rounds=(0, 8),
    shorter=5,
    tests=5,
    changes={"batch": 32, "normalize": True, "lr": 0.1},
    copies=(("digits", None),),
    other_copies=(1500, 500),
)
# What the tests run: everything once, as small as it can be.
TINY = Size(
    name="tiny",
    seeds=1,
    first_seeds=1,
    betas=(0.025,),
    local_steps=(2,),
    local_rounds=2,
    clients=(5, 3),
    victims=(0,),
    restarts=1,
    inversion="svd",
    curve_rounds=(0, 1),
    shorter=200,
    tests=2,
    changes={"batch": 32},
    other_copies=(200, 100),
)


def default_datasets(size: Size) -> tuple[str, ...]:
    """All of the paper's; the small sizes make do with digits, and MNIST where it is at hand."""
    if size.name == "full":
        return paper.DATASETS
    if size.name == "quick" and os.environ.get("LPPA_DATA"):
        return ("mnist", "digits")
    return ("digits",)
