"""How large the experiments are, and how the paper's setting is read: the numbers, in one place.

What is run with them is in `experiments`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lppa.protocol.settings import PRESETS
from lppa.reproduce import paper

Rows = tuple[int, int] | None
"""Rows for training and testing in a small copy of a data set; None: the whole set."""

# See docs/reading-the-paper.md. `stable` changes the three things that make the paper's setting
# unstable on images, and nothing else; `one-update` also takes the paper's own words for a local
# epoch, "the number of local updates performed before sending", for its default of 1.
STABLE = {
    **PRESETS["paper"],
    "mixing": "adapt-then-combine",
    "init": "common",
    "normalize": True,
}
READINGS: dict[str, dict[str, Any]] = {
    "paper": PRESETS["paper"],
    "stable": STABLE,
    "one-update": {**STABLE, "local_steps": 1},
}

CLIENTS = 5
ATTACKER = CLIENTS - 1


@dataclass(frozen=True)
class Size:
    """One scale of the whole; a cell of one size is never taken for a cell of another."""

    name: str
    seeds: int
    rounds: int
    batch: int
    eval_every: int
    image_tests: int
    """Test rows for images, the same for all rules of a seed; 0: all. Tables use all."""
    betas: tuple[float, ...]
    """The paper varies β from 0.025 to 0.5."""
    local_steps: tuple[int, ...]
    """The paper varies "the number of local updates" from 5 to 80."""
    clients: tuple[int, ...]
    """The paper does not say which numbers of clients it tried."""
    victims: tuple[int, ...]
    restarts: int
    inversion: str
    """The paper's is dlg. `svd` is exact for one sample and an mlp, and takes no time."""
    attack_seeds: int
    curve_rounds: tuple[int, ...]
    """Rounds whose messages are attacked for the curve over rounds."""
    reading: str = "paper"
    """The reading that is taken where none is asked for."""
    steps: tuple[tuple[str, float], ...] = ()
    """λ of training runs by data set; the reading's where there is none."""
    copies: tuple[tuple[str, Rows], ...] = ()
    other_copies: Rows = None

    def rows(self, dataset: str) -> Rows:
        """How much of a data set is used."""
        return dict(self.copies).get(dataset, self.other_copies)


FULL = Size(
    name="full",
    seeds=5,
    rounds=50,
    batch=256,
    eval_every=5,
    image_tests=0,
    betas=(0.025, 0.05, 0.1, 0.25, 0.5),
    local_steps=(5, 10, 20, 40, 80),
    clients=(5, 10, 20, 40),
    victims=(0, 1, 2),
    restarts=4,
    inversion="dlg",
    attack_seeds=5,
    curve_rounds=(0, 1, 2, 5, 10, 20, 30, 40, 48),
)
# Ten rounds of the paper's setting learn nothing on so few rows, so that there would be nothing to
# compare; nor do steps of 0.05 on 1,500 rows of MNIST always end well.
QUICK = Size(
    name="quick",
    seeds=2,
    rounds=10,
    batch=32,
    eval_every=2,
    image_tests=0,
    betas=(0.025, 0.5),
    local_steps=(5, 10),
    clients=(5, 10),
    victims=(0,),
    restarts=2,
    inversion="dlg",
    attack_seeds=1,
    curve_rounds=(0, 8),
    reading="stable",
    steps=(("mnist", 0.02),),
    copies=(("digits", None),),
    other_copies=(1500, 500),
)
# What the tests run: everything once, as small as it can be.
TINY = Size(
    name="tiny",
    seeds=1,
    rounds=2,
    batch=32,
    eval_every=1,
    image_tests=0,
    betas=(0.025,),
    local_steps=(2,),
    clients=(5, 3),
    victims=(0,),
    restarts=1,
    inversion="svd",
    attack_seeds=1,
    curve_rounds=(0, 1),
    other_copies=(200, 100),
)


def default_datasets(size: Size) -> tuple[str, ...]:
    """All of the paper's; the small sizes make do with digits, and MNIST where it is at hand."""
    if size.name == "full":
        return paper.DATASETS
    if size.name == "quick" and os.environ.get("LPPA_DATA"):
        return ("mnist", "digits")
    return ("digits",)
