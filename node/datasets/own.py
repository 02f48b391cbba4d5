"""Data that people bring themselves: pairs of arrays, or any data set of PyTorch's kind.

Makes of them rows that can be taken by index, like those of the shipped data sets. Nothing is
shifted or scaled here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from lppa.node.datasets.samples import Samples, SparseSamples, is_classes
from lppa.protocol.errors import WrongUse


@dataclass(frozen=True, eq=False)
class Arrays:
    """Inputs and targets as tensors, row by row."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The rows as one batch; what is no whole number comes in the given floating type."""
        return _typed(self.x[rows], dtype), _typed(self.y[rows], dtype)

    def labels(self) -> np.ndarray | None:
        """The class of every row, None where targets are no classes."""
        return _classes(self.y)


@dataclass(frozen=True, eq=False)
class Items:
    """A data set that gives out (input, target) one by one."""

    items: Any

    def __len__(self) -> int:
        return len(self.items)

    def take(self, rows: np.ndarray, dtype: torch.dtype) -> tuple[Any, Tensor]:
        """The rows as one batch, stacked as PyTorch's own loader would."""
        x, y = default_collate([self.items[int(row)] for row in rows])
        return _typed(x, dtype), _typed(y, dtype)

    def labels(self) -> np.ndarray | None:
        """The class of every row; all of them are looked at, one by one."""
        return _classes(torch.as_tensor([self.items[i][1] for i in range(len(self))]))


Rows = Samples | SparseSamples | Arrays | Items


def as_rows(data: Any, what: str) -> Rows:
    """Somebody's data as rows; `what` names it in errors."""
    if isinstance(data, Samples | SparseSamples | Arrays | Items):
        return data
    if isinstance(data, tuple):
        if len(data) != 2:
            raise WrongUse(f"{what} must be a pair of inputs and targets, not {len(data)} things")
        x, y = (_tensor(part, what) for part in data)
        if len(x) != len(y) or not len(x):
            raise WrongUse(f"{what} has {len(x)} inputs and {len(y)} targets")
        return Arrays(x, y)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        if not len(data):
            raise WrongUse(f"{what} is empty")
        first = data[0]
        if not isinstance(first, Sequence) or len(first) != 2:
            raise WrongUse(f"{what} must give out pairs of input and target, not {type(first)}")
        return Items(data)
    raise WrongUse(
        f"{what} must be a pair of arrays or a torch Dataset, not a {type(data).__name__}"
    )


def labels_of(rows: Rows) -> np.ndarray | None:
    """The class of every row, None where there are none."""
    if isinstance(rows, Samples | SparseSamples):
        return rows.y if is_classes(rows.y) else None
    return rows.labels()


def _tensor(part: Any, what: str) -> Tensor:
    try:
        return torch.as_tensor(part)
    except (TypeError, ValueError, RuntimeError) as error:
        raise WrongUse(f"{what} holds what is no array of numbers: {error}") from None


def _typed(part: Any, dtype: torch.dtype) -> Any:
    if isinstance(part, Tensor):
        return part.to(dtype) if part.is_floating_point() else part
    return part


def _classes(y: Tensor) -> np.ndarray | None:
    if y.dim() != 1 or y.is_floating_point():
        return None
    return y.numpy().astype(np.int64)
