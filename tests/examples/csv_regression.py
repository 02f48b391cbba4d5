"""A regression from a CSV with a metric of its own: how far the guess is off in half of the cases.

lppa run --problem csv_regression.py:problem -n 4 --topology ring
"""

import csv
import os
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import mse_loss

import lppa

TARGET = "target"


def table(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != TARGET]
    x = torch.tensor([[float(row[name]) for name in names] for row in rows])
    y = torch.tensor([[float(row[TARGET])] for row in rows])
    return (x - x.mean(0)) / x.std(0), y


def half_off_by(guess: torch.Tensor, truth: torch.Tensor) -> float:
    return float((guess - truth).abs().median())


def problem() -> lppa.Problem:
    x, y = table(Path(os.environ["TABLE"]))
    test = torch.arange(len(x)) % 5 == 0
    return lppa.Problem(
        lambda: nn.Sequential(nn.Linear(x.shape[1], 16), nn.Tanh(), nn.Linear(16, 1)),
        train=(x[~test], y[~test]),
        test=(x[test], y[test]),
        loss=mse_loss,
        metrics={"half_off_by": half_off_by},
        name="table",
    )
