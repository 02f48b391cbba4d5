"""How much noise hides an image: measures docs/protection-curve.csv and protection-labels.csv.

Usage: python scripts/protection_curve.py measure [VICTIMS]   goes on where it stopped
       python scripts/protection_curve.py labels              labels alone, for many more victims
mnist needs LPPA_DATA. One thread, some seconds for each attack. scripts/protection_figure.py shows
what came out.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import torch

from lppa.attack.protection import (
    CLASS_PRIOR,
    OBSERVED,
    Exposed,
    attack,
    class_priors,
    first_gradient,
    judge,
    read_label,
    root_mean_square,
    with_noise,
)
from lppa.attack.restarts import Options
from lppa.attack.scene import public_knowledge
from lppa.attack.target import Victim
from lppa.node.datasets import load_dataset
from lppa.protocol.settings import Settings, make_settings

DOCS = Path(__file__).parent.parent / "docs"
CURVE, LABELS = DOCS / "protection-curve.csv", DOCS / "protection-labels.csv"
PLACES = (
    ("digits", "lenet"),
    ("digits", "cnn"),
    ("digits", "mlp"),
    ("mnist", "lenet"),
    ("mnist", "cnn"),
)
COARSE = (0.03, 0.3, 1.0, 3.0, 10.0, 30.0)
FINE = (5.5, 17.0)
NEAR = (10.0, 17.0, 30.0)
"""Where noise begins to hide images: the victims that are added are attacked here."""
OPEN = (0.003, 0.01, 0.1)
"""Here every image is rebuilt: one victim shows it."""
CHANGES = (3.0, 10.0, 30.0)
CHANGED = (("digits", "lenet"), ("digits", "mlp"), ("mnist", "lenet"))
FEW, VICTIMS, LABELLED = 3, 6, 50
RESTARTS = 2
# Steps and not seconds bound a search, so that results do not depend on how busy the machine is.
STEPS = {"likelihood": 30, CLASS_PRIOR: 30, "cosine": 300, "idlg": 40, "dlg": 40, "svd": None}


@dataclass(frozen=True)
class Case:
    """One attack; no two cases are alike in all of this."""

    dataset: str
    network: str
    observation: str
    ratio: float
    victim: int
    attack: str


def plan(victims: int) -> Iterator[Case]:
    """All cases, the coarse answer first; whenever it is interrupted, victims are even."""
    few, more = range(min(FEW, victims)), range(FEW, victims)
    yield from _cases(few, COARSE)
    yield from _cases(few, FINE)
    yield from _cases(more, NEAR)
    for victim, where, ratio in product(few, CHANGED, CHANGES):
        yield Case(*where, "difference", ratio, victim, "likelihood")
    yield from _cases(range(1), OPEN)


def _cases(victims: range, ratios: tuple[float, ...]) -> Iterator[Case]:
    for victim, where, ratio in product(victims, PLACES, ratios):
        for name in attacks(where[1], ratio):
            yield Case(*where, "gradient", ratio, victim, name)


def attacks(network: str, ratio: float) -> Iterator[str]:
    """Which attacks are worth their time: those that do not know of noise, only where it is low."""
    yield "likelihood"
    if ratio > 0.1:
        yield CLASS_PRIOR
    if network == "lenet" and ratio in OPEN:
        yield from ("idlg", "dlg")
    if network == "cnn" and ratio <= 1:
        yield "cosine"
    if network == "mlp":
        yield "svd"


@lru_cache
def place(dataset: str, network: str) -> tuple[Settings, Victim, list[Victim]]:
    """A run's settings, and what is public: of all data, and of each class."""
    settings = make_settings({"dataset": dataset, "model": network, "batch": 1})
    data = load_dataset(dataset, normalize=settings.normalize)
    about = public_knowledge(settings, data)
    return settings, about, class_priors(data, about)


@lru_cache
def exposed(dataset: str, network: str, observation: str, victim: int) -> Exposed:
    """What a victim would show without noise."""
    return OBSERVED[observation](place(dataset, network)[0], victim)


def run(case: Case) -> list[dict[str, Any]]:
    """A row for each image of the attack."""
    _, about, classes = place(case.dataset, case.network)
    shown = exposed(case.dataset, case.network, case.observation, case.victim)
    target = with_noise(shown, case.ratio, case.victim)
    options = Options(RESTARTS, steps=STEPS[case.attack], seed=case.victim)
    images, labels, seconds = attack(case.attack, target, about, classes, options)
    more = {
        "rms": f"{shown.rms:.4g}",
        "signal": f"{root_mean_square(shown.target.vector):.4g}",
        "seconds": f"{seconds:.1f}",
    }
    return [
        {**vars(case), **{k: round(v, 3) for k, v in row.items()}, **more}
        for row in judge(shown, images, labels, about, classes)
    ]


def read(path: Path) -> list[dict[str, Any]]:
    """The rows that are there, numbers as numbers."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)]


def append(path: Path, rows: list[dict[str, Any]]) -> None:
    """Adds rows, and the heading to a new file."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and "." not in text else value


def measure(victims: int = VICTIMS) -> None:
    """Makes the attacks that are not in the file yet."""
    names = [f.name for f in fields(Case)]
    done = {Case(*(row[name] for name in names)) for row in read(CURVE)}
    for case in plan(victims):
        if case not in done:
            append(CURVE, run(case))
            done.add(case)


def measure_labels() -> None:
    """How many labels can be read at each ratio: no search, so that many victims can be asked."""
    done = {(row["dataset"], row["network"]) for row in read(LABELS)}
    for dataset, network in PLACES:
        if (dataset, network) in done:
            continue
        settings, about, _ = place(dataset, network)
        shown = [first_gradient(settings, victim) for victim in range(LABELLED)]
        for ratio in sorted({*OPEN, *COARSE, *FINE, *NEAR, 100.0}):
            right = [
                int(read_label(with_noise(one, ratio, k), about) == one.labels[0, 0])
                for k, one in enumerate(shown)
            ]
            row = {"dataset": dataset, "network": network, "ratio": ratio}
            append(LABELS, [{**row, "victims": len(right), "right": sum(right)}])


if __name__ == "__main__":
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["measure", *victims]:
            measure(*map(int, victims))
        case ["labels"]:
            measure_labels()
        case _:
            sys.exit(__doc__)
